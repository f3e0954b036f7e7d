// Composition root: every part of the server is named once, here, and given what it needs.
import { openapi } from '@plinth/contract/openapi.ts'
import type { DataRoute, ManagementRoute } from '@plinth/contract/route.ts'
import { routeTables } from '@plinth/contract/routes.ts'
import { Type } from 'typebox'
import type { Config } from '#src/config.ts'
import { createHashingTurns } from '#src/kernel/crypto/hashing-turns.ts'
import { keyring } from '#src/kernel/crypto/keys.ts'
import { createPasswords, createUserPasswords } from '#src/kernel/crypto/password.ts'
import { sealer as createSealer } from '#src/kernel/crypto/sealed.ts'
import { Refusal } from '#src/kernel/errors.ts'
import { createRateWindows } from '#src/kernel/http/rate-windows.ts'
import { createHttpServer, type HttpServer } from '#src/kernel/http/server.ts'
import type { Log } from '#src/kernel/log.ts'
import { createOutbound } from '#src/kernel/outbound/fetch.ts'
import { type Database, openDatabase } from '#src/kernel/postgres/database.ts'
import type { ServerAddress } from '#src/kernel/postgres/server-address.ts'
import { version } from '#src/kernel/version.ts'
import { createMeter } from '#src/planes/data/meter.ts'
import { dataPlane, dataRefusal } from '#src/planes/data/plane.ts'
import { createCredentials } from '#src/planes/management/admit.ts'
import { createAudit } from '#src/planes/management/audit.ts'
import { createOwnerWork } from '#src/planes/management/owner-work.ts'
import { managementPlane, managementRefusal } from '#src/planes/management/plane.ts'
import { adminRoutes } from '#src/services/admin/management-routes.ts'
import { adminService } from '#src/services/admin/service.ts'
import { authRoutes } from '#src/services/auth/data-routes.ts'
import { authPlane, wordUnknown } from '#src/services/auth/plane.ts'
import { authService } from '#src/services/auth/service.ts'
import { cacheRoutes } from '#src/services/cache/data-routes.ts'
import { cacheManagementRoutes } from '#src/services/cache/management-routes.ts'
import { openCacheEngine } from '#src/services/cache/open-engine.ts'
import { cacheService } from '#src/services/cache/service.ts'
import { cronRoutes } from '#src/services/cron/data-routes.ts'
import { cronManagementRoutes } from '#src/services/cron/management-routes.ts'
import { cronService } from '#src/services/cron/service.ts'
import { startCronWorker } from '#src/services/cron/worker.ts'
import { dbRoutes } from '#src/services/db/management-routes.ts'
import { dbService } from '#src/services/db/service.ts'
import { docsRoutes } from '#src/services/docs/management-routes.ts'
import { docsService } from '#src/services/docs/service.ts'
import { emailRoutes } from '#src/services/email/management-routes.ts'
import { type EmailService, emailService } from '#src/services/email/service.ts'
import { startMailWorker } from '#src/services/email/worker.ts'
import { healthRoutes } from '#src/services/health/management-routes.ts'
import { healthService } from '#src/services/health/service.ts'
import { platformRoutes } from '#src/services/platform/management-routes.ts'
import { platformService } from '#src/services/platform/service.ts'
import { poolerRoutes } from '#src/services/pooler/management-routes.ts'
import { poolerService } from '#src/services/pooler/service.ts'
import { projectsRoutes } from '#src/services/projects/management-routes.ts'
import { projectsService } from '#src/services/projects/service.ts'
import { queriesRoutes } from '#src/services/queries/management-routes.ts'
import { queriesService } from '#src/services/queries/service.ts'
import { queueRoutes } from '#src/services/queue/data-routes.ts'
import { queueService } from '#src/services/queue/service.ts'
import { restRoutes } from '#src/services/rest/data-routes.ts'
import { restService } from '#src/services/rest/service.ts'
import { refuseRowsPath } from '#src/services/rest/unknown-path.ts'
import { rlsRoutes } from '#src/services/rls/management-routes.ts'
import { rlsService } from '#src/services/rls/service.ts'
import { schemaRoutes } from '#src/services/schema/management-routes.ts'
import { schemaService } from '#src/services/schema/service.ts'
import { teamRoutes } from '#src/services/team/management-routes.ts'
import { teamService } from '#src/services/team/service.ts'
import { typesRoutes } from '#src/services/types/management-routes.ts'
import { typesService } from '#src/services/types/service.ts'
import { usersRoutes } from '#src/services/users/management-routes.ts'
import { usersService } from '#src/services/users/service.ts'
import { whoamiRoutes } from '#src/services/whoami/data-routes.ts'
import { type Cluster, controlSettings, prepareCluster } from '#src/tenancy/cluster.ts'
import { type Databases, openDatabases } from '#src/tenancy/databases.ts'
import { type Directory, openDirectory } from '#src/tenancy/directory.ts'
import { createLifecycle } from '#src/tenancy/lifecycle.ts'
import { createLogins } from '#src/tenancy/logins.ts'
import { createProvisioner } from '#src/tenancy/provision.ts'
import { createRevocations } from '#src/tenancy/revocations.ts'
import { checkSecret } from '#src/tenancy/secret-proof.ts'
import { createShadows } from '#src/tenancy/shadow.ts'
import { startWatchdog } from '#src/tenancy/watchdog.ts'

export interface AppOptions {
  config: Config
  server: { address: ServerAddress; control: string }
  controlPlaneSecret: string
  adminToken: string | undefined
  log: Log
}

export interface App {
  http: HttpServer
  control: Database
  cluster: Cluster
  directory: Directory
  databases: Databases
  email: EmailService
  /** The planes, for whoever mounts routes of its own. */
  planes: { data: ReturnType<typeof dataPlane>; management: ReturnType<typeof managementPlane> }
  listen(): Promise<string>
  close(): Promise<void>
}

/** A start that fails leaves nothing open. */
export async function createApp(options: AppOptions): Promise<App> {
  const open: Closing[] = []
  try {
    return await compose(options, open)
  } catch (error) {
    await closeAll(open)
    throw error
  }
}

type Closing = () => Promise<void> | void

/** Everything is closed, whatever became of the one before. */
async function closeAll(open: Closing[]): Promise<void> {
  const failures: unknown[] = []
  for (const close of open.splice(0).reverse())
    await Promise.resolve(close()).catch(error => failures.push(error))
  if (failures.length > 0) throw failures[0]
}

/** What every service stands on: the cluster, the control database, and the projects in both. */
async function openGround({ config, server, controlPlaneSecret, log }: AppOptions, open: Closing[]) {
  const deriveKey = keyring(controlPlaneSecret)
  const sealer = createSealer(deriveKey('sealed'))
  const cluster = await prepareCluster(server.address, server.control)
  const control = openDatabase(server.address, server.control, controlSettings, error =>
    log.warn({ err: error }, 'a connection to the control database broke'),
  )
  open.push(() => control.close())
  await checkSecret(control, deriveKey)

  const logins = createLogins(server.address, deriveKey)
  const cacheEngine = await openCacheEngine({
    redisUrl: config.redisUrl,
    server,
    deriveKey,
    isThere: async id => (await directory.find(id)) !== undefined,
    log,
  })
  open.push(() => cacheEngine.close())
  const lifecycle = createLifecycle(control, cluster, createProvisioner(control, cluster, logins), log, [
    cacheEngine,
  ])
  open.push(() => lifecycle.close())
  await lifecycle.recover()
  await lifecycle.upgrade()

  const directory = await openDirectory(control, server, sealer, log)
  open.push(() => directory.close())
  const databases = openDatabases({
    control,
    logins,
    poolSize: config.poolSize,
    maxConnections: config.maxConnections,
    statementTimeoutMs: config.statementTimeoutMs,
  })
  open.push(() => databases.close())
  directory.onChange(id => void disconnectUnserved(id))
  const watchdog = startWatchdog(server.address, server.control, config.statementTimeoutMs.others, log)
  open.push(() => watchdog.close())

  async function disconnectUnserved(id: string): Promise<void> {
    const tenant = await Promise.resolve(directory.find(id)).catch(() => undefined)
    if (tenant?.status !== 'active') databases.disconnect(id)
    cacheEngine.changed(id, tenant)
  }

  return {
    deriveKey,
    sealer,
    cluster,
    control,
    logins,
    cacheEngine,
    lifecycle,
    directory,
    databases,
    watchdog,
  }
}

async function compose(options: AppOptions, open: Closing[]): Promise<App> {
  const { config, adminToken, log } = options
  const {
    deriveKey,
    sealer,
    cluster,
    control,
    logins,
    cacheEngine,
    lifecycle,
    directory,
    databases,
    watchdog,
  } = await openGround(options, open)
  const hashingTurns = createHashingTurns()
  const passwords = createPasswords(hashingTurns)
  const windows = createRateWindows()
  let baseUrl = config.baseUrl ?? ''

  const credentials = createCredentials(control, deriveKey, adminToken)
  const meter = createMeter(windows, config.rateLimits)
  const planes = {
    data: dataPlane(directory, meter, { ...createRevocations(databases), word: wordUnknown }),
    management: managementPlane(credentials, createAudit(control, log)),
  }
  const owner = createOwnerWork(directory, databases)
  const projects = projectsService({ control, directory, lifecycle, sealer, baseUrl: () => baseUrl })
  const platform = platformService({ control, credentials, passwords, windows, deriveKey })
  const db = dbService({ owner, databases, shadows: createShadows(control, cluster, logins) })
  const docs = docsService(owner, () => baseUrl)
  const rest = restService({ databases, docs, maxRows: config.restMaxRows })
  const health = healthService({
    control,
    version,
    warnings: () => [...watchdog.warnings(), ...cacheEngine.warnings()],
  })

  const cache = cacheService(cacheEngine, owner)

  const mailWorker = startMailWorker({ control, sealer, deployment: config.smtp, log })
  open.push(() => mailWorker.close())
  // A project that is resumed has mail waiting.
  directory.onChange(() => mailWorker.wake())
  const email = emailService({
    control,
    sealer,
    owner,
    directory,
    deployment: config.smtp,
    baseUrl: () => baseUrl,
    wake: mailWorker.wake,
  })

  const cronWorker = await startCronWorker({
    control,
    directory,
    databases,
    timeoutMs: config.cronTimeoutMs,
    log,
  })
  open.push(() => cronWorker.close())
  const cron = cronService({ control, owner, wake: cronWorker.wake })

  const auth = authService({
    databases,
    email,
    passwords: createUserPasswords(hashingTurns),
    sealer,
    baseUrl: () => baseUrl,
    log,
    windows,
    deriveKey,
    outbound: createOutbound({ allow: config.outboundAllow }),
    directory,
  })
  const admin = adminService({
    control,
    passwords,
    sealer,
    auditRetentionDays: config.auditRetentionDays,
    pruneEvents: auth.pruneEvents,
  })

  const http = createHttpServer({
    log,
    trustedProxies: config.trustedProxies,
    wordOutside: (failure, path) => (path.startsWith('/v1/') ? dataRefusal : managementRefusal)(failure),
  })
  http.mount(
    planes.management,
    routeTables.health,
    healthRoutes(health, JSON.stringify(openapi(version, routeTables))),
  )
  http.mount(planes.management, routeTables.platform, platformRoutes(platform))
  http.mount(planes.management, routeTables.projects, projectsRoutes(projects))
  http.mount(planes.management, routeTables.db, dbRoutes(db))
  http.mount(planes.management, routeTables.types, typesRoutes(typesService(owner)))
  http.mount(planes.management, routeTables.docs, docsRoutes(docs))
  http.mount(planes.management, routeTables.schema, schemaRoutes(schemaService(owner)))
  http.mount(planes.management, routeTables.rls, rlsRoutes(rlsService(owner, databases)))
  http.mount(planes.management, routeTables.queries, queriesRoutes(queriesService(control, owner)))
  http.mount(planes.management, routeTables.pooler, poolerRoutes(poolerService(control, logins, owner)))
  http.mount(planes.management, routeTables.team, teamRoutes(teamService(control, deriveKey)))
  http.mount(planes.management, routeTables.email, emailRoutes(email))
  http.mount(
    planes.management,
    routeTables.users,
    usersRoutes(usersService({ control, sealer, owner, directory, auth })),
  )
  http.mount(planes.management, routeTables.admin, adminRoutes(admin))
  http.mount(planes.data, routeTables.whoami, whoamiRoutes())
  http.mount(planes.data, routeTables.rest, restRoutes(rest))
  http.mount(planes.data, routeTables.cache, cacheRoutes(cache))
  http.mount(planes.management, routeTables.cacheManagement, cacheManagementRoutes(cache))
  http.mount(authPlane(directory, meter), routeTables.auth, authRoutes(auth))
  http.mount(planes.data, routeTables.queue, queueRoutes(queueService(databases)))
  http.mount(planes.data, routeTables.cron, cronRoutes(cron))
  http.mount(planes.management, routeTables.cronManagement, cronManagementRoutes(cron))
  http.mountUnknown(planes.management, unknownManagementRoute, notFound)
  http.mountUnknown(planes.data, unknownDataRoute, request => {
    refuseRowsPath(request)
    notFound()
  })

  await admin
    .encryptSettingsSecrets()
    .catch(error => log.error({ err: error }, 'stored secrets could not be encrypted'))

  return {
    http,
    control,
    cluster,
    directory,
    databases,
    email,
    planes,
    async listen() {
      const url = await http.listen(config.host, config.port)
      baseUrl ||= url
      return url
    },
    async close() {
      await http.close(config.shutdownGraceMs)
      await closeAll(open)
    },
  }
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
