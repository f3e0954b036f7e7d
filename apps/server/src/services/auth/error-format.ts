// The error format of auth. Different versions of the client library read different field names, so the body has all of
// them. The library reads `code` only if the response echoes the API version header.
import { Refusal } from '#src/kernel/errors.ts'
import type { Failure } from '#src/kernel/http/plane.ts'
import type { RequestHead } from '#src/kernel/http/request.ts'
import type { DataError } from '#src/planes/data/plane.ts'

const authNames: Readonly<Record<string, string>> = {
  invalid_request: 'validation_failed',
  invalid_json: 'bad_json',
  internal_error: 'unexpected_failure',
}

const versionHeader = 'x-supabase-api-version'

export function formatAuthError(body: DataError, failure: Failure, request: RequestHead) {
  const code = authNames[failure.code] ?? failure.code
  const version = request.headers[versionHeader]
  return {
    body: {
      ...body,
      code,
      error_code: code,
      msg: body.message,
      error_description: body.message,
      ...(code === 'weak_password' && { weak_password: { reasons: failure.details.split(',') } }),
    },
    headers: {
      'x-sb-error-code': code,
      ...(typeof version === 'string' && /^\d{4}-\d\d-\d\d$/.test(version) && { [versionHeader]: version }),
    },
  }
}

/** Names the credential that the route needs. */
export function explainAuthError(error: unknown, request: RequestHead, needsAdmin: boolean): unknown {
  if (!(error instanceof Refusal)) return error
  if (error.code === 'role_not_allowed')
    return needsAdmin
      ? new Refusal('not_admin', 'User not allowed: this route needs the service_role key')
      : new Refusal('no_authorization', 'This endpoint requires a Bearer token of a signed-in user')
  if (error.code !== 'unauthorized') return error
  const { authorization, apikey } = request.headers
  const { message, hint, details, headers } = error
  const code = authorization === undefined || apikey === undefined ? 'no_authorization' : 'bad_jwt'
  return new Refusal(code, message, { hint, details, headers })
}
