// The data plane as storage clients know it.
import type { Plane } from '#src/kernel/http/plane.ts'
import type { Meter } from '#src/planes/data/meter.ts'
import { type DataPlaneOptions, dataPlane } from '#src/planes/data/plane.ts'
import type { Caller } from '#src/tenancy/databases.ts'
import type { Directory } from '#src/tenancy/directory.ts'
import type { Room } from '#src/tenancy/room.ts'
import { storageWording } from './refusals.ts'
import { tusHeaders } from './tus.ts'

const storagePath = /^\/v1\/(?:storage\/|[0-9a-f-]{36}\/storage\/v1(?:\/|$))/i

/** For the plane of all the rest: what no route takes under an address of this service is refused in its words. */
export const isStoragePath = (path: string) => storagePath.test(path)

const uploadPath = /^\/v1\/(?:storage\/[^/]+|[^/]+\/storage\/v1)\/upload\/resumable(?:\/|$)/

/** What TUS wants on every answer goes on refusals, too. */
const worded: DataPlaneOptions['word'] = (body, failure, { path }) => ({
  ...storageWording(body, failure),
  headers: uploadPath.test(path) ? tusHeaders : {},
})

/** POST on an upload stands for another method, which may read or delete. */
const needsRoom: DataPlaneOptions['needsRoom'] = ({ method, path, needsRoom }, { headers }) => {
  const isOverride = method === 'POST' && path.endsWith('/{upload_id}')
  const isHarmless = /^(?:delete|head)$/i.test(String(headers['x-http-method-override']))
  return isOverride && isHarmless ? undefined : needsRoom
}

export const storagePlane = (
  directory: Directory,
  meter: Meter,
  room: Room,
  options: Pick<DataPlaneOptions, 'isRevoked' | 'whenUpgraded'>,
): Plane<Caller> =>
  // A page shows many images at once: what is enough for signing in would leave some of them out.
  dataPlane(directory, meter, room, { ...options, word: worded, openLike: 'authenticated', needsRoom })
