// Converts a thrown value to the failure that the caller sees. An error other than a Refusal is logged and becomes a 500.
import type { ErrorCode } from '@plinth/contract/errors.ts'
import { errorCodes } from '@plinth/contract/errors.ts'
import { Refusal } from '#src/kernel/errors.ts'
import type { Log } from '#src/kernel/log.ts'
import type { Failure } from './plane.ts'
import { validationSentence } from './validation.ts'

interface FrameworkError extends Error {
  code?: string
  statusCode?: number
  validation?: Parameters<typeof validationSentence>[0]
  validationContext?: string
}

export function failureFrom(error: unknown, log: Log, requestId: string): Failure {
  const refusal =
    error instanceof Refusal ? error : (fromFramework(error as FrameworkError) ?? internalError(error))
  if (isOfPlatform(refusal)) log.error({ id: requestId, err: refusal.cause ?? refusal }, 'request failed')
  const { status, code, message, hint, details, headers, fields } = refusal
  return { status, code, message, hint, details, headers, fields }
}

/** A failure that the operator should know of. */
export const isOfPlatform = (refusal: Refusal): boolean =>
  refusal.status >= 500 && !refusal.isOfProject && !isRetryLater(refusal)

/** A deliberate rejection under load. Nothing has failed, and a log line for each could fill the disk. */
const isRetryLater = ({ headers, cause }: Refusal) => 'retry-after' in headers && cause === undefined

const internalError = (cause: unknown) =>
  new Refusal(
    'internal_error',
    'Something went wrong on our side; the request id leads to its trace in the log',
    { cause },
  )

const frameworkCodes: Record<string, ErrorCode> = {
  FST_ERR_CTP_BODY_TOO_LARGE: 'body_too_large',
  FST_ERR_CTP_INVALID_MEDIA_TYPE: 'unsupported_media_type',
  FST_ERR_CTP_INVALID_JSON_BODY: 'invalid_json',
  FST_ERR_CTP_EMPTY_JSON_BODY: 'invalid_json',
  FST_ERR_BAD_URL: 'invalid_request',
  FST_ERR_MAX_PARAM_LENGTH: 'invalid_request',
}

function fromFramework(error: FrameworkError): Refusal | undefined {
  if (error.validation)
    return new Refusal(
      'invalid_request',
      validationSentence(error.validation, error.validationContext ?? 'request'),
    )
  const code = frameworkCodes[error.code ?? '']
  if (code)
    return new Refusal(
      code,
      code === 'invalid_request' ? 'The address is not valid' : errorCodes[code].meaning,
    )
  // SQLSTATE class 22: a value that Postgres rejects, such as a number out of range or a NUL in a text.
  if (/^22[0-9A-Z]{3}$/.test(error.code ?? ''))
    return new Refusal('invalid_request', 'A value in the request is out of range or malformed', {
      cause: error,
    })
  if (error.statusCode !== undefined && error.statusCode < 500)
    return new Refusal('invalid_request', 'The request is not valid HTTP')
  return
}
