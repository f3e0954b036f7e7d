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
  project_suspended: { status: 403, meaning: 'The project is suspended; resume it to serve traffic again.' },
  route_not_found: { status: 404, meaning: 'No route has this method and path.' },
  project_not_found: { status: 404, meaning: 'No project has this id, or it was deleted.' },
  user_not_found: { status: 404, meaning: 'No platform user has this id.' },
  token_not_found: { status: 404, meaning: 'No active platform token has this id.' },
  slug_taken: { status: 409, meaning: 'Another project has this slug.' },
  email_taken: { status: 409, meaning: 'Another platform user has this e-mail address.' },
  last_super_admin: { status: 409, meaning: 'The last active super_admin cannot be deleted or demoted.' },
  project_busy: {
    status: 409,
    meaning: 'The project is being created or deleted right now; try again in a moment.',
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
  internal_error: {
    status: 500,
    meaning: 'Something failed on our side. The log has the cause under the request id.',
  },
  database_unavailable: {
    status: 503,
    meaning: 'The database cannot be reached at the moment; retry shortly.',
  },
} as const satisfies Record<string, ErrorMeaning>

export type ErrorCode = keyof typeof errorCodes
