import { rm } from 'node:fs/promises'
import { join } from 'node:path'
import { pitrApi } from '@plinth/contract/pitr.ts'
import { startChore } from '#src/kernel/chores.ts'
import { freeBytes } from '#src/kernel/disk-space.ts'
import { workerMetrics } from '#src/kernel/metrics.ts'
import { openDirectoryPieces } from '#src/kernel/objects/filesystem.ts'
import type { Pieces } from '#src/kernel/objects/pieces.ts'
import type { Place } from '#src/kernel/postgres/engine/place.ts'
import { sweepRecoveries } from '#src/kernel/postgres/recovery/recovery.ts'
import { dropArchiveSlot } from '#src/kernel/postgres/recovery/replication-slot.ts'
import type { OwnerWork } from '#src/planes/management/owner-work.ts'
import type { Mounting, Service } from '#src/planes/service.ts'
import { dropCopy, recoveredOf } from '#src/tenancy/provision.ts'
import { openRecoveryArchive } from './archive.ts'
import { createPitrHealth } from './health.ts'
import { pitrRoutes, unavailableApi, unavailableRoutes } from './management-routes.ts'
import { pitrService, unavailablePitr } from './service.ts'
import { createSpaceClaims } from './space.ts'
import * as store from './store.ts'
import { type PitrWorkerDeps, startPitrWorkers } from './worker.ts'

/** The embedded Postgres, as far as recovery needs it. */
export interface EmbeddedServer {
  place: Place
  settings: Record<string, string>
}

interface PitrDeps
  extends Omit<PitrWorkerDeps, 'archive' | 'place' | 'engineSettings' | 'copies' | 'claims' | 'dropCopy'> {
  owner: OwnerWork
  /** Free bytes on the disk of the databases, beyond the reserve. */
  freeForDatabases(): Promise<number | undefined>
  /** Undefined with an external server. */
  embedded: EmbeddedServer | undefined
  settings: { isOn: boolean; days: number }
  backupPieces: Pieces
  /** Whether backups are on the same disk as the data. */
  isBesideFiles: boolean
}

const external =
  "Recovery to a time is for the embedded database; for the one at DATABASE_URL use its provider's, and backups here."
const switchedOff =
  'Recovery to a time is off. Start the platform with PLATFORM_PITR=on; from then on times can be recovered. Until then use backups.'
const onExternal =
  'PLATFORM_PITR is on, but has no effect on the database at DATABASE_URL. Use recovery of its provider.'

const wasSwitchedOff = 'Recovery to a time was switched off.'

const hourMs = 3_600_000

export async function openPitr(deps: PitrDeps): Promise<Service> {
  const { control, cluster, embedded, settings, log } = deps
  const mountUnavailable = (reason: string) => (to: Mounting) =>
    to.management(unavailableApi, unavailableRoutes(unavailablePitr(deps, reason)))
  if (!embedded)
    return {
      name: 'pitr',
      mount: mountUnavailable(external),
      warnings: () => (settings.isOn ? [onExternal] : []),
    }
  const { place, settings: engineSettings } = embedded
  const copiesDir = join(deps.dataDir, 'recovered')
  if (!settings.isOn) {
    const off = startChore(
      {
        name: 'pitr: switch off',
        everyMs: hourMs,
        runsAtStart: true,
        run: () => switchOff(deps, place, copiesDir),
      },
      log,
    )
    return {
      name: 'pitr',
      mount: mountUnavailable(switchedOff),
      close: () => off.stop(),
    }
  }
  const copies = await openDirectoryPieces(copiesDir)
  const upkeep = startChore(
    {
      name: 'pitr: drop copies',
      everyMs: hourMs,
      runsAtStart: true,
      run: () => dropStray(deps, copies),
    },
    log,
  )
  const archive = openRecoveryArchive({
    address: cluster.address,
    place,
    pieces: deps.backupPieces,
    deriveKey: deps.deriveKey,
    days: settings.days,
    isBesideFiles: deps.isBesideFiles,
    log,
    record: async (what, detail) => void (await store.insertAudit(control, `pitr.${what}`, detail, null)),
  })
  const { preparing, cutovers } = startPitrWorkers({
    ...deps,
    archive,
    place,
    engineSettings,
    copies,
    claims: createSpaceClaims(() => freeForRecoveries(deps, place)),
    dropCopy: database => dropCopy(cluster, database),
  })
  const controlName = cluster.control
  const service = pitrService({ control, controlName, owner: deps.owner, archive, wake: preparing.wake })
  const health = createPitrHealth(archive, deps.isBesideFiles)
  return {
    name: 'pitr',
    mount: to => to.management(pitrApi, pitrRoutes(service)),
    warnings: health.warnings,
    metrics: [
      ...workerMetrics('pitr', preparing.use),
      ...workerMetrics('pitr cutovers', cutovers.use),
      ...health.metrics,
    ],
    async close() {
      await upkeep.stop()
      await Promise.all([preparing.close(), cutovers.close()])
      await archive.close()
    },
  }
}

/** The second servers are beside the cluster, whose directory may be on another disk. */
async function freeForRecoveries({ freeForDatabases }: PitrDeps, { home }: Place): Promise<number> {
  return Math.min(await freeBytes(home), (await freeForDatabases()) ?? Number.POSITIVE_INFINITY)
}

/** Copies that have waited too long, and what a crash has left. */
async function dropStray(deps: PitrDeps, copies: Pieces): Promise<void> {
  const { control } = deps
  for (const { id, project_id: project } of await store.expireJobs(control))
    await store.insertAudit(control, 'pitr.expired', id, project)
  await dropUnneeded(deps)
  const needed = await store.listNeeded(control)
  for await (const folder of copies.folders()) if (!needed.has(folder)) await copies.removeFolder(folder)
}

async function dropUnneeded({ control, cluster, settings }: PitrDeps): Promise<void> {
  for (const database of await store.listStrayCopies(control, recoveredOf('')))
    await dropCopy(cluster, database)
  await store.prunePoints(control, settings.days)
}

/** Without an archive, its slot would keep WAL until the disk is full. Also ends and removes what a crash has left. */
async function switchOff(deps: PitrDeps, place: Place, copiesDir: string): Promise<void> {
  const { control, cluster, backups, log } = deps
  for (const restore of await store.listCutovers(control)) await backups.giveUp(restore, wasSwitchedOff)
  await store.failOpenJobs(control, wasSwitchedOff)
  if (await dropArchiveSlot(cluster.address)) {
    await store.insertAudit(control, 'pitr.switched_off', null, null)
    log.info({}, 'recovery to a time is off; the database no longer keeps WAL for it')
  }
  await sweepRecoveries(place)
  await rm(copiesDir, { recursive: true, force: true })
  await dropUnneeded(deps)
}
