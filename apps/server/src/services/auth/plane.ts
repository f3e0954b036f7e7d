// The data plane as auth clients know it: their words for refusals. Whether a session has ended is asked of the
// database here, where it counts at once.
import type { Plane } from '#src/kernel/http/plane.ts'
import type { Meter } from '#src/planes/data/meter.ts'
import { type DataPlaneOptions, dataPlane } from '#src/planes/data/plane.ts'
import type { Caller } from '#src/tenancy/databases.ts'
import type { Directory } from '#src/tenancy/directory.ts'
import type { Room } from '#src/tenancy/room.ts'
import { authRefusal, authWording } from './wording.ts'

const authPath = /^\/v1\/(?:auth\/|[0-9a-f-]{36}\/auth\/v1(?:\/|$))/i

/** For the plane of all the rest: what no route takes under an address of this service is refused in its words. */
export const wordUnknown: NonNullable<DataPlaneOptions['word']> = (body, failure, request) =>
  authPath.test(request.path) ? authWording(body, failure, request) : { body, headers: {} }

export const authPlane = (
  directory: Directory,
  meter: Meter,
  room: Room,
  options: Pick<DataPlaneOptions, 'whenUpgraded'>,
): Plane<Caller> =>
  dataPlane(directory, meter, room, {
    ...options,
    word: authWording,
    explain: (error, { allow }, request) => authRefusal(error, request, allow[0] === 'service_role'),
  })
