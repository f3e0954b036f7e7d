// What a platform serves that waits for the operator before it upgrades its databases: health and the upgrade. The control
// database is still that of the older release.
import { healthApi } from '@plinth/contract/health.ts'
import { openapi } from '@plinth/contract/openapi.ts'
import type { Route } from '@plinth/contract/route.ts'
import { routeTables } from '@plinth/contract/routes.ts'
import { Type } from '@plinth/contract/type.ts'
import { upgradeApi } from '@plinth/contract/upgrade.ts'
import { projectGrants } from '#src/app.ts'
import { controlBackups } from '#src/archive/control-backup.ts'
import { type AppOptions, type Closing, closeAll } from '#src/infrastructure.ts'
import { startChore } from '#src/kernel/chores.ts'
import { keyring } from '#src/kernel/crypto/keys.ts'
import { sealer as createSealer } from '#src/kernel/crypto/sealed.ts'
import { Refusal } from '#src/kernel/errors.ts'
import type { Failure, Plane } from '#src/kernel/http/plane.ts'
import { createHttpServer } from '#src/kernel/http/server.ts'
import { openBackupPieces, openPieces } from '#src/kernel/objects/open-pieces.ts'
import { openDatabase, withClient } from '#src/kernel/postgres/database.ts'
import { version } from '#src/kernel/version.ts'
import { dataRefusal } from '#src/planes/data/plane.ts'
import { createCredentials } from '#src/planes/management/admit.ts'
import { createAudit } from '#src/planes/management/audit.ts'
import { managementPlane, managementRefusal } from '#src/planes/management/plane.ts'
import { healthRoutes } from '#src/services/health/management-routes.ts'
import { healthService } from '#src/services/health/service.ts'
import { checkNotNewer, dropLeftovers, isWaiting } from '#src/services/upgrade/control-migration.ts'
import { upgradeRoutes } from '#src/services/upgrade/management-routes.ts'
import { upgradeService } from '#src/services/upgrade/service.ts'
import { checkUsable, clusterOf, controlSettings } from '#src/tenancy/cluster.ts'
import { createLogins } from '#src/tenancy/logins.ts'
import { grantsOf } from '#src/tenancy/project-grants.ts'
import { createProvisioner } from '#src/tenancy/provision.ts'
import { checkSecret } from '#src/tenancy/secret-proof.ts'
import { waitingStage } from '#src/waiting-stage.ts'

export interface UpgradeGate {
  listen(): Promise<string>
  /** Waits for answers that are being sent. Its port is free before they are. */
  close(): Promise<void>
}

const lookMs = 2000
const what =
  'The platform waits for the operator before it upgrades its databases: run plinth upgrade to see the plan, and plinth upgrade --yes to execute it'

/**
 * Undefined if there is nothing to wait for. `serve` is called once the databases are upgraded, by this node or another
 * one, and must start the platform in the place of the gate.
 */
export async function openUpgradeGate(
  options: AppOptions,
  serve: () => Promise<void>,
): Promise<UpgradeGate | undefined> {
  const { address, control: name } = options.server
  await checkUsable(address)
  const cluster = clusterOf(address, name)
  if (!(await isWaiting(cluster))) return
  await withClient(address, name, controlSettings, session => checkNotNewer(session, cluster))
  const open: Closing[] = []
  try {
    return await compose(options, open, serve)
  } catch (error) {
    await closeAll(open)
    throw error
  }
}

async function compose(options: AppOptions, open: Closing[], serve: () => Promise<void>) {
  const { config, server, log, adminToken, controlPlaneSecret } = options
  const cluster = clusterOf(server.address, server.control)
  const deriveKey = keyring(controlPlaneSecret)
  const control = openDatabase(server.address, server.control, controlSettings, error =>
    log.warn({ err: error }, 'lost a connection to the control database'),
  )
  open.push(() => control.close())
  await checkSecret(control, deriveKey)
  await dropLeftovers(cluster)
  const pieces = await openPieces(config)
  open.push(() => pieces.close())
  const backupPieces = await openBackupPieces(config)
  open.push(() => backupPieces.close())
  const logins = createLogins(server.address, deriveKey)
  const provisioner = createProvisioner(control, cluster, logins, grantsOf(projectGrants))
  const stage = waitingStage({
    control,
    cluster,
    controlBackups: controlBackups(backupPieces, deriveKey, log),
    provisioner,
    stores: {
      cluster,
      deriveKey,
      sealer: createSealer(deriveKey('sealed')),
      pieces,
      backupPieces,
      dataDir: config.dataDir,
    },
    log,
  })

  let closing: Promise<void> | undefined
  let serving: Promise<void> | undefined
  const serveOnce = () => {
    serving ??= serve().catch(error => {
      serving = undefined
      throw error
    })
    return serving
  }
  const upgrade = upgradeService(stage, serveOnce)
  open.push(upgrade.close)
  const looking = startChore(
    {
      name: 'upgrade: look whether another node has executed it',
      everyMs: lookMs,
      run: async () => {
        if (!serving && !upgrade.isRunning() && !(await isWaiting(cluster))) await serveOnce()
      },
    },
    log,
  )
  open.push(() => void looking.stop())

  const http = createHttpServer({
    log,
    observe: log.answered,
    trustedProxies: config.trustedProxies,
    formatUnrouted: (failure, path) => (path.startsWith('/v1/') ? dataRefusal : managementRefusal)(failure),
  })
  const credentials = createCredentials(control, deriveKey, adminToken)
  const audit = createAudit(control, log)
  const management = managementPlane(credentials, audit, { refusal: () => undefined })
  const health = healthService({
    control,
    version,
    warnings: () => [`${what}.`],
    states: () => ({}),
  })
  http.mount(
    'health',
    management,
    healthApi,
    healthRoutes(health, JSON.stringify(openapi(version, routeTables))),
  )
  http.mount('upgrade', management, upgradeApi, upgradeRoutes(upgrade, audit))
  http.mountUnknown(closedPlane(managementRefusal), unknownRoute('management'), refuse)
  http.mountUnknown(closedPlane(dataRefusal), unknownRoute('data'), refuse)

  return {
    async listen() {
      const url = await http.listen(config.host, config.port)
      log.warn({}, what)
      return url
    },
    close() {
      closing ??= http.close(config.shutdownGraceMs).finally(() => closeAll(open))
      return closing
    },
  }
}

const refuse = (): never => {
  throw new Refusal('upgrade_pending', what, { headers: { 'retry-after': '10' } })
}

/** Answers every request in the same way, with or without a credential. */
const closedPlane = (format: (failure: Failure) => unknown): Plane<never> => ({
  bodyLimit: 0,
  admit: refuse,
  identify: () => ({ project: undefined, role: 'anonymous' }),
  refuse: failure => ({ body: format(failure), headers: {} }),
})

const unknownRoute = (plane: 'management' | 'data') =>
  ({
    plane,
    method: 'GET',
    path: '/*',
    ...(plane === 'data' ? { allow: 'open' } : { scope: 'none' }),
    summary: 'Any route',
    reply: Type.Null(),
  }) as Route
