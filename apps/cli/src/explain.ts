// Turns any error into a message and a suggestion.
import type { ReplyError } from '@plinth/contract/client.ts'
import type { Context } from './context.ts'
import { Failure } from './failure.ts'

export function explain(error: unknown, context: Pick<Context, 'connection'>): Failure {
  if (error instanceof Failure) return error
  if (isReplyError(error)) return refused(error)
  const url = context.connection?.url
  const network = url && networkError(error)
  if (network) return unreachable(url, network)
  const message = error instanceof Error ? error.message : String(error)
  return new Failure('internal_error', message, 'Run it again with --debug and report its output.', error)
}

// By name, because a command that never calls a server should not load the client.
const isReplyError = (error: unknown): error is ReplyError =>
  error instanceof Error && error.name === 'ReplyError'

const remedies = new Map<string, string>(
  Object.entries({
    unauthorized: 'Set PLATFORM_TOKEN to a token that is neither revoked nor expired.',
    insufficient_scope: 'Use a token with a larger scope: plinth token mint --name … --scope admin.',
    quota_not_yours:
      'Omit quotas, or use a token with admin scope on the platform: plinth token mint --name … --scope admin.',
    project_not_found: 'plinth projects list shows the projects.',
    token_not_found: 'plinth token list shows the tokens.',
    invite_not_found: 'plinth auth invites list shows the pending invites.',
    invite_expired: 'Ask for a new invite.',
    user_not_found: 'plinth auth users list shows the users.',
    session_not_found: 'plinth auth sessions list --user <user> shows the sessions.',
    weak_password: 'Choose a longer password.',
    member_not_found: 'plinth auth members list shows the members.',
    already_member: 'plinth auth members set-role changes the role of a member.',
    too_many_invites: 'plinth auth invites revoke revokes invites that are not needed.',
    last_owner: 'Make another member owner first: plinth auth members set-role <user> owner.',
    session_required:
      'Log in with POST /api/v1/platform/login and set PLATFORM_TOKEN to the token it returns.',
    schema_not_found: 'Name a schema of the project with --schema.',
    table_not_found: 'plinth schema tables shows the tables.',
    column_not_found: 'plinth schema tables <table> shows its columns.',
    policy_not_found: 'plinth rls policies shows the policies.',
    has_dependants: 'Run it again with --cascade to drop them as well.',
    object_busy: 'Wait a moment and run it again.',
    migration_failed:
      'Correct the migration and run it again. Migrations that are applied already are skipped.',
    migration_changed: 'Restore the file and write the change as a new migration.',
    migrations_busy: 'Wait until the other push or reset has ended.',
    dump_too_large: 'plinth projects pooler shows a connection string for pg_dump.',
    message_not_found: 'plinth projects mail shows the messages.',
    NoSuchBucket: 'plinth storage ls shows the buckets; plinth storage mb ss:///<bucket> creates one.',
    NoSuchKey: 'plinth storage ls ss:///<bucket> -r shows the files.',
    BucketAlreadyExists: 'plinth storage ls shows the buckets.',
    ResourceNotEmpty: 'Files were added meanwhile. Run it again.',
    InvalidBucketName: 'Choose a name of letters, digits, - and _.',
    InvalidKey:
      "Names may contain only the letters a to z, digits, spaces and _ / ! - . * ' ( ) & $ = @ ; : + , ?",
    InvalidMimeType: 'Name another type with --content-type, or use a bucket that accepts this one.',
    EntityTooLarge: 'plinth storage ls shows the maximum file size of each bucket.',
    storage_quota_exceeded:
      'Remove files with plinth storage rm, or ask the operator to raise max_storage_size_mb of the project.',
    database_quota_exceeded:
      'Delete rows and vacuum their tables, or ask the operator to raise max_database_size_mb of the project.',
    disk_reserve_reached:
      'The operator must free disk space on the platform; plinth health shows how much is missing.',
    StorageFull: 'The disk of the platform is full. Free space there and run it again.',
    FilesUnavailable: 'Wait a moment and run it again; plinth health shows the state.',
    FileDamaged: 'Upload the file again. The log of the platform has the cause under the request id.',
    function_not_found: 'plinth functions list shows the functions.',
    function_code_invalid: 'Correct the code and deploy it again. The running version stays.',
    function_too_large: 'Deploy fewer or smaller files.',
    packages_too_large: 'Import fewer or smaller packages.',
    too_many_functions:
      'Delete functions with plinth functions delete, or ask the operator to raise max_functions of the project.',
    registry_unreachable: 'Wait a moment and run it again. The running version stays.',
    functions_unavailable: 'Ask the operator of the platform to correct its installation.',
    webhook_not_found: 'plinth webhooks list shows the webhooks.',
    delivery_not_found: 'plinth webhooks deliveries <webhook> shows the deliveries.',
    delivery_not_dead:
      'plinth webhooks deliveries <webhook> --status dead_letter shows those that can be retried.',
    webhook_inactive: 'plinth webhooks update <webhook> --is-active true switches it on.',
    invalid_webhook_url:
      'Use a public http:// or https:// URL. plinth webhooks listen reaches a server on this machine.',
    invalid_webhook_event:
      'Events are user.created, user.updated, user.deleted, user.signed_in, user.signed_out, db.<schema>.<table>.<insert, update or delete>, db.<schema>.<table>.* and *; those of an attachment are insert, update and delete.',
    table_not_attachable: 'plinth schema tables shows the tables; --schema names another schema than public.',
    too_many_webhooks:
      'Delete webhooks with plinth webhooks delete, or ask the operator to raise max_webhooks of the project.',
    backup_not_found: 'plinth backup list shows the backups.',
    backup_unusable: 'plinth backup list shows which backups are done.',
    restore_not_found: 'plinth backup restores shows the restores.',
    restore_not_undoable:
      'plinth backup restores shows the backup of the state before; plinth backup restore restores it.',
    pitr_unavailable: 'plinth backup create makes a backup; docs/recovery.md says how to switch recovery on.',
    pitr_archive_behind: 'Wait a moment and run it again; plinth health shows the state.',
    target_in_future: 'plinth pitr restore-points shows the times that can be recovered.',
    target_outside_window: 'plinth pitr restore-points shows the times that can be recovered.',
    wal_gap: 'plinth pitr restore-points shows the times that can be recovered.',
    backup_quota_exceeded:
      'Keep fewer: plinth backup settings --retain-days or --retain-count; or ask the operator to raise max_backup_size_mb of the project.',
    branch_not_found: 'plinth branch list shows the branches.',
    branch_exists: 'Choose another name, or reset that branch: plinth branch reset <slug>',
    branch_not_ready: 'plinth branch list shows its state.',
    branch_of_branch: 'Create the branch of the parent: --project names it.',
    project_has_branches: 'Delete them first: plinth branch list and plinth branch delete <slug>',
    too_many_branches:
      'Delete branches with plinth branch delete, or ask the operator to raise max_branches of the project.',
    slug_taken: 'Choose another with --slug.',
    over_request_rate_limit: 'Wait a minute and run it again.',
    project_busy:
      'Wait and run it again; plinth backup list and plinth backup restores show tasks of backups.',
    internal_error: 'The log of the platform has the cause under the request id.',
    database_unavailable: 'Wait a moment and run it again; plinth health shows the state.',
    route_not_found:
      'The platform may have another version, or the URL may be wrong: plinth config show --origin.',
  }),
)

/** The errors of the platform say what is wrong. An answer without its code is that of a proxy or another server. */
function refused(error: ReplyError): Failure {
  const request = error.requestId ? ` (request id ${error.requestId})` : ''
  const sentence = error.message.replace(/\.$/, '')
  const [code, fix] =
    error.code === 'unknown'
      ? [`http_${error.status}`, 'Run it again with --debug to see the requests and responses.']
      : [error.code, remedies.get(error.code) ?? null]
  return new Failure(code, `${sentence}${request}.`, fix, error)
}

/** `fetch` wraps the error of the socket, `node:http` does not. */
function networkError(error: unknown): NodeJS.ErrnoException | undefined {
  if (error instanceof TypeError && error.message === 'fetch failed') return error.cause as Error
  return error instanceof Error && 'code' in error ? (error as NodeJS.ErrnoException) : undefined
}

function unreachable(url: string, error: NodeJS.ErrnoException): Failure {
  const [why, fix] = networkReasons[error.code ?? ''] ?? [error.message, 'Check the URL.']
  return new Failure('connection_failed', `${url} cannot be reached: ${why}.`, fix, error)
}

const networkReasons: Readonly<Record<string, readonly [why: string, fix: string]>> = {
  ECONNREFUSED: ['nothing listens there', 'Run plinth start, or name another platform with --url.'],
  ENOTFOUND: [
    'the host name is not known',
    'Check the URL: plinth config show --origin shows where it comes from.',
  ],
  EAI_AGAIN: ['the host name cannot be resolved now', 'Check the network and run it again.'],
  ECONNRESET: [
    'the connection was cut',
    'Run it again. If it fails again, check that the URL is the one of a platform.',
  ],
  UND_ERR_SOCKET: [
    'the connection was cut',
    'Run it again. If it fails again, check that the URL is the one of a platform.',
  ],
  EPIPE: ['the connection was cut', 'Run it again. If it fails again, see the log of the platform.'],
  ERR_STREAM_PREMATURE_CLOSE: [
    'the connection was cut',
    'Run it again. If it fails again, see the log of the platform.',
  ],
  ETIMEDOUT: ['it did not answer in time', 'Check the URL and the network.'],
  UND_ERR_CONNECT_TIMEOUT: ['it did not answer in time', 'Check the URL and the network.'],
  UND_ERR_HEADERS_TIMEOUT: [
    'it did not answer in time',
    'See its log: plinth status --local shows the path.',
  ],
  EPROTO: ['it does not speak TLS', 'Check whether the URL should begin with http:// instead.'],
  HPE_INVALID_CONSTANT: ['it does not speak HTTP', 'Check the URL.'],
  DEPTH_ZERO_SELF_SIGNED_CERT: ['its certificate is self-signed', 'Name the CA in NODE_EXTRA_CA_CERTS.'],
  SELF_SIGNED_CERT_IN_CHAIN: ['its certificate is self-signed', 'Name the CA in NODE_EXTRA_CA_CERTS.'],
  CERT_HAS_EXPIRED: ['its certificate has expired', 'Renew the certificate of the platform.'],
}
