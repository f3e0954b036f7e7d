// All error codes of the platform with status and meaning. A Refusal accepts only these. SQLSTATEs and PGRST codes are passed
// through.
import { authErrors } from './auth-errors.ts'
import { backupsErrors } from './backups-errors.ts'
import { branchesErrors } from './branches-errors.ts'
import type { ErrorMeaning } from './error-meaning.ts'
import { functionsErrors } from './functions-errors.ts'
import { pitrErrors } from './pitr-errors.ts'
import { storageErrors } from './storage-errors.ts'
import { upgradeErrors } from './upgrade-errors.ts'
import { webhooksErrors } from './webhooks-errors.ts'

export const errorCodes = {
  invalid_request: {
    status: 400,
    meaning: 'The path, query or body does not have the declared shape; the message names the field.',
  },
  invalid_json: { status: 400, meaning: 'The body is not valid JSON.' },
  confirmation_mismatch: {
    status: 400,
    meaning: '`confirm` is not the name of the object to delete; nothing was done.',
  },
  sql_error: {
    status: 400,
    meaning:
      'Postgres rejected a statement of the project’s owner; the message has its text, SQLSTATE and line.',
  },
  migration_failed: {
    status: 400,
    meaning:
      'Postgres rejected a statement of a migration, which was rolled back; the message has version, name, line and statement.',
  },
  smtp_not_configured: {
    status: 400,
    meaning: 'Neither the project nor the deployment has an SMTP server; mail is captured locally.',
  },
  sql_timeout: {
    status: 400,
    meaning: 'A statement of the project’s owner took longer than the route allows and was rolled back.',
  },
  not_an_integer: {
    status: 400,
    meaning:
      'Cache: the value is not a 64-bit integer, or the result would exceed 64 bits; nothing was changed.',
  },
  wrong_type: {
    status: 400,
    meaning: 'Cache: the key has the type hash, list, set or zset, which this route does not support.',
  },
  invalid_schedule: {
    status: 400,
    meaning: 'The schedule is neither five cron fields nor `N seconds`; the message says what is wrong.',
  },
  ...storageErrors,
  ...functionsErrors,
  ...backupsErrors,
  ...upgradeErrors,
  ...pitrErrors,
  ...branchesErrors,
  ...webhooksErrors,
  PGRST100: {
    status: 400,
    meaning: 'The query string is invalid: an unknown operator, or a malformed select, filter or order.',
  },
  PGRST102: {
    status: 400,
    meaning: 'The body is not a row or a list of rows, or the rows have different keys.',
  },
  PGRST103: { status: 400, meaning: '`limit` or `offset` is not a non-negative integer.' },
  PGRST108: {
    status: 400,
    meaning: 'A filter, order or limit names an embedded relation that `select` does not contain.',
  },
  PGRST114: { status: 400, meaning: 'PUT does not accept `limit` or `offset`.' },
  PGRST115: {
    status: 400,
    meaning: 'The primary key in the body of PUT differs from the one in its filters.',
  },
  PGRST118: { status: 400, meaning: 'Rows can be ordered by a to-one relation only.' },
  PGRST120: {
    status: 400,
    meaning: 'An embedded relation itself can only be filtered by `is.null` or `not.is.null`.',
  },
  PGRST122: { status: 400, meaning: 'The request has `handling=strict` and an unknown preference.' },
  PGRST124: {
    status: 400,
    meaning: 'The write affected more rows than `max-affected` allows and was rolled back.',
  },
  PGRST127: { status: 400, meaning: 'This combination is not supported; `details` says which.' },
  PGRST128: { status: 400, meaning: '`max-affected` needs a function that returns a set.' },
  PGRST200: { status: 400, meaning: 'There is no foreign key between the two tables.' },
  PGRST201: {
    status: 400,
    meaning: 'More than one relationship matches; `details` lists them, a hint after `!` selects one.',
  },
  PGRST203: { status: 400, meaning: 'More than one function matches the given arguments.' },
  PGRST204: {
    status: 400,
    meaning: 'A column named in the body or in `columns` does not exist, or embeds nest deeper than 5.',
  },
  '42703': { status: 400, meaning: 'A column named in select, a filter or order does not exist.' },
  ...authErrors,
  PGRST301: {
    status: 401,
    meaning: 'The token is not a JWT that this project has signed; the message says why.',
  },
  PGRST302: {
    status: 401,
    meaning: 'The row API was called without a credential; send a key of the project.',
  },
  PGRST303: {
    status: 401,
    meaning: 'The JWT has expired, is not valid yet, or has an invalid claim; refresh the session.',
  },
  unauthorized: {
    status: 401,
    meaning:
      'No valid credential; the message says whether it is missing, unknown, expired, revoked or for the other plane.',
  },
  invalid_login: { status: 401, meaning: 'E-mail and password do not match an active platform user.' },
  insufficient_scope: {
    status: 403,
    meaning: 'The credential is valid but lacks the required scope, which the message names.',
  },
  role_not_allowed: {
    status: 403,
    meaning: 'The role of the key may not call this data-plane route; the message names the allowed roles.',
  },
  session_required: {
    status: 403,
    meaning: 'Only a platform user can do this: send the token of a session (`POST /platform/login`).',
  },
  owner_required: {
    status: 403,
    meaning:
      'Only an owner of the project, a super_admin or an admin token can assign or remove the role owner.',
  },
  invite_mismatch: {
    status: 403,
    meaning: 'The invite is for another e-mail address, or `user_id` is not the user of the session.',
  },
  sql_not_permitted: {
    status: 403,
    meaning: 'The owner of the project may not do this in the database; statements never run as superuser.',
  },
  schema_reserved: {
    status: 403,
    meaning: 'The schema belongs to the platform or to Postgres and cannot be changed through this route.',
  },
  quota_not_yours: {
    status: 403,
    meaning:
      'Only the operator can set quotas: a super_admin, the admin token or a platform token with admin scope. Nothing was changed.',
  },
  project_suspended: { status: 403, meaning: 'The project is suspended; resume it to serve traffic again.' },
  PGRST125: { status: 404, meaning: 'The row API has no resource at this path.' },
  PGRST202: { status: 404, meaning: 'No function has this name and takes these arguments.' },
  PGRST205: { status: 404, meaning: 'No table or view has this name in the schema.' },
  route_not_found: { status: 404, meaning: 'No route has this method and path.' },
  project_not_found: { status: 404, meaning: 'No project has this id, or it was deleted.' },
  user_not_found: { status: 404, meaning: 'No user has this id.' },
  invite_not_found: {
    status: 404,
    meaning: 'No invite is pending with this id or token: unknown, used, revoked or replaced by a newer one.',
  },
  member_not_found: { status: 404, meaning: 'The user is not a member of the project.' },
  token_not_found: { status: 404, meaning: 'No active platform token has this id.' },
  schema_not_found: { status: 404, meaning: 'The project has no schema with this name.' },
  table_not_found: { status: 404, meaning: 'The schema has no table with this name.' },
  column_not_found: { status: 404, meaning: 'The table has no column with this name.' },
  policy_not_found: { status: 404, meaning: 'The table has no policy with this name.' },
  query_not_found: { status: 404, meaning: 'The project has no saved query with this id.' },
  secret_not_found: { status: 404, meaning: 'The project has no secret with this name or id.' },
  provider_not_found: { status: 404, meaning: 'The project has no sign-in provider with this name.' },
  message_not_found: { status: 404, meaning: 'The locally captured mail has no message with this id.' },
  cache_key_not_found: { status: 404, meaning: 'The cache has no such key, or it has expired.' },
  queue_not_found: { status: 404, meaning: 'The project has no queue with this name.' },
  archived_message_not_found: {
    status: 404,
    meaning: 'The archive of the queue has no message with this id.',
  },
  job_not_found: { status: 404, meaning: 'The project has no scheduled job with this name.' },
  already_exists: { status: 409, meaning: 'An object of this kind with this name already exists.' },
  has_dependants: {
    status: 409,
    meaning: 'Other objects depend on the object; the message names them, and `cascade=true` drops them too.',
  },
  constraint_violated: {
    status: 409,
    meaning: 'Existing rows violate a constraint of the change; the message names the constraint.',
  },
  object_busy: {
    status: 409,
    meaning: 'Another session is changing or using the object; try again in a moment.',
  },
  mutation_by_get: { status: 405, meaning: 'GraphQL: a mutation is sent by POST; GET is for queries.' },
  PGRST101: { status: 405, meaning: 'Functions can only be called with GET, HEAD or POST.' },
  PGRST105: {
    status: 405,
    meaning: 'PUT needs a filter `column=eq.value` for each column of the primary key, and nothing else.',
  },
  PGRST117: { status: 405, meaning: 'Tables do not support this method.' },
  PGRST106: { status: 406, meaning: 'The schema named in Accept-Profile or Content-Profile is not exposed.' },
  PGRST107: { status: 406, meaning: 'None of the media types in Accept can be produced here.' },
  PGRST116: {
    status: 406,
    meaning: 'One row was requested and the result has none or several; a write was rolled back.',
  },
  migration_changed: {
    status: 409,
    meaning: 'A migration was already applied with a different text; no migration of the push was applied.',
  },
  migrations_busy: {
    status: 409,
    meaning: 'Another push or reset is running on this project; try again after it ends.',
  },
  slug_taken: { status: 409, meaning: 'Another project has this slug.' },
  email_taken: { status: 409, meaning: 'Another platform user has this e-mail address.' },
  already_member: { status: 409, meaning: 'A member of the project already has this e-mail address.' },
  too_many_invites: { status: 409, meaning: 'The project has 1000 pending invites; revoke some of them.' },
  too_many_secrets: { status: 409, meaning: 'The project has 200 secrets; delete some of them.' },
  too_many_jobs: {
    status: 409,
    meaning: 'The project has 1000 scheduled jobs, or 4,000,000 bytes of SQL in them; remove some.',
  },
  retrofit_required: {
    status: 409,
    meaning:
      'The project’s database lacks the queue functions: restart the platform, which upgrades the database. Messages of existing queues can be sent and read.',
  },
  asymmetric_signing_disabled: {
    status: 409,
    meaning:
      'The project signs access tokens with HS256 and has no signing keys; set `jwt_algorithm` to `ES256` first.',
  },
  too_many_signing_keys: {
    status: 409,
    meaning:
      'Ten replaced signing keys of the project still verify tokens; the message says when the first ends.',
  },
  last_owner: {
    status: 409,
    meaning: 'The change would leave a project without an active owner; make another member owner first.',
  },
  last_super_admin: { status: 409, meaning: 'The last active super_admin cannot be deleted or demoted.' },
  project_busy: {
    status: 409,
    meaning:
      'The project is being created, deleted, backed up or restored right now; try again when it has ended.',
  },
  dump_too_large: {
    status: 422,
    meaning:
      'The rows or the schema are too large for one answer; read them with pg_dump over the direct connection.',
  },
  schema_too_large: {
    status: 409,
    meaning:
      'The exposed schemas of the project have more tables, columns and functions than the row API or GraphQL can read; expose fewer schemas.',
  },
  invite_expired: { status: 410, meaning: 'The invite was not accepted in time; request a new one.' },
  database_quota_exceeded: {
    status: 413,
    meaning:
      'The database of the project is larger than its quota `max_database_size_mb`; nothing was written. `details` has the sizes. Reads, DELETE, `exec_sql` and migrations work.',
  },
  body_too_large: { status: 413, meaning: 'The body is larger than this route takes.' },
  cache_value_too_large: {
    status: 413,
    meaning:
      'The value does not fit into the cache of the project, bounded by its quota `max_cache_bytes`, or the requested values do not fit into one answer.',
  },
  unsupported_media_type: { status: 415, meaning: 'The body must be sent as application/json.' },
  invalid_broadcast: {
    status: 422,
    meaning: 'Realtime: a message lacks its topic, event or payload, or is too large; `errors` says which.',
  },
  upgrade_required: {
    status: 426,
    meaning: 'Realtime: this URL accepts only WebSocket connections.',
  },
  too_many_connections: {
    status: 429,
    meaning:
      'Realtime: the number of open sockets of the project has reached its quota `realtime_max_clients`.',
  },
  over_request_rate_limit: {
    status: 429,
    meaning: 'Too many requests in this time window; `Retry-After` has the seconds until it ends.',
  },
  login_locked: {
    status: 429,
    meaning:
      'Five logins from this IP address for this e-mail address failed; `Retry-After` has the seconds to wait.',
  },
  pool_exhausted: {
    status: 429,
    meaning:
      'All database connections of this project are busy; retry after the number of seconds in `Retry-After`.',
  },
  hashing_busy: { status: 429, meaning: 'Too many password checks are waiting; retry in a second.' },
  client_closed_request: {
    status: 499,
    meaning: 'The client closed the connection before the answer was ready.',
  },
  PGRST111: {
    status: 500,
    meaning:
      'A function set `response.headers` to something that is not a list of headers, or to more than 32 kB.',
  },
  PGRST112: {
    status: 500,
    meaning: 'A function set `response.status` to something that is not a status.',
  },
  PGRST121: { status: 500, meaning: "A function raised SQLSTATE 'PGRST' without the required JSON." },
  internal_error: {
    status: 500,
    meaning: 'Unexpected error in the platform. The log has the cause under the request id.',
  },
  schema_changing: {
    status: 503,
    meaning:
      'The schema changed repeatedly during the request; retry after the number of seconds in `Retry-After`.',
  },
  cache_unavailable: {
    status: 503,
    meaning:
      'The cache cannot be reached, has no memory left, or is held by another process of the platform.',
  },
  project_upgrading: {
    status: 503,
    meaning:
      "A new release is upgrading the project's database at this moment; retry after the number of seconds in `Retry-After`.",
  },
  project_upgrade_failed: {
    status: 503,
    meaning:
      "The project's database could not be upgraded to this release. The platform retries automatically; its log and the management API have the reason.",
  },
  disk_reserve_reached: {
    status: 503,
    meaning:
      'The disk of the platform has less free space than `PLATFORM_DISK_RESERVE_MB`; nothing was written. Reads and deletions work. `Retry-After` has the seconds to wait.',
  },
  database_unavailable: {
    status: 503,
    meaning: 'The database cannot be reached at the moment; retry shortly.',
  },
} as const satisfies Record<string, ErrorMeaning>

export type ErrorCode = keyof typeof errorCodes
