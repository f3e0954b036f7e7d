// Composition root: every part of the server is named once, here, and given what it needs.
import { routeTables } from '@plinth/contract/routes.ts'
import { type AppOptions, type Closing, closeAll, openGround } from '#src/ground.ts'
import { createHashingTurns } from '#src/kernel/crypto/hashing-turns.ts'
import { createPasswords, createUserPasswords } from '#src/kernel/crypto/password.ts'
import { createRateWindows } from '#src/kernel/http/rate-windows.ts'
import { createHttpServer, type HttpServer } from '#src/kernel/http/server.ts'
import { createConnector } from '#src/kernel/outbound/connect.ts'
import { createOutbound } from '#src/kernel/outbound/fetch.ts'
import type { Database } from '#src/kernel/postgres/database.ts'
import { version } from '#src/kernel/version.ts'
import { mountData, mountManagement } from '#src/mount.ts'
import { createMeter } from '#src/planes/data/meter.ts'
import { type DataPlaneOptions, dataPlane, dataRefusal } from '#src/planes/data/plane.ts'
import { createCredentials } from '#src/planes/management/admit.ts'
import { createAudit } from '#src/planes/management/audit.ts'
import { createOwnerWork } from '#src/planes/management/owner-work.ts'
import { managementPlane, managementRefusal } from '#src/planes/management/plane.ts'
import { adminService } from '#src/services/admin/service.ts'
import { authRoutes } from '#src/services/auth/data-routes.ts'
import { authPlane, wordUnknown } from '#src/services/auth/plane.ts'
import { authService } from '#src/services/auth/service.ts'
import { cacheService } from '#src/services/cache/service.ts'
import { cronService } from '#src/services/cron/service.ts'
import { startCronWorker } from '#src/services/cron/worker.ts'
import { dbService } from '#src/services/db/service.ts'
import { docsService } from '#src/services/docs/service.ts'
import { createDelivery } from '#src/services/email/delivery.ts'
import { type EmailService, emailService } from '#src/services/email/service.ts'
import { checkSmtpSetting } from '#src/services/email/smtp-settings.ts'
import { startMailWorker } from '#src/services/email/worker.ts'
import { healthService } from '#src/services/health/service.ts'
import { platformService } from '#src/services/platform/service.ts'
import { poolerService } from '#src/services/pooler/service.ts'
import { projectsService } from '#src/services/projects/service.ts'
import { queriesService } from '#src/services/queries/service.ts'
import { queueService } from '#src/services/queue/service.ts'
import { realtimeRoutes } from '#src/services/realtime/data-routes.ts'
import { openRealtime } from '#src/services/realtime/open-realtime.ts'
import { restService } from '#src/services/rest/service.ts'
import { rlsService } from '#src/services/rls/service.ts'
import { schemaService } from '#src/services/schema/service.ts'
import { storageRoutes } from '#src/services/storage/data-routes.ts'
import { isStoragePath, storagePlane } from '#src/services/storage/plane.ts'
import { storageWording } from '#src/services/storage/refusals.ts'
import { storageService } from '#src/services/storage/service.ts'
import { teamService } from '#src/services/team/service.ts'
import { typesService } from '#src/services/types/service.ts'
import { usersService } from '#src/services/users/service.ts'
import type { Cluster } from '#src/tenancy/cluster.ts'
import { measureDatabase } from '#src/tenancy/database-sizes.ts'
import type { Databases } from '#src/tenancy/databases.ts'
import type { Directory } from '#src/tenancy/directory.ts'
import { createRevocations } from '#src/tenancy/revocations.ts'
import { createShadows } from '#src/tenancy/shadow.ts'

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

const wordByPath: NonNullable<DataPlaneOptions['word']> = (body, failure, request) =>
  (isStoragePath(request.path) ? storageWording : wordUnknown)(body, failure, request)

async function compose(options: AppOptions, open: Closing[]): Promise<App> {
  const { config, adminToken, log } = options
  const ground = await openGround(options, open)
  const { deriveKey, sealer, cluster, control, logins, cacheEngine, directory, databases, room } = ground
  const { whenUpgraded } = ground.upgrades
  const hashingTurns = createHashingTurns()
  const passwords = createPasswords(hashingTurns)
  const windows = createRateWindows()
  let baseUrl = config.baseUrl ?? ''

  const credentials = createCredentials(control, deriveKey, adminToken)
  const meter = createMeter(windows, config.rateLimits)
  const revocations = createRevocations(databases)
  const planes = {
    data: dataPlane(directory, meter, room, { ...revocations, whenUpgraded, word: wordByPath }),
    management: managementPlane(credentials, createAudit(control, log), room),
  }
  const owner = createOwnerWork(directory, databases)
  const connector = createConnector({ allow: config.outboundAllow })
  const storage = await storageService({ ...ground, dataDir: config.dataDir, baseUrl: () => baseUrl, log })
  open.push(() => storage.close())
  directory.onChange(id => void storage.changed(id).catch(() => {}))
  const projects = projectsService({
    ...ground,
    baseUrl: () => baseUrl,
    storageBytes: storage.usedBytes,
    databaseBytes: id => measureDatabase(control, id),
    checkServiceSettings: settings => checkSmtpSetting(settings, connector),
  })
  const platform = platformService({ control, credentials, passwords, windows, deriveKey })
  const shadows = createShadows(control, cluster, logins, ground.abandoned)
  open.push(() => shadows.close())
  const db = dbService({ owner, databases, shadows })
  const docs = docsService(owner, () => baseUrl)
  const rest = restService({ databases, docs, room, maxRows: config.restMaxRows })
  const cache = cacheService(cacheEngine, owner)

  const delivery = createDelivery({ sealer, deployment: config.smtp, connector })
  const mailWorker = startMailWorker({ control, sealer, delivery, log })
  open.push(() => mailWorker.close())
  // A project that is resumed has mail waiting.
  directory.onChange(() => mailWorker.wake())
  const email = emailService({
    control,
    sealer,
    owner,
    directory,
    delivery,
    connector,
    baseUrl: () => baseUrl,
    wake: mailWorker.wake,
    log,
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
    outbound: createOutbound(connector),
    directory,
  })
  const admin = adminService({
    control,
    passwords,
    sealer,
    auditRetentionDays: config.auditRetentionDays,
    pruneEvents: auth.pruneEvents,
  })

  const { redisUrl, realtime: limits } = config
  const realtime = openRealtime({ ...ground, owner, revocations, redisUrl, limits, log })
  open.push(() => realtime.close())
  const health = healthService({
    control,
    version,
    warnings: () =>
      [ground.watchdog, ground.abandoned, ground.diskReserve, ground.upgrades, cacheEngine, realtime].flatMap(
        part => part.warnings(),
      ),
  })

  const http = createHttpServer({
    log,
    trustedProxies: config.trustedProxies,
    wordOutside: (failure, path) => (path.startsWith('/v1/') ? dataRefusal : managementRefusal)(failure),
  })
  mountData(http, planes.data, { rest, cache, queues: queueService(databases), cron })
  http.mount(authPlane(directory, meter, room, { whenUpgraded }), routeTables.auth, authRoutes(auth))
  const storageAdmission = storagePlane(directory, meter, room, { ...revocations, whenUpgraded })
  http.mount(storageAdmission, routeTables.storage, storageRoutes(storage))
  http.mount(planes.data, routeTables.realtime, realtimeRoutes(realtime.service))
  http.mountSocket(realtime.service.sockets)
  mountManagement(http, planes.management, {
    health,
    platform,
    projects,
    db,
    types: typesService(owner),
    docs,
    schema: schemaService(owner),
    rls: rlsService(owner, databases),
    queries: queriesService(control, owner),
    pooler: poolerService(control, logins, owner),
    team: teamService(control, deriveKey),
    email,
    users: usersService({ control, sealer, owner, directory, auth }),
    admin,
    cache,
    cron,
    realtimeTables: realtime.tables,
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
      // Both may take long, and no project needs them to be finished before it is served.
      ground.lifecycle.recoverInBackground()
      ground.upgrades.start()
      return url
    },
    async close() {
      await http.close(config.shutdownGraceMs)
      await closeAll(open)
    },
  }
}
