// Error codes of edge functions. Those in capitals are answers to calls, with the names that clients know.
import type { ErrorMeaning } from './error-meaning.ts'

export const functionsErrors = {
  function_code_invalid: {
    status: 400,
    meaning:
      'The code of a function cannot be deployed; the message has the file, line and column. The running version stays.',
  },
  function_not_found: { status: 404, meaning: 'The project has no function with this name.' },
  function_version_not_found: {
    status: 404,
    meaning: 'The function has no such version, or it is older than the ten previous versions.',
  },
  function_exists: {
    status: 409,
    meaning: 'The project has a function with this name; deploy a new version of it with PUT.',
  },
  function_too_large: { status: 413, meaning: 'The files of the function have more than 10 MB.' },
  packages_too_large: {
    status: 413,
    meaning: 'The npm packages of the function take more space than a function may have.',
  },
  too_many_functions: {
    status: 429,
    meaning: 'The project has as many functions as its quota `max_functions` allows.',
  },
  registry_unreachable: {
    status: 502,
    meaning:
      'The npm registry of the platform did not answer, so the packages of a function could not be loaded. Nothing was deployed.',
  },
  functions_unavailable: {
    status: 503,
    meaning: 'This installation of the platform cannot run functions; the message says why.',
  },
  NOT_FOUND: { status: 404, meaning: 'Functions: the project has no function with this name.' },
  FUNCTION_RATE_LIMIT: {
    status: 429,
    meaning: 'Functions: more calls in a minute than the quota `function_invocations_per_minute` allows.',
  },
  FUNCTION_CONCURRENCY: {
    status: 429,
    meaning: 'Functions: more calls at the same time than the quota `function_concurrency` allows.',
  },
  WORKER_ERROR: {
    status: 500,
    meaning: 'Functions: the function threw an error or ended its worker; the log of the function has it.',
  },
  BOOT_ERROR: {
    status: 503,
    meaning: 'Functions: the worker could not start or could not load the function; its log has the reason.',
  },
  WORKER_BACKOFF: {
    status: 503,
    meaning:
      'Functions: the worker of the project has crashed and starts again after the seconds in `Retry-After`.',
  },
  WORKER_BUSY: {
    status: 503,
    meaning: 'Functions: all workers of the platform are in use; retry after the seconds in `Retry-After`.',
  },
  IDLE_TIMEOUT: {
    status: 504,
    meaning: 'Functions: the function sent nothing for `RUNTIME_REQUEST_TIMEOUT_MS`.',
  },
  WORKER_LIMIT: {
    status: 546,
    meaning: 'Functions: the worker used more memory or CPU time than it may, and was ended.',
  },
} as const satisfies Record<string, ErrorMeaning>
