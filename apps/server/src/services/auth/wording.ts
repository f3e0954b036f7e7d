// How refusals read to auth clients: the common fields plus the names that different versions of the client look for,
// and the API version echoed, without which it would not read `code`.
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

export function authWording(body: DataError, failure: Failure, request: RequestHead) {
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

/** A credential that is there but not the right one is told what the right one is. */
export function authRefusal(error: unknown, request: RequestHead, needsAdmin: boolean): unknown {
  if (!(error instanceof Refusal)) return error
  if (error.code === 'role_not_allowed')
    return needsAdmin
      ? new Refusal('not_admin', 'User not allowed: this route needs the service_role key')
      : new Refusal('no_authorization', 'This endpoint requires a Bearer token of a signed-in user')
  if (error.code !== 'unauthorized') return error
  const { authorization, apikey } = request.headers
  return authorization === undefined || apikey === undefined
    ? new Refusal('no_authorization', error.message, { headers: error.headers })
    : new Refusal('bad_jwt', 'Invalid or expired token', { headers: error.headers })
}
