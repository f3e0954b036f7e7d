// Policy of /v1: authentication, rate limits, free space for writes, format of errors.
import type { DataRoute, NeedsSpace, Role } from '@plinth/contract/route.ts'
import type { Failure, Plane, SetHeader } from '#src/kernel/http/plane.ts'
import type { RequestHead } from '#src/kernel/http/request.ts'
import type { Caller } from '#src/tenancy/databases.ts'
import type { Directory, Tenant } from '#src/tenancy/directory.ts'
import type { SpaceCheck } from '#src/tenancy/space-check.ts'
import type { WhenUpgraded } from '#src/tenancy/upgrades.ts'
import { bearerOf, bearsUnknownKey, callerFrom, isOpen, projectIn } from './admit.ts'
import { cors } from './cors.ts'
import type { Meter } from './meter.ts'
import { sessionEnded, Unauthorized } from './unauthorized.ts'

export interface Revocations {
  /** Whether a user's token is revoked before its expiry. */
  isRevoked(caller: Caller): boolean | Promise<boolean>
}

/** Whether a text is a credential of the management plane, possibly an expired one. */
export type IsManagementToken = (text: string) => boolean

export interface DataPlaneOptions extends Partial<Revocations> {
  whenUpgraded?: WhenUpgraded
  isManagementToken?: IsManagementToken
  /** A service may change the format of errors, in addition to the common fields. */
  word?(
    body: DataError,
    failure: Failure,
    request: RequestHead,
  ): { body: object; headers: Record<string, string> }
  /** The role whose limit applies per address on open routes. */
  openLike?: Role
  /** The space that a request needs, if the route alone does not decide it. */
  needsSpace?(route: DataRoute, request: RequestHead): NeedsSpace | undefined
  /** Who may call, if the route alone does not decide it. The project is undefined if there is none with this id. */
  routeFor?(
    route: DataRoute,
    tenant: Tenant | undefined,
    request: RequestHead,
  ): DataRoute | Promise<DataRoute>
  /** Routes of the service answer preflights of browsers themselves. */
  answersPreflights?: boolean
  /** A service may translate the errors of admission. */
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
  spaceCheck: SpaceCheck,
  {
    isRevoked = () => false,
    whenUpgraded = () => undefined,
    isManagementToken = () => false,
    word,
    openLike = 'anon',
    needsSpace = route => route.needsSpace,
    routeFor,
    answersPreflights = false,
    explain = error => error,
  }: DataPlaneOptions = {},
): Plane<Caller> {
  function admit(declared: DataRoute, request: RequestHead, setHeader: SetHeader): Caller | Promise<Caller> {
    if (!routeFor) return admitTo(declared, findTenant(request), request, setHeader)
    const choose = (tenant: Tenant | undefined) => {
      const route = routeFor(declared, tenant, request)
      const admitBy = (chosen: DataRoute) => admitTo(chosen, tenant, request, setHeader)
      return route instanceof Promise ? route.then(admitBy) : admitBy(route)
    }
    const tenant = findTenant(request)
    return tenant instanceof Promise ? tenant.then(choose) : choose(tenant)
  }

  function findTenant(request: RequestHead): Tenant | undefined | Promise<Tenant | undefined> {
    const id = projectIn(request)
    return id === undefined ? undefined : directory.find(id)
  }

  function admitTo(
    route: DataRoute,
    tenant: Tenant | undefined | Promise<Tenant | undefined>,
    request: RequestHead,
    setHeader: SetHeader,
  ): Caller | Promise<Caller> {
    const open = isOpen(route, request.headers)
    if (open) meter.countAddress(request.ip, setHeader, openLike)
    const identify = (tenant: Tenant | undefined) => callerFrom(tenant, route, request.headers)
    const meet = (tenant: Tenant | undefined) => {
      try {
        return check(identify(tenant))
      } catch (error) {
        if (!tenant || !bearsUnknownKey(tenant, request.headers)) throw error
        return directory.findCurrent(tenant.id).then(current => check(identify(current)))
      }
    }
    const check = (caller: Caller) => {
      if (open || caller.userId === '') return count(caller)
      const revoked = isRevoked(caller)
      return revoked instanceof Promise ? revoked.then(is => refuseIf(is, caller)) : refuseIf(revoked, caller)
    }
    const refuseIf = (isOver: boolean, caller: Caller) => {
      if (isOver) throw sessionEnded()
      return count(caller)
    }
    const count = (caller: Caller) => {
      const { tenant, role } = caller
      if (!open) meter.countCaller(tenant, role, setHeader)
      const needs = needsSpace(route, request)
      const full = needs && spaceCheck.refusal(needs, tenant)
      if (full) throw full
      const upgraded = whenUpgraded(tenant.ref, role === 'service_role' ? 'owner' : 'caller')
      return upgraded ? upgraded.then(() => caller) : caller
    }
    return tenant instanceof Promise ? tenant.then(meet) : meet(tenant)
  }

  return {
    bodyLimit: 10 * 1024 * 1024,
    cors: answersPreflights ? { headers: cors.headers } : cors,
    admit(route, request, setHeader) {
      const because = (error: unknown): never => {
        const { apikey, authorization } = request.headers
        const sent = [apikey, bearerOf(authorization)]
        throw explain(withPlane(error, sent, isManagementToken), route as DataRoute, request)
      }
      try {
        const caller = admit(route as DataRoute, request, setHeader)
        return caller instanceof Promise ? caller.catch(because) : caller
      } catch (error) {
        return because(error)
      }
    },
    identify: ({ tenant, role }) => ({ project: tenant.id, role }),
    refuse(failure, request) {
      const body = dataRefusal(failure)
      return word ? word(body, failure, request) : { body, headers: {} }
    },
  }
}

/** Credentials of the other plane get an error that says so, whether or not the project exists. */
export const withPlane = (
  error: unknown,
  credentials: readonly unknown[],
  isManagementToken: IsManagementToken,
): unknown =>
  error instanceof Unauthorized &&
  credentials.some(text => typeof text === 'string' && isManagementToken(text))
    ? new Unauthorized({ kind: 'management token' })
    : error
