// Every error code the platform's own parts send, with its status and what it means. Closed: a Refusal
// takes nothing else. SQLSTATEs and PGRST codes pass through from Postgres and the REST contract.

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
    meaning: '`confirm` does not repeat the name of what is to be destroyed; nothing was done.',
  },
  sql_error: {
    status: 400,
    meaning:
      'Postgres refused a statement of the project’s owner; the message is its own, with its SQLSTATE and line.',
  },
  migration_failed: {
    status: 400,
    meaning:
      'Postgres refused a statement of a migration, which was undone; the message has version, name, line and statement.',
  },
  sql_timeout: {
    status: 400,
    meaning: 'A statement of the project’s owner took longer than the route allows and was undone.',
  },
  PGRST100: {
    status: 400,
    meaning:
      'The query string cannot be read: an unknown operator, a select, filter or order that is malformed.',
  },
  PGRST102: { status: 400, meaning: 'The body cannot be read as rows, or its objects differ in their keys.' },
  PGRST103: { status: 400, meaning: '`limit` or `offset` is not a non-negative integer.' },
  PGRST108: {
    status: 400,
    meaning: 'A filter, order or limit names an embedded relation that `select` does not hold.',
  },
  PGRST114: { status: 400, meaning: 'PUT takes neither `limit` nor `offset`.' },
  PGRST115: { status: 400, meaning: 'The body of PUT differs from its filters in the primary key.' },
  PGRST118: { status: 400, meaning: 'Rows can be ordered by a to-one relation only.' },
  PGRST120: {
    status: 400,
    meaning: 'An embedded relation itself can only be filtered by `is.null` or `not.is.null`.',
  },
  PGRST122: { status: 400, meaning: 'With `handling=strict`, a preference that is not known.' },
  PGRST124: { status: 400, meaning: 'More rows than `max-affected` allows; the write was undone.' },
  PGRST127: { status: 400, meaning: 'This combination is not supported; `details` says which.' },
  PGRST128: { status: 400, meaning: '`max-affected` needs a function that returns a set.' },
  PGRST200: { status: 400, meaning: 'No foreign key leads from one table to the other.' },
  PGRST201: {
    status: 400,
    meaning: 'More than one relationship fits; `details` lists them, a hint after `!` chooses one.',
  },
  PGRST203: { status: 400, meaning: 'More than one function fits the arguments given.' },
  PGRST204: {
    status: 400,
    meaning: 'A column named in the body or in `columns` does not exist, or embeds nest deeper than 5.',
  },
  '42703': { status: 400, meaning: 'A column named in select, a filter or order does not exist.' },
  unauthorized: {
    status: 401,
    meaning:
      'No valid credential: missing, malformed, unknown, expired, revoked, or not one for this plane or project.',
  },
  invalid_login: { status: 401, meaning: 'E-mail and password do not match an active platform user.' },
  insufficient_scope: {
    status: 403,
    meaning: 'The credential is valid but its scope, here, is too small; the message names the one needed.',
  },
  role_not_allowed: {
    status: 403,
    meaning: 'This data-plane route is not open to the role of the key; the message names those it is for.',
  },
  sql_not_permitted: {
    status: 403,
    meaning: 'The owner of the project may not do this in the database; statements never run as superuser.',
  },
  schema_reserved: {
    status: 403,
    meaning: 'The schema belongs to the platform or to Postgres and is not changed through this route.',
  },
  project_suspended: { status: 403, meaning: 'The project is suspended; resume it to serve traffic again.' },
  PGRST125: { status: 404, meaning: 'The row API has nothing at this path.' },
  PGRST202: { status: 404, meaning: 'No function has this name and takes these arguments.' },
  PGRST205: { status: 404, meaning: 'No table or view has this name in the schema.' },
  route_not_found: { status: 404, meaning: 'No route has this method and path.' },
  project_not_found: { status: 404, meaning: 'No project has this id, or it was deleted.' },
  user_not_found: { status: 404, meaning: 'No platform user has this id.' },
  token_not_found: { status: 404, meaning: 'No active platform token has this id.' },
  schema_not_found: { status: 404, meaning: 'The project has no schema of this name.' },
  table_not_found: { status: 404, meaning: 'The schema has no table of this name.' },
  column_not_found: { status: 404, meaning: 'The table has no column of this name.' },
  policy_not_found: { status: 404, meaning: 'The table has no policy of this name.' },
  query_not_found: { status: 404, meaning: 'The project has no saved query of this id.' },
  already_exists: { status: 409, meaning: 'Something of this kind and name exists already.' },
  has_dependants: {
    status: 409,
    meaning: 'Other objects depend on it; the message names them, `cascade=true` drops them too.',
  },
  constraint_violated: {
    status: 409,
    meaning: 'Rows that are there do not fit the change; the message names the constraint.',
  },
  object_busy: { status: 409, meaning: 'Another session is changing or using it; try again in a moment.' },
  PGRST101: { status: 405, meaning: 'Functions are called by GET, HEAD or POST.' },
  PGRST105: {
    status: 405,
    meaning: 'PUT needs a filter `column=eq.value` for each column of the primary key, and nothing else.',
  },
  PGRST117: { status: 405, meaning: 'Tables do not take this method.' },
  PGRST106: { status: 406, meaning: 'The schema named in Accept-Profile or Content-Profile is not exposed.' },
  PGRST107: { status: 406, meaning: 'None of the media types in Accept can be produced here.' },
  PGRST116: {
    status: 406,
    meaning: 'One row was asked for and the result has none or several; a write was undone.',
  },
  migration_changed: {
    status: 409,
    meaning: 'A migration was applied already, with another text; nothing of the push was applied.',
  },
  migrations_busy: {
    status: 409,
    meaning: 'Another push or reset is running on this project; try again when it has ended.',
  },
  slug_taken: { status: 409, meaning: 'Another project has this slug.' },
  email_taken: { status: 409, meaning: 'Another platform user has this e-mail address.' },
  last_super_admin: { status: 409, meaning: 'The last active super_admin cannot be deleted or demoted.' },
  project_busy: {
    status: 409,
    meaning: 'The project is being created or deleted right now; try again in a moment.',
  },
  dump_too_large: {
    status: 422,
    meaning: 'The rows are too many for one answer; read them with pg_dump over the direct connection.',
  },
  body_too_large: { status: 413, meaning: 'The body is larger than this route takes.' },
  unsupported_media_type: { status: 415, meaning: 'The body must be sent as application/json.' },
  over_request_rate_limit: {
    status: 429,
    meaning: 'Too many requests in this window; `Retry-After` says when it ends.',
  },
  login_locked: {
    status: 429,
    meaning: 'Five failed logins from this address for this e-mail; `Retry-After` says when to try again.',
  },
  pool_exhausted: {
    status: 429,
    meaning: 'All database connections of this project are busy; retry after the second `Retry-After` names.',
  },
  hashing_busy: { status: 429, meaning: 'Too many password checks are waiting; retry in a second.' },
  client_closed_request: { status: 499, meaning: 'The client hung up before the answer was ready.' },
  PGRST111: {
    status: 500,
    meaning: 'A function has set `response.headers` to something that is not a list of headers.',
  },
  PGRST112: {
    status: 500,
    meaning: 'A function has set `response.status` to something that is not a status.',
  },
  PGRST121: { status: 500, meaning: "A function has raised SQLSTATE 'PGRST' without the JSON it needs." },
  internal_error: {
    status: 500,
    meaning: 'Something failed on our side. The log has the cause under the request id.',
  },
  schema_changing: {
    status: 503,
    meaning:
      'The schema is being changed over and over at this moment; retry after the second `Retry-After` names.',
  },
  database_unavailable: {
    status: 503,
    meaning: 'The database cannot be reached at the moment; retry shortly.',
  },
} as const satisfies Record<string, ErrorMeaning>

export type ErrorCode = keyof typeof errorCodes
