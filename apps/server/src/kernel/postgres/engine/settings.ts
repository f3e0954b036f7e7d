/** What every embedded cluster runs with. On the command line, so that neither file nor ALTER SYSTEM undoes it. */
export const engineSettings: Record<string, string> = {
  listen_addresses: '127.0.0.1',
  // Requests may hold 200, listeners to changes another 200.
  max_connections: '500',
  // Cloning, dropping and dumping a project's database locks every relation in it, in one transaction.
  max_locks_per_transaction: '1024',
  max_prepared_transactions: '0',
  // Live changes are told in the order in which they were committed.
  track_commit_timestamp: 'on',
  // Our statements take microseconds; compiling one takes milliseconds.
  jit: 'off',
  password_encryption: 'scram-sha-256',
  // The log is the operator's and must never hold a tenant's SQL or values. Errors carry values in their
  // message, detail and context; `log` is one above `error`. See also `quietSessions` in cluster.ts.
  log_min_messages: 'log',
  log_min_error_statement: 'panic',
  log_error_verbosity: 'terse',
  log_parameter_max_length: '0',
  log_parameter_max_length_on_error: '0',
  log_statement: 'none',
}

export function asArguments(settings: Record<string, string>): string[] {
  return Object.entries(settings).flatMap(([name, value]) => ['-c', `${name}=${value}`])
}

/** For unix_socket_directories, a list in which commas separate and double quotes protect. */
export function quotedDirectory(dir: string): string {
  return `"${dir.replaceAll('"', '""')}"`
}
