// Policy of /v1: who is calling which project, how often, whether there is room to write, and how a refusal reads.
import type { DataRoute, NeedsRoom, Role } from '@plinth/contract/route.ts'
import { unauthorized } from '#src/kernel/errors.ts'
import type { Failure, Plane, SetHeader } from '#src/kernel/http/plane.ts'
import type { RequestHead } from '#src/kernel/http/request.ts'
import type { Caller } from '#src/tenancy/databases.ts'
import type { Directory, Tenant } from '#src/tenancy/directory.ts'
import type { Room } from '#src/tenancy/room.ts'
import type { WhenUpgraded } from '#src/tenancy/upgrades.ts'
import { callerFrom, isOpen, projectIn } from './admit.ts'
import { cors } from './cors.ts'
import type { Meter } from './meter.ts'

export interface DataPlaneOptions {
  /** Whether a user's token no longer counts, although it has not expired. */
  isRevoked?(caller: Caller): boolean | Promise<boolean>
  whenUpgraded?: WhenUpgraded
  /** A service may word its refusals its own way on top of the common fields. */
  word?(
    body: DataError,
    failure: Failure,
    request: RequestHead,
  ): { body: object; headers: Record<string, string> }
  /** Whose limit counts for those who need no credential, for each address. */
  openLike?: Role
  /** What a request needs, where the route alone does not say. */
  needsRoom?(route: DataRoute, request: RequestHead): NeedsRoom | undefined
  /** A service may say otherwise why nobody was admitted. */
  explain?(error: unknown, route: DataRoute, request: RequestHead): unknown
}

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

export function dataPlane(
  directory: Directory,
  meter: Meter,
  room: Room,
  {
    isRevoked = () => false,
    whenUpgraded = () => undefined,
    word,
    openLike = 'anon',
    needsRoom = route => route.needsRoom,
    explain = error => error,
  }: DataPlaneOptions = {},
): Plane<Caller> {
  function admit(route: DataRoute, request: RequestHead, setHeader: SetHeader): Caller | Promise<Caller> {
    const open = isOpen(route, request.headers)
    if (open) meter.countAddress(request.ip, setHeader, openLike)
    const meet = (tenant: Tenant | undefined) => {
      const caller = callerFrom(tenant, route, request.headers)
      if (open || caller.userId === '') return count(caller)
      const revoked = isRevoked(caller)
      return revoked instanceof Promise ? revoked.then(is => refuseIf(is, caller)) : refuseIf(revoked, caller)
    }
    const refuseIf = (isOver: boolean, caller: Caller) => {
      if (isOver) throw unauthorized()
      return count(caller)
    }
    const count = (caller: Caller) => {
      const { tenant, role } = caller
      if (!open) meter.countCaller(tenant, role, setHeader)
      const needs = needsRoom(route, request)
      const full = needs && room.refusal(needs, tenant)
      if (full) throw full
      const upgraded = whenUpgraded(tenant.ref, role === 'service_role' ? 'owner' : 'caller')
      return upgraded ? upgraded.then(() => caller) : caller
    }
    const id = projectIn(request)
    const tenant = id === undefined ? undefined : directory.find(id)
    return tenant instanceof Promise ? tenant.then(meet) : meet(tenant)
  }

  return {
    bodyLimit: 10 * 1024 * 1024,
    cors,
    admit(route, request, setHeader) {
      const because = (error: unknown): never => {
        throw explain(error, route as DataRoute, request)
      }
      try {
        const caller = admit(route as DataRoute, request, setHeader)
        return caller instanceof Promise ? caller.catch(because) : caller
      } catch (error) {
        return because(error)
      }
    },
    refuse(failure, request) {
      const body = dataRefusal(failure)
      return word ? word(body, failure, request) : { body, headers: {} }
    },
  }
}
