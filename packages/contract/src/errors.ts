// All error codes of the platform with status and meaning. A Refusal accepts only these. SQLSTATEs and PGRST codes are passed
// through.

export interface ErrorMeaning {
  status: number
  meaning: string
}

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
  InvalidKey: {
    status: 400,
    meaning: 'Storage: the name of the object has characters or parts that are not allowed.',
  },
  InvalidBucketName: { status: 400, meaning: 'Storage: the name of the bucket is not allowed.' },
  InvalidRequest: {
    status: 400,
    meaning: 'Storage: the request is invalid; the message says what is wrong.',
  },
  InvalidJWT: {
    status: 400,
    meaning: 'Storage: the token of a signed URL is missing, malformed or not signed by this project.',
  },
  InvalidSignature: {
    status: 400,
    meaning: 'Storage: the token of a signed URL is for another object, or for another purpose.',
  },
  ExpiredToken: { status: 400, meaning: 'Storage: the signed URL has expired; sign a new one.' },
  AccessDenied: {
    status: 403,
    meaning: 'Storage: no policy allows the request, or the folder belongs to another user.',
  },
  NoSuchBucket: { status: 404, meaning: 'Storage: there is no such bucket, or the caller may not see it.' },
  NoSuchKey: { status: 404, meaning: 'Storage: there is no such object, or the caller may not see it.' },
  NoSuchUpload: { status: 404, meaning: 'Storage: there is no such resumable upload; it may have expired.' },
  KeyAlreadyExists: {
    status: 409,
    meaning: 'Storage: there is an object with this name; x-upsert: true replaces it.',
  },
  BucketAlreadyExists: { status: 409, meaning: 'Storage: there is a bucket with this name.' },
  ResourceNotEmpty: { status: 409, meaning: 'Storage: the bucket contains objects; empty it first.' },
  OffsetConflict: {
    status: 409,
    meaning: 'Storage: Upload-Offset is not the offset of the upload; HEAD returns it.',
  },
  UnsupportedTusVersion: { status: 412, meaning: 'Storage: Tus-Resumable must be 1.0.0.' },
  EntityTooLarge: {
    status: 413,
    meaning: 'Storage: the object exceeds the size limit of the bucket or of one request.',
  },
  storage_quota_exceeded: {
    status: 413,
    meaning:
      'Storage: the files of the project would take more than its quota `max_storage_size_mb`; nothing was stored.',
  },
  InvalidMimeType: { status: 415, meaning: 'Storage: the bucket does not accept files of this type.' },
  InvalidRange: {
    status: 416,
    meaning: 'Storage: the requested range is outside the object; Content-Range has its size.',
  },
  ResourceLocked: { status: 423, meaning: 'Storage: another request is appending to this upload right now.' },
  SlowDown: {
    status: 429,
    meaning:
      'Storage: too many images of the project wait to be rendered; retry after the number of seconds in `Retry-After`.',
  },
  FileDamaged: { status: 500, meaning: 'Storage: the stored file was modified or is incomplete.' },
  FilesUnavailable: {
    status: 503,
    meaning: 'Storage: the file storage cannot be reached at the moment.',
  },
  StorageFull: {
    status: 507,
    meaning: 'Storage: the disk for files is full; nothing was stored.',
  },
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
  validation_failed: {
    status: 400,
    meaning: 'Auth: a field is missing or invalid; the message names it.',
  },
  bad_json: { status: 400, meaning: 'Auth: the body is not valid JSON.' },
  invalid_credentials: { status: 400, meaning: 'Auth: the e-mail address or the password is wrong.' },
  email_not_confirmed: { status: 400, meaning: 'Auth: the address must be verified before signing in.' },
  phone_provider_disabled: {
    status: 400,
    meaning: 'Auth: phone numbers are not offered; use an e-mail address.',
  },
  session_expired: {
    status: 400,
    meaning: 'Auth: the session was not refreshed in time; sign in again.',
  },
  refresh_token_not_found: { status: 400, meaning: 'Auth: no session has this refresh token.' },
  refresh_token_already_used: {
    status: 400,
    meaning: 'Auth: the refresh token was already used, so its session was ended; sign in again.',
  },
  bad_code_verifier: {
    status: 400,
    meaning: 'Auth: the code verifier does not match the challenge of this flow.',
  },
  current_password_invalid: {
    status: 400,
    meaning: 'Auth: `current_password` is not the password of the user.',
  },
  provider_disabled: { status: 400, meaning: 'Auth: this provider is not enabled for the project.' },
  oauth_provider_not_supported: { status: 400, meaning: 'Auth: no provider has this name.' },
  bad_oauth_state: {
    status: 400,
    meaning: 'Auth: the `state` in the callback of the provider is unknown, used or expired.',
  },
  bad_oauth_callback: { status: 400, meaning: 'Auth: the provider did not return the identity of the user.' },
  no_authorization: { status: 401, meaning: 'Auth: this route needs the token of a signed-in user.' },
  bad_jwt: { status: 401, meaning: 'Auth: the token is invalid or has expired; refresh the session.' },
  not_admin: { status: 403, meaning: 'Auth: this route needs the service_role key.' },
  otp_expired: {
    status: 403,
    meaning: 'Auth: the code or link is wrong, was used or has expired; request a new one.',
  },
  session_not_found: { status: 403, meaning: 'Auth: the session of this token has ended; sign in again.' },
  user_banned: { status: 403, meaning: 'Auth: the user is banned.' },
  insufficient_aal: { status: 403, meaning: 'Auth: the session must be verified with a second factor.' },
  flow_state_not_found: { status: 404, meaning: 'Auth: the flow code is unknown or was used.' },
  manual_linking_disabled: {
    status: 404,
    meaning:
      'Auth: users of the project may not link or unlink identities; see the setting `manual_linking_enabled`.',
  },
  saml_provider_disabled: { status: 404, meaning: 'Auth: sign-in with SAML or SSO is not offered.' },
  mfa_factor_not_found: { status: 404, meaning: 'Auth: the user has no factor with this id.' },
  feature_disabled: {
    status: 404,
    meaning:
      'Auth: this feature is not offered: passkeys, the OAuth server, recovery codes, custom providers.',
  },
  user_already_exists: { status: 422, meaning: 'Auth: the address is already registered.' },
  email_exists: { status: 422, meaning: 'Auth: another user has this address.' },
  weak_password: {
    status: 422,
    meaning: 'Auth: the password is too weak; `weak_password.reasons` says why.',
  },
  same_password: { status: 422, meaning: 'Auth: the new password equals the current one.' },
  signup_disabled: { status: 422, meaning: 'Auth: sign-up is disabled for the project.' },
  email_provider_disabled: {
    status: 422,
    meaning: 'Auth: sign-in with e-mail is disabled for the project.',
  },
  web3_provider_disabled: { status: 422, meaning: 'Auth: sign-in with Web3 wallets is not offered.' },
  anonymous_provider_disabled: {
    status: 422,
    meaning: 'Auth: anonymous sign-ins are disabled for the project.',
  },
  otp_disabled: { status: 422, meaning: 'Auth: sign-in by mail is disabled for the project.' },
  flow_state_expired: { status: 422, meaning: 'Auth: the sign-in took longer than 5 minutes; start again.' },
  reauthentication_not_valid: {
    status: 422,
    meaning: 'Auth: the code from GET /reauthenticate is wrong or has expired.',
  },
  identity_not_found: { status: 422, meaning: 'Auth: the user has no identity with this id.' },
  identity_already_exists: { status: 422, meaning: 'Auth: this identity already belongs to a user.' },
  single_identity_not_deletable: {
    status: 422,
    meaning: 'Auth: the last identity of a user cannot be removed.',
  },
  email_conflict_identity_not_deletable: {
    status: 422,
    meaning: 'Auth: removing this identity would give the user an address that another user has.',
  },
  mfa_factor_name_conflict: { status: 422, meaning: 'Auth: another factor of the user has this name.' },
  too_many_enrolled_mfa_factors: { status: 422, meaning: 'Auth: a user can have at most ten factors.' },
  mfa_challenge_expired: {
    status: 422,
    meaning: 'Auth: the challenge is older than 5 minutes; request a new one.',
  },
  mfa_ip_address_mismatch: {
    status: 422,
    meaning: 'Auth: the challenge was requested from another IP address.',
  },
  mfa_verification_failed: {
    status: 422,
    meaning: 'Auth: the code of the second factor is wrong or was used.',
  },
  mfa_totp_enroll_not_enabled: {
    status: 422,
    meaning: 'Auth: second factors are disabled for the project.',
  },
  mfa_phone_enroll_not_enabled: { status: 422, meaning: 'Auth: second factors by phone are not supported.' },
  mfa_webauthn_enroll_not_enabled: { status: 422, meaning: 'Auth: security keys are not supported.' },
  conflict: { status: 409, meaning: 'Auth: another request is changing this session; try again.' },
  over_email_send_rate_limit: {
    status: 429,
    meaning:
      'Auth: too many mails were sent to this address or by this project; the message says when to try again.',
  },
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
    meaning: 'The project is being created or deleted right now; try again in a moment.',
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
