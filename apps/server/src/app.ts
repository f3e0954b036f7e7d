// Composition root: creates every service with its dependencies.
import { openapi } from '@plinth/contract/openapi.ts'
import { routeTables } from '@plinth/contract/routes.ts'
import { type AppOptions, type Closing, closeAll, openInfrastructure } from '#src/infrastructure.ts'
import { createUserPasswords } from '#src/kernel/crypto/password.ts'
import type { Observe } from '#src/kernel/http/observation.ts'
import { createRequestMetrics, socketMetrics } from '#src/kernel/http/request-metrics.ts'
import { createHttpServer, type HttpServer } from '#src/kernel/http/server.ts'
import type { Pieces } from '#src/kernel/objects/pieces.ts'
import { createOutbound } from '#src/kernel/outbound/fetch.ts'
import type { Database } from '#src/kernel/postgres/database.ts'
import { version } from '#src/kernel/version.ts'
import { mountServices } from '#src/mount.ts'
import type { dataPlane } from '#src/planes/data/plane.ts'
import { dataRefusal } from '#src/planes/data/plane.ts'
import type { managementPlane } from '#src/planes/management/plane.ts'
import { managementRefusal } from '#src/planes/management/plane.ts'
import type { HealthAudience, Service } from '#src/planes/service.ts'
import { openQueryEngine } from '#src/query/run.ts'
import { openAdmin } from '#src/services/admin/open.ts'
import { openAuth } from '#src/services/auth/open.ts'
import { authGrants } from '#src/services/auth/project-grants.ts'
import { createRevocations } from '#src/services/auth/revocations.ts'
import { openBackups } from '#src/services/backups/open.ts'
import { openBranches } from '#src/services/branches/open.ts'
import { openCache } from '#src/services/cache/open.ts'
import { openCron } from '#src/services/cron/open.ts'
import { openDb } from '#src/services/db/open.ts'
import { openDocs } from '#src/services/docs/open.ts'
import { openEmail } from '#src/services/email/open.ts'
import type { EmailService } from '#src/services/email/service.ts'
import { checkSmtpSetting } from '#src/services/email/smtp-settings.ts'
import { openFunctions } from '#src/services/functions/open.ts'
import { checkFunctionSettings } from '#src/services/functions/settings.ts'
import { openGraphql } from '#src/services/graphql/open.ts'
import { openHealth } from '#src/services/health/open.ts'
import { openLogs } from '#src/services/logs/open.ts'
import { openMetrics } from '#src/services/metrics/open.ts'
import { openPitr } from '#src/services/pitr/open.ts'
import { openPlatform } from '#src/services/platform/open.ts'
import { openPooler } from '#src/services/pooler/open.ts'
import { openProjects } from '#src/services/projects/open.ts'
import { openQueries } from '#src/services/queries/open.ts'
import { openQueue } from '#src/services/queue/open.ts'
import { queueGrants } from '#src/services/queue/project-grants.ts'
import { openRealtime } from '#src/services/realtime/open.ts'
import { realtimeGrants } from '#src/services/realtime/project-grants.ts'
import { openRest } from '#src/services/rest/open.ts'
import { openRls } from '#src/services/rls/open.ts'
import { openSchema } from '#src/services/schema/open.ts'
import { openSecrets } from '#src/services/secrets/open.ts'
import { openStorage } from '#src/services/storage/open.ts'
import { storageGrants } from '#src/services/storage/project-grants.ts'
import { openTeam } from '#src/services/team/open.ts'
import { openTypes } from '#src/services/types/open.ts'
import { openUpgrade } from '#src/services/upgrade/open.ts'
import { openUsage } from '#src/services/usage/open.ts'
import { openUsers } from '#src/services/users/open.ts'
import { openWebhooks } from '#src/services/webhooks/open.ts'
import { openWhoami } from '#src/services/whoami/open.ts'
import type { Cluster } from '#src/tenancy/cluster.ts'
import { measureDatabase } from '#src/tenancy/database-sizes.ts'
import type { Databases } from '#src/tenancy/databases.ts'
import type { Directory } from '#src/tenancy/directory.ts'
import type { Outbox } from '#src/tenancy/outbox.ts'
import type { ProjectData } from '#src/tenancy/project-data.ts'

export interface App {
  http: HttpServer
  control: Database
  cluster: Cluster
  directory: Directory
  databases: Databases
  outbox: Outbox
  projectData: ProjectData
  /** Where the files of projects are. */
  pieces: Pieces
  email: EmailService
  /** For additional routes, such as those of tests. */
  planes: { data: ReturnType<typeof dataPlane>; management: ReturnType<typeof managementPlane> }
  listen(): Promise<string>
  close(): Promise<void>
}

const observeBy =
  (...observers: readonly Observe[]): Observe =>
  answer => {
    for (const observe of observers) observe(answer)
  }

/** Grants on tables of services for the logins of every project. */
export const projectGrants = [authGrants, storageGrants, realtimeGrants, queueGrants]

/**
 * Then statements in the control database and requests to S3 are ended, because one that waits for a lock or for a
 * service that hangs would delay the stop.
 */
const closingMs = 10_000

/** If the start fails, everything that was opened is closed. */
export async function createApp(options: AppOptions): Promise<App> {
  const open: Closing[] = []
  try {
    return await compose(options, open)
  } catch (error) {
    await closeAll(open)
    throw error
  }
}

const statesOf = (services: readonly Service[], audience: HealthAudience) =>
  Object.fromEntries(services.flatMap(({ name, health }) => (health ? [[name, health(audience)]] : [])))

/** A copy of the earliest time that can be recovered waits a week for its cutover. */
const keptDays = ({ config, server }: AppOptions): number =>
  config.pitr.isOn && server.embedded ? config.pitr.days + 8 : 0

/** Backups, and recovery to a time, whose copies take the place of projects like those of restores. */
async function addBackups(
  add: <T extends Service>(service: T) => T,
  { config, server }: AppOptions,
  platform: Awaited<ReturnType<typeof openInfrastructure>>,
): Promise<void> {
  const shared = {
    ...platform,
    dataDir: config.dataDir,
    isBesideFiles: config.backups.directory === undefined && config.backups.s3 === undefined,
  }
  const { service: backups } = add(
    openBackups({ ...shared, live: platform.pieces, backups: platform.backupPieces }),
  )
  add(
    openUpgrade({
      ...shared,
      takeSnapshot: async (id, watching) => (await backups.snapshotBeforeUpgrade(id, watching)).id,
    }),
  )
  add(await openPitr({ ...shared, embedded: server.embedded, settings: config.pitr, backups }))
}

async function compose(options: AppOptions, open: Closing[]): Promise<App> {
  const { config, log } = options
  const platform = await openInfrastructure(options, open, projectGrants)
  const { control, databases, directory, outbox, connector, lifecycle, projectData, metrics } = platform
  const revocations = createRevocations(databases)
  const services: Service[] = []
  /** Closed in reverse order, before the infrastructure. */
  function add<T extends Service>(service: T): T {
    services.push(service)
    if (service.hooks) lifecycle.addHooks(service.hooks)
    if (service.data) projectData.addHooks(service.name, service.data)
    if (service.reseal) projectData.addReseal(service.reseal)
    if (service.metrics) metrics.add(service.metrics)
    if (service.close) open.push(service.close)
    return service
  }

  // Closed after all services whose requests and calls it counts.
  const usage = add(openUsage(platform))
  add(await openCache({ ...platform, server: options.server, redisUrl: config.redisUrl }))
  const storage = add(
    await openStorage({ ...platform, dataDir: config.dataDir, keepRemovedDays: keptDays(options) }),
  )
  const docs = add(openDocs(platform))
  const email = add(openEmail({ ...platform, smtp: config.smtp }))
  const auth = add(
    openAuth({
      ...platform,
      email: email.service,
      passwords: createUserPasswords(platform.hashingLimiter, options.bcryptCost),
      outbound: createOutbound(connector),
    }),
  )
  const admin = add(
    openAdmin({
      ...platform,
      auditRetentionDays: config.auditRetentionDays,
      pruneEvents: auth.service.pruneEvents,
    }),
  )
  const rls = add(openRls(platform))
  add(
    openProjects({
      ...platform,
      openTables: rls.service.openTables,
      storageBytes: storage.service.usedBytes,
      databaseBytes: id => measureDatabase(control, id),
      checkServiceSettings(settings) {
        checkSmtpSetting(settings, connector)
        checkFunctionSettings(settings)
      },
    }),
  )
  add(await openCron({ ...platform, timeoutMs: config.cronTimeoutMs }))
  const queries = openQueryEngine(databases)
  add(openRest({ ...platform, queries, docs: docs.service, maxRows: config.restMaxRows }))
  add(openGraphql({ ...platform, queries, maxRows: config.restMaxRows, limits: config.graphql }))
  add(openRealtime({ ...platform, revocations, redisUrl: config.redisUrl, limits: config.realtime }))
  add(openUsers({ ...platform, auth: auth.service }))
  add(openWhoami())
  add(openQueue(platform))
  add(openPlatform(platform))
  const db = add(openDb(platform))
  add(openTypes(platform))
  add(openSchema(platform))
  add(openQueries(platform))
  const secrets = add(openSecrets(platform))
  const logs = add(openLogs({ ...platform, retentionDays: config.logRetentionDays }))
  add(
    openFunctions({
      ...platform,
      revocations,
      rateLimits: config.rateLimits,
      secrets: secrets.service,
      logs: logs.service,
      usage: usage.service,
      dataDir: config.dataDir,
      keepRemovedDays: keptDays(options),
      outboundAllow: config.outboundAllow,
      settings: config.functions,
      http: () => http,
    }),
  )
  add(openWebhooks({ ...platform, email: email.service, settings: config.webhooks }))
  await addBackups(add, options, platform)
  add(
    openBranches({
      ...platform,
      longestHoldMs: options.branchHoldMs,
      isArchived: keptDays(options) > 0,
      compare: db.service.difference,
    }),
  )
  add(openPooler({ ...platform, settings: config.pooler, replica: config.replica }))
  add(openTeam(platform))
  add(openMetrics(metrics))
  const watched: Pick<Service, 'warnings'>[] = [platform, ...services]
  add(
    openHealth({
      control,
      version,
      warnings: () => watched.flatMap(part => part.warnings?.() ?? []),
      states: audience => statesOf(services, audience),
      description: JSON.stringify(openapi(version, routeTables)),
    }),
  )

  const requests = createRequestMetrics()
  const counted = observeBy(log.answered, usage.service.countAnswer, requests.observe)
  const http = createHttpServer({
    log,
    observe: options.accessLog === false ? counted : observeBy(counted, logs.service.answered),
    trustedProxies: config.trustedProxies,
    formatUnrouted: (failure, path) => (path.startsWith('/v1/') ? dataRefusal : managementRefusal)(failure),
  })
  metrics.addLines(requests.lines)
  metrics.add(socketMetrics(http))
  const { rateLimits, metricsToken } = config
  const planes = mountServices(http, services, { ...platform, revocations, rateLimits, metricsToken })

  await admin.service
    .encryptSettingsSecrets()
    .catch(error => log.error({ err: error }, 'could not encrypt stored secrets'))

  return {
    http,
    control,
    cluster: platform.cluster,
    directory,
    databases,
    outbox,
    projectData,
    pieces: platform.pieces,
    email: email.service,
    planes,
    async listen() {
      const url = await http.listen(config.host, config.port)
      platform.listensAt(url)
      // These may take long, and projects can be served before they end.
      lifecycle.recoverInBackground()
      outbox.start()
      for (const service of services) service.start?.()
      return url
    },
    async close() {
      await http.close(config.shutdownGraceMs)
      const timer = setTimeout(() => {
        for (const each of [control, platform.pieces, platform.backupPieces]) void each.close()
      }, closingMs)
      await closeAll(open).finally(() => clearTimeout(timer))
    },
  }
}
