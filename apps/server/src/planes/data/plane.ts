// Policy of /v1: who is calling which project, how often, and how a refusal reads.
import type { DataRoute } from '@plinth/contract/route.ts'
import type { Failure, Plane } from '#src/kernel/http/plane.ts'
import type { RequestHead } from '#src/kernel/http/request.ts'
import type { Caller } from '#src/tenancy/databases.ts'
import type { Directory, Tenant } from '#src/tenancy/directory.ts'
import { callerFrom, projectIn } from './admit.ts'
import { cors } from './cors.ts'
import type { Meter } from './meter.ts'

/** A service may word its refusals its own way on top of the common fields. */
export type Wording = (body: DataError, failure: Failure, request: RequestHead) => object

export interface DataError {
  code: string
  message: string
  error: string
  statusCode: number
  details: string
  hint: string
}

export const dataRefusal = ({ status, code, message, hint, details }: Failure): DataError => ({
  code,
  message,
  error: message,
  statusCode: status,
  details,
  hint,
})

export function dataPlane(directory: Directory, meter: Meter, word: Wording = body => body): Plane<Caller> {
  return {
    bodyLimit: 10 * 1024 * 1024,
    cors,
    admit(route, request, setHeader) {
      const open = (route as DataRoute).allow === 'open'
      if (open) meter.countAddress(request.ip, setHeader)
      const admit = (tenant: Tenant | undefined) => {
        const caller = callerFrom(tenant, route as DataRoute, request.headers)
        if (!open) meter.countCaller(caller.tenant, caller.role, setHeader)
        return caller
      }
      const id = projectIn(request)
      const tenant = id === undefined ? undefined : directory.find(id)
      return tenant instanceof Promise ? tenant.then(admit) : admit(tenant)
    },
    refuse(failure, request) {
      return { body: word(dataRefusal(failure), failure, request), headers: {} }
    },
  }
}
