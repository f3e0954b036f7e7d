// Who calls a function that needs no credential: whoever a valid credential says, otherwise anon.
import { functionsApi } from '@plinth/contract/functions.ts'
import type { DataRoute } from '@plinth/contract/route.ts'
import type { RequestHead } from '#src/kernel/http/request.ts'
import { callerFrom } from '#src/planes/data/admit.ts'
import type { Revocations } from '#src/planes/data/plane.ts'
import type { Caller } from '#src/tenancy/databases.ts'

export type Identify = (admitted: Caller, headers: RequestHead['headers']) => Promise<Caller>

const anyRole: DataRoute = { ...functionsApi.get, allow: ['anon', 'authenticated', 'service_role'] }

export function createIdentify({ isRevoked }: Revocations): Identify {
  return async (admitted, headers) => {
    const hasCredential = headers['apikey'] !== undefined || headers.authorization !== undefined
    if (admitted.role !== 'anon' || !hasCredential) return admitted
    try {
      const caller = callerFrom(admitted.tenant, anyRole, headers)
      return caller.userId !== '' && (await isRevoked(caller)) ? admitted : caller
    } catch {
      return admitted
    }
  }
}
