// Which service answers which table of routes.
import { openapi } from '@plinth/contract/openapi.ts'
import type { DataRoute, ManagementRoute } from '@plinth/contract/route.ts'
import { routeTables } from '@plinth/contract/routes.ts'
import { Type } from '@plinth/contract/type.ts'
import { Refusal } from '#src/kernel/errors.ts'
import type { HttpServer } from '#src/kernel/http/server.ts'
import { version } from '#src/kernel/version.ts'
import type { dataPlane } from '#src/planes/data/plane.ts'
import type { managementPlane } from '#src/planes/management/plane.ts'
import { adminRoutes } from '#src/services/admin/management-routes.ts'
import type { adminService } from '#src/services/admin/service.ts'
import { cacheRoutes } from '#src/services/cache/data-routes.ts'
import { cacheManagementRoutes } from '#src/services/cache/management-routes.ts'
import type { CacheService } from '#src/services/cache/service.ts'
import { cronRoutes } from '#src/services/cron/data-routes.ts'
import { cronManagementRoutes } from '#src/services/cron/management-routes.ts'
import type { CronService } from '#src/services/cron/service.ts'
import { dbRoutes } from '#src/services/db/management-routes.ts'
import type { dbService } from '#src/services/db/service.ts'
import { docsRoutes } from '#src/services/docs/management-routes.ts'
import type { docsService } from '#src/services/docs/service.ts'
import { emailRoutes } from '#src/services/email/management-routes.ts'
import type { EmailService } from '#src/services/email/service.ts'
import { healthRoutes } from '#src/services/health/management-routes.ts'
import type { healthService } from '#src/services/health/service.ts'
import { platformRoutes } from '#src/services/platform/management-routes.ts'
import type { platformService } from '#src/services/platform/service.ts'
import { poolerRoutes } from '#src/services/pooler/management-routes.ts'
import type { poolerService } from '#src/services/pooler/service.ts'
import { projectsRoutes } from '#src/services/projects/management-routes.ts'
import type { projectsService } from '#src/services/projects/service.ts'
import { queriesRoutes } from '#src/services/queries/management-routes.ts'
import type { queriesService } from '#src/services/queries/service.ts'
import { queueRoutes } from '#src/services/queue/data-routes.ts'
import type { QueueService } from '#src/services/queue/service.ts'
import { realtimeManagementRoutes } from '#src/services/realtime/management-routes.ts'
import type { RealtimeTables } from '#src/services/realtime/tables.ts'
import { restRoutes } from '#src/services/rest/data-routes.ts'
import type { RestService } from '#src/services/rest/service.ts'
import { refuseRowsPath } from '#src/services/rest/unknown-path.ts'
import { rlsRoutes } from '#src/services/rls/management-routes.ts'
import type { rlsService } from '#src/services/rls/service.ts'
import { schemaRoutes } from '#src/services/schema/management-routes.ts'
import type { schemaService } from '#src/services/schema/service.ts'
import { teamRoutes } from '#src/services/team/management-routes.ts'
import type { teamService } from '#src/services/team/service.ts'
import { typesRoutes } from '#src/services/types/management-routes.ts'
import type { typesService } from '#src/services/types/service.ts'
import { usersRoutes } from '#src/services/users/management-routes.ts'
import type { usersService } from '#src/services/users/service.ts'
import { whoamiRoutes } from '#src/services/whoami/data-routes.ts'

interface DataServices {
  rest: RestService
  cache: CacheService
  queues: QueueService
  cron: CronService
}

export function mountData(
  http: HttpServer,
  plane: ReturnType<typeof dataPlane>,
  services: DataServices,
): void {
  const { rest, cache, queues, cron } = services
  http.mount(plane, routeTables.whoami, whoamiRoutes())
  http.mount(plane, routeTables.rest, restRoutes(rest))
  http.mount(plane, routeTables.cache, cacheRoutes(cache))
  http.mount(plane, routeTables.queue, queueRoutes(queues))
  http.mount(plane, routeTables.cron, cronRoutes(cron))
  http.mountUnknown(plane, unknownDataRoute, request => {
    refuseRowsPath(request)
    notFound()
  })
}

interface ManagementServices {
  health: ReturnType<typeof healthService>
  platform: ReturnType<typeof platformService>
  projects: ReturnType<typeof projectsService>
  db: ReturnType<typeof dbService>
  types: ReturnType<typeof typesService>
  docs: ReturnType<typeof docsService>
  schema: ReturnType<typeof schemaService>
  rls: ReturnType<typeof rlsService>
  queries: ReturnType<typeof queriesService>
  pooler: ReturnType<typeof poolerService>
  team: ReturnType<typeof teamService>
  email: EmailService
  users: ReturnType<typeof usersService>
  admin: ReturnType<typeof adminService>
  cache: CacheService
  cron: CronService
  realtimeTables: RealtimeTables
}

export function mountManagement(
  http: HttpServer,
  plane: ReturnType<typeof managementPlane>,
  services: ManagementServices,
): void {
  const description = JSON.stringify(openapi(version, routeTables))
  http.mount(plane, routeTables.health, healthRoutes(services.health, description))
  http.mount(plane, routeTables.platform, platformRoutes(services.platform))
  http.mount(plane, routeTables.projects, projectsRoutes(services.projects))
  http.mount(plane, routeTables.db, dbRoutes(services.db))
  http.mount(plane, routeTables.types, typesRoutes(services.types))
  http.mount(plane, routeTables.docs, docsRoutes(services.docs))
  http.mount(plane, routeTables.schema, schemaRoutes(services.schema))
  http.mount(plane, routeTables.rls, rlsRoutes(services.rls))
  http.mount(plane, routeTables.queries, queriesRoutes(services.queries))
  http.mount(plane, routeTables.pooler, poolerRoutes(services.pooler))
  http.mount(plane, routeTables.team, teamRoutes(services.team))
  http.mount(plane, routeTables.email, emailRoutes(services.email))
  http.mount(plane, routeTables.users, usersRoutes(services.users))
  http.mount(plane, routeTables.admin, adminRoutes(services.admin))
  http.mount(plane, routeTables.cacheManagement, cacheManagementRoutes(services.cache))
  http.mount(plane, routeTables.cronManagement, cronManagementRoutes(services.cron))
  http.mount(plane, routeTables.realtimeManagement, realtimeManagementRoutes(services.realtimeTables))
  http.mountUnknown(plane, unknownManagementRoute, notFound)
}

function notFound(): never {
  throw new Refusal(
    'route_not_found',
    'No route has this method and path; /api/v1/openapi.json lists them all',
  )
}

/** Whatever no route takes: under /api/v1 only an administrator learns that it does not exist. */
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
