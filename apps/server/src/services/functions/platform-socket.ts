// The way back from a worker to the platform: a Unix socket on which only the data plane of the own project is served.
import { createHash } from 'node:crypto'
import { chownSync } from 'node:fs'
import type { OsUser } from '#src/kernel/child-processes/process.ts'
import type { HttpServer } from '#src/kernel/http/server.ts'

/** Without a project, those of all projects are served. Returns a function that closes it. */
export type OpenPlatformSocket = (
  path: string,
  projectId: string | undefined,
  user: OsUser | undefined,
) => Promise<() => Promise<void>>

export const createOpenPlatformSocket =
  (listenOnSocket: HttpServer['listenOnSocket']): OpenPlatformSocket =>
  async (path, projectId, user) => {
    const close = await listenOnSocket(path, {
      allows: address => isOfProject(address, projectId),
      address: addressOf(projectId ?? ''),
    })
    if (user) chownSync(path, user.uid, user.gid)
    return close
  }

/** `/v1/<project>/…` or `/v1/<service>/<project>/…` */
function isOfProject(path: string, projectId: string | undefined): boolean {
  const [, plane, first, second] = path.split('/', 4)
  if (plane !== 'v1') return false
  return projectId === undefined || first?.toLowerCase() === projectId || second?.toLowerCase() === projectId
}

/** An IPv6 prefix that no client has: those of real private networks are random. */
const addressPrefix = 'fd70:6c69:'

export const isWorkerAddress = (address: string): boolean => address.startsWith(addressPrefix)

/** Limits per address count the functions of a project together, and apart from everybody else: a network has 64 bits. */
export function addressOf(projectId: string): string {
  const hex = createHash('sha256').update(projectId).digest('hex')
  return `${addressPrefix}${hex.slice(0, 4)}:${hex.slice(4, 8)}::1`
}
