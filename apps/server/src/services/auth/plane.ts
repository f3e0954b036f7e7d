// The data plane as auth clients know it: their words for refusals. Whether a session has ended is asked of the
// database here, where it counts at once.
import type { Plane } from '#src/kernel/http/plane.ts'
import type { Meter } from '#src/planes/data/meter.ts'
import { dataPlane } from '#src/planes/data/plane.ts'
import type { Caller } from '#src/tenancy/databases.ts'
import type { Directory } from '#src/tenancy/directory.ts'
import { authRefusal, authWording } from './wording.ts'

export const authPlane = (directory: Directory, meter: Meter): Plane<Caller> =>
  dataPlane(directory, meter, {
    word: authWording,
    explain: (error, { allow }, request) => authRefusal(error, request, allow[0] === 'service_role'),
  })
