/** The whole environment of the programs of Postgres. */
export const engineEnvironment = { PATH: '/usr/local/bin:/usr/bin:/bin', LC_ALL: 'C', TZ: 'UTC' }

/** The settings of every embedded cluster. Passed on the command line, which overrides files and ALTER SYSTEM. */
export const engineSettings: Record<string, string> = {
  listen_addresses: '127.0.0.1',
  // Requests may use 200, realtime feeds another 200.
  max_connections: '500',
  // Cloning, dropping and dumping a project database locks every relation in it, in one transaction.
  max_locks_per_transaction: '1024',
  max_prepared_transactions: '0',
  // Realtime delivers row changes in commit order.
  track_commit_timestamp: 'on',
  // WAL that the archive has not received. An archive that was away longer has a gap, but the disk is not filled. Without
  // an archive there is no slot, and no WAL is kept.
  max_slot_wal_keep_size: '4GB',
  // Most statements take microseconds, and compiling one takes milliseconds.
  jit: 'off',
  password_encryption: 'scram-sha-256',
  // The operator's log must not contain SQL or values of tenants. Errors have values in their message, detail and context,
  // so the level is `log`, one above `error`. See also `quietSessions` in cluster.ts.
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

/** For unix_socket_directories, which is a comma-separated list with optional double quotes. */
export function quotedDirectory(dir: string): string {
  return `"${dir.replaceAll('"', '""')}"`
}
