// The parts of realtime put together: sockets, what spans nodes, and the feed of row changes.
import type { DeriveKey } from '#src/kernel/crypto/keys.ts'
import type { Log } from '#src/kernel/log.ts'
import type { Abandoned } from '#src/kernel/postgres/abandoned.ts'
import type { Database } from '#src/kernel/postgres/database.ts'
import type { OwnerWork } from '#src/planes/management/owner-work.ts'
import { createCaptureSwitch } from '#src/tenancy/capture-switch.ts'
import type { Cluster } from '#src/tenancy/cluster.ts'
import type { Databases } from '#src/tenancy/databases.ts'
import type { Directory } from '#src/tenancy/directory.ts'
import { createGatePools } from '#src/tenancy/gate-pools.ts'
import { createListeners } from '#src/tenancy/listeners.ts'
import type { Logins } from '#src/tenancy/logins.ts'
import type { Revocations } from '#src/tenancy/revocations.ts'
import type { Upgrades } from '#src/tenancy/upgrades.ts'
import { createChanges } from './changes/changes.ts'
import { realtimeService } from './service.ts'
import { openSpan } from './span.ts'
import { realtimeTables } from './tables.ts'

export interface RealtimeLimits {
  /** Projects whose changes are read at the same time. */
  maxListeners: number
  /** Connections on which policies are asked, of all projects and of one. */
  maxConnections: number
  poolSize: number
}

interface RealtimeDeps {
  control: Database
  cluster: Cluster
  logins: Logins
  abandoned: Abandoned
  databases: Databases
  directory: Directory
  revocations: Revocations
  upgrades: Pick<Upgrades, 'whenUpgraded'>
  owner: OwnerWork
  redisUrl: Parameters<typeof openSpan>[0]['redisUrl']
  deriveKey: DeriveKey
  limits: RealtimeLimits
  log: Log
}

export function openRealtime(deps: RealtimeDeps) {
  const { control, cluster, logins, databases, directory, revocations, limits, log } = deps
  const { whenUpgraded } = deps.upgrades
  const span = openSpan({ redisUrl: deps.redisUrl, deriveKey: deps.deriveKey, log })
  const pools = createGatePools({
    control,
    logins,
    abandoned: deps.abandoned,
    perProject: limits.poolSize,
    inAll: limits.maxConnections,
  })
  const captureSwitch = createCaptureSwitch(cluster, whenUpgraded)
  const changes = createChanges({
    control,
    databases,
    directory,
    pools,
    openListener: createListeners(control, logins),
    captureSwitch,
    maxListeners: limits.maxListeners,
    questionsAtOnce: limits.poolSize,
    log,
  })
  const service = realtimeService({
    directory,
    whenUpgraded,
    isRevoked: revocations.isRevoked,
    span,
    changes,
    permissions: changes.permissions,
    replay: changes.replay,
    log,
  })
  changes.onMessage(service.deliver)
  void changes.tidy().catch(error => log.warn({ err: error }, 'left-over triggers could not be switched off'))

  directory.onChange(id => {
    void service.changed(id).catch(() => {})
    changes.tablesChanged(id)
    void directory.read(id).then(
      tenant => tenant?.status !== 'active' && pools.disconnect(id),
      () => {},
    )
  })

  return {
    service,
    tables: realtimeTables({
      owner: deps.owner,
      address: cluster.address,
      // Triggers are switched before it is answered, also where only other nodes listen.
      async changed({ id, ref }) {
        changes.tablesChanged(id)
        await captureSwitch.adjust(ref)
      },
    }),
    warnings: span.warnings,
    async close() {
      await service.close()
      // Whatever a policy does, nobody waits for it now.
      pools.close()
      await changes.close()
      await span.close()
    },
  }
}
