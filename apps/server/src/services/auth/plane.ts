// Data plane options of auth: the error format of GoTrue, and no cached revocation check. The auth routes read the
// session from the database, so a revocation takes effect immediately.
import type { DataPlaneOptions } from '#src/planes/data/plane.ts'
import type { UnknownPaths } from '#src/planes/service.ts'
import { explainAuthError, formatAuthError } from './error-format.ts'
import { notOffered } from './not-offered.ts'

const authPath = /^\/v1\/(?:auth\/|[0-9a-f-]{36}\/auth\/v1(?:\/|$))/i
const projectPrefix = /^\/v1\/(?:auth\/[^/]+|[^/]+\/auth\/v1)\//

/** Unknown paths under /auth get the auth error format, too. */
export const unknownAuthPaths: UnknownPaths = {
  isOwn: path => authPath.test(path),
  word: formatAuthError,
  notOffered: ({ path }) => notOffered(path.replace(projectPrefix, '')),
}

export const authPlane: DataPlaneOptions = {
  isRevoked: () => false,
  word: formatAuthError,
  explain: (error, { allow }, request) => explainAuthError(error, request, allow[0] === 'service_role'),
}
