// Composes the realtime service: sockets, the bus between nodes, and the feed of row changes.
import { realtimeApi, realtimeManagementApi } from '@plinth/contract/realtime.ts'
import type { DeriveKey } from '#src/kernel/crypto/keys.ts'
import type { Log } from '#src/kernel/log.ts'
import type { Abandoned } from '#src/kernel/postgres/abandoned.ts'
import type { Database } from '#src/kernel/postgres/database.ts'
import type { Revocations } from '#src/planes/data/plane.ts'
import type { Credentials } from '#src/planes/management/admit.ts'
import type { OwnerWork } from '#src/planes/management/owner-work.ts'
import type { Service } from '#src/planes/service.ts'
import type { Cluster } from '#src/tenancy/cluster.ts'
import type { Databases } from '#src/tenancy/databases.ts'
import type { Directory } from '#src/tenancy/directory.ts'
import type { Logins } from '#src/tenancy/logins.ts'
import type { RequestHolds } from '#src/tenancy/request-holds.ts'
import type { Upgrades } from '#src/tenancy/upgrades.ts'
import { openBus } from './bus.ts'
import { createCaptureSwitch } from './changes/capture-switch.ts'
import { createChanges } from './changes/changes.ts'
import { createFeedConnections } from './changes/feed-connections.ts'
import { createPolicyCheckPools } from './changes/policy-check-pools.ts'
import { realtimeRoutes } from './data-routes.ts'
import { realtimeManagementRoutes } from './management-routes.ts'
import { realtimeService } from './service.ts'
import { realtimeTables } from './tables.ts'

export interface RealtimeLimits {
  /** Projects whose changes this node reads at the same time. */
  maxListeners: number
  /** Connections for policy checks: of all projects together, and of one project. */
  maxConnections: number
  poolSize: number
}

interface RealtimeDeps {
  control: Database
  cluster: Cluster
  logins: Logins
  abandoned: Abandoned
  databases: Databases
  holds: RequestHolds
  directory: Directory
  revocations: Revocations
  credentials: Pick<Credentials, 'isManagementToken'>
  upgrades: Pick<Upgrades, 'whenUpgraded'>
  owner: OwnerWork
  redisUrl: Parameters<typeof openBus>[0]['redisUrl']
  deriveKey: DeriveKey
  limits: RealtimeLimits
  log: Log
}

export function openRealtime(deps: RealtimeDeps): Service {
  const { control, cluster, logins, databases, directory, revocations, limits, log } = deps
  const { whenUpgraded } = deps.upgrades
  const bus = openBus({ redisUrl: deps.redisUrl, deriveKey: deps.deriveKey, log })
  const pools = createPolicyCheckPools({
    control,
    logins,
    abandoned: deps.abandoned,
    holds: deps.holds,
    perProject: limits.poolSize,
    total: limits.maxConnections,
  })
  const captureSwitch = createCaptureSwitch(cluster, whenUpgraded)
  const changes = createChanges({
    control,
    databases,
    directory,
    pools,
    openConnection: createFeedConnections(control, logins, deps.holds),
    captureSwitch,
    maxFeeds: limits.maxListeners,
    checkConcurrency: limits.poolSize,
    log,
  })
  const service = realtimeService({
    directory,
    whenUpgraded,
    findCurrent: directory.findCurrent,
    isManagementToken: deps.credentials.isManagementToken,
    isRevoked: revocations.isRevoked,
    bus,
    changes,
    permissions: changes.permissions,
    replay: changes.replay,
    log,
  })
  changes.onMessage(service.deliver)

  directory.onChange(id => {
    void service.changed(id).catch(() => {})
    changes.tablesChanged(id)
    void directory.read(id).then(
      tenant => tenant?.status !== 'active' && pools.disconnect(id),
      () => {},
    )
  })

  const tables = realtimeTables({
    owner: deps.owner,
    address: cluster.address,
    // Enables or disables triggers before the reply, even if only other nodes have subscribers.
    async changed({ id, ref }) {
      changes.tablesChanged(id)
      await captureSwitch.adjust(ref)
    },
  })

  return {
    name: 'realtime',
    mount(to) {
      to.data(realtimeApi, realtimeRoutes(service))
      to.management(realtimeManagementApi, realtimeManagementRoutes(tables))
      to.socket(service.sockets)
    },
    warnings: bus.warnings,
    async close() {
      await service.close()
      // Close the pools first: the feed must not wait for a slow policy.
      pools.close()
      await changes.close()
      await bus.close()
    },
  }
}
