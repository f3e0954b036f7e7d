// Adds the routes of all services to the planes.
import type { DataRoute, ManagementRoute } from '@plinth/contract/route.ts'
import { Type } from '@plinth/contract/type.ts'
import { Refusal } from '#src/kernel/errors.ts'
import type { RateWindows } from '#src/kernel/http/rate-windows.ts'
import type { RequestHead } from '#src/kernel/http/request.ts'
import type { HttpServer } from '#src/kernel/http/server.ts'
import type { Log } from '#src/kernel/log.ts'
import type { Database } from '#src/kernel/postgres/database.ts'
import { createMeter, type RateLimits } from '#src/planes/data/meter.ts'
import { type DataPlaneOptions, dataPlane, type Revocations } from '#src/planes/data/plane.ts'
import type { Credentials } from '#src/planes/management/admit.ts'
import { createAudit } from '#src/planes/management/audit.ts'
import { managementPlane } from '#src/planes/management/plane.ts'
import { metricsPlane } from '#src/planes/metrics/plane.ts'
import type { Service, UnknownPaths } from '#src/planes/service.ts'
import type { Directory } from '#src/tenancy/directory.ts'
import type { SpaceCheck } from '#src/tenancy/space-check.ts'
import type { Upgrades } from '#src/tenancy/upgrades.ts'

interface MountDeps {
  control: Database
  directory: Directory
  spaceCheck: SpaceCheck
  windows: RateWindows
  credentials: Credentials
  revocations: Revocations
  upgrades: Pick<Upgrades, 'whenUpgraded'>
  rateLimits: RateLimits
  metricsToken: string | undefined
  log: Log
}

export function mountServices(http: HttpServer, services: readonly Service[], deps: MountDeps) {
  const { directory, spaceCheck, revocations, upgrades } = deps
  const meter = createMeter(deps.windows, deps.rateLimits)
  const plane = (options: DataPlaneOptions) =>
    dataPlane(directory, meter, spaceCheck, {
      ...revocations,
      whenUpgraded: upgrades.whenUpgraded,
      isManagementToken: deps.credentials.isManagementToken,
      ...options,
    })
  const unknown = services.flatMap(({ unknownPaths }) => unknownPaths ?? [])
  const planes = {
    data: plane({ word: wordUnknown(unknown), explain: explainUnknown(unknown) }),
    management: managementPlane(deps.credentials, createAudit(deps.control, deps.log), spaceCheck),
  }

  const scraping = metricsPlane(deps.metricsToken)
  for (const service of services)
    service.mount?.({
      data: (routes, handlers, options) =>
        http.mount(service.name, options ? plane(options) : planes.data, routes, handlers),
      management: (routes, handlers) => http.mount(service.name, planes.management, routes, handlers),
      metrics: (routes, handlers) => http.mount(service.name, scraping, routes, handlers),
      socket: mount => http.mountSocket(service.name, mount),
      tunnel: mount => http.mountTunnel(service.name, mount),
    })
  http.mountUnknown(planes.management, unknownManagementRoute, notFound)
  http.mountUnknown(planes.data, unknownDataRoute, request => {
    const owner = ownerOf(unknown, request)
    const refusal = owner?.notOffered?.(request)
    if (refusal) throw refusal
    owner?.refuse?.(request)
    notFound()
  })
  return planes
}

const ownerOf = (unknown: readonly UnknownPaths[], { path }: RequestHead): UnknownPaths | undefined =>
  unknown.find(({ isOwn }) => isOwn(path))

/** Unknown paths get errors in the format of the service they belong to. */
const wordUnknown =
  (unknown: readonly UnknownPaths[]): NonNullable<DataPlaneOptions['word']> =>
  (body, failure, request) => {
    const word = ownerOf(unknown, request)?.word
    return word ? word(body, failure, request) : { body, headers: {} }
  }

const explainUnknown =
  (unknown: readonly UnknownPaths[]): NonNullable<DataPlaneOptions['explain']> =>
  (error, route, request) => {
    const owner = ownerOf(unknown, request)
    return owner?.notOffered?.(request) ?? owner?.explain?.(error, route, request) ?? error
  }

function notFound(): never {
  throw new Refusal(
    'route_not_found',
    'No route has this method and path; /api/v1/openapi.json lists them all',
  )
}

/** Under /api/v1, only callers with admin scope can see that a route does not exist. */
const unknownManagementRoute: ManagementRoute = {
  plane: 'management',
  method: 'GET',
  path: '/*',
  scope: 'admin',
  summary: 'Unknown route',
  reply: Type.Null(),
}
const unknownDataRoute: DataRoute = {
  plane: 'data',
  method: 'GET',
  path: '/*',
  allow: ['anon', 'authenticated', 'service_role'],
  summary: 'Unknown route',
  reply: Type.Null(),
}
