// Keeps the archive for recovery to a time: receives WAL, takes base backups, and removes what is older than the window.
// The lock of the data directory lets one platform at a time do this.
import { hkdfSync } from 'node:crypto'
import { join } from 'node:path'
import { startChore } from '#src/kernel/chores.ts'
import type { DeriveKey } from '#src/kernel/crypto/keys.ts'
import type { Log } from '#src/kernel/log.ts'
import type { Pieces } from '#src/kernel/objects/pieces.ts'
import type { Place } from '#src/kernel/postgres/engine/place.ts'
import type { ArchiveStore } from '#src/kernel/postgres/recovery/archive-layout.ts'
import { formatTime } from '#src/kernel/postgres/recovery/archive-time.ts'
import { takeBaseBackup } from '#src/kernel/postgres/recovery/base-backup.ts'
import {
  type Catalogue,
  needsBaseBackup,
  pruneArchive,
  type RecoveryGap,
  type RecoveryWindow,
  readCatalogue,
  recoveryGaps,
  recoveryWindows,
  sweepBaseBackups,
} from '#src/kernel/postgres/recovery/catalogue.ts'
import { sweepRecoveries } from '#src/kernel/postgres/recovery/recovery.ts'
import {
  readSystemId,
  readWalEnd,
  startWalArchive,
  type WalArchive,
} from '#src/kernel/postgres/recovery/wal-archive.ts'
import { distance } from '#src/kernel/postgres/recovery/wal-position.ts'
import type { ServerAddress } from '#src/kernel/postgres/server-address.ts'
import { sharedReading } from '#src/kernel/shared-reading.ts'
import { untilAborted } from '#src/kernel/until-aborted.ts'
import { archiveReason } from './reason.ts'

export interface ArchiveDeps {
  address: ServerAddress
  place: Place
  pieces: Pieces
  deriveKey: DeriveKey
  days: number
  /** Whether a loss of the data directory loses the pieces as well. */
  isBesideFiles: boolean
  log: Log
  /** Called after a base backup was made, or could not be, and after WAL was lost. */
  record(what: 'base_backup_made' | 'base_backup_failed' | 'gap', detail: string): Promise<void>
}

export interface ArchiveHealth {
  isReceiving: boolean
  /** When WAL was last being received, in milliseconds since 1970. */
  receivedAt: number
  /** Sentences without paths of the host, like `baseFailure`. */
  failure: string | undefined
  /** WAL of the server that is not archived yet. */
  behindBytes: number
  baseFailure: string | undefined
  /** The newest base backup, in milliseconds since 1970. */
  baseAt: number | undefined
  windows: readonly RecoveryWindow[]
  gaps: readonly RecoveryGap[]
  damaged: readonly string[]
}

export interface RecoveryArchive {
  store(signal: AbortSignal): Promise<ArchiveStore>
  catalogue(signal: AbortSignal): Promise<Catalogue>
  /** Afterwards every time until now can be recovered. */
  catchUp(signal: AbortSignal): Promise<void>
  health(): ArchiveHealth
  close(): Promise<void>
}

const lookMs = 5000
/** Between two readings of the catalogue, which decide about base backups and what is removed. */
const readMs = 10 * 60_000
const retryMs = 60_000
const dayMs = 86_400_000
const catchUpMs = 60_000
const closeMs = 5000
const sharedMs = 1000

type StoreDeps = Pick<ArchiveDeps, 'place' | 'pieces' | 'deriveKey'>

export const archiveStore = async (deps: StoreDeps & Pick<ArchiveDeps, 'address'>): Promise<ArchiveStore> =>
  archiveStoreOf(deps, await readSystemId(deps.address))

/** Of a cluster that is not running. */
export const archiveStoreOf = ({ place, pieces, deriveKey }: StoreDeps, systemId: string): ArchiveStore => ({
  pieces,
  systemId,
  dataKey: Buffer.from(hkdfSync('sha256', deriveKey('backup'), systemId, 'plinth recovery', 32)),
  spoolDir: join(place.dataDir, 'wal'),
})

export function openRecoveryArchive(deps: ArchiveDeps): RecoveryArchive {
  const { address, place, log } = deps
  const opened = Promise.withResolvers<{ store: ArchiveStore; wal: WalArchive }>()
  opened.promise.catch(() => {})
  let running: { store: ArchiveStore; wal: WalArchive } | undefined
  let behindBytes = 0
  let baseFailure: string | undefined
  let openFailure: string | undefined
  let found: Pick<ArchiveHealth, 'windows' | 'gaps' | 'damaged' | 'baseAt'> = {
    windows: [],
    gaps: [],
    damaged: [],
    baseAt: undefined,
  }
  let readAt = 0
  let isSwept = false
  let receivedAt = Date.now()

  const catalogue = sharedReading(async () => {
    const { store, wal } = await opened.promise
    return readCatalogue(store, wal.received())
  }, sharedMs)

  function note(what: Parameters<ArchiveDeps['record']>[0], detail: string): void {
    deps.record(what, detail).catch(error => log.warn({ err: error }, 'could not write the audit log'))
  }

  async function open() {
    try {
      const archive = await startArchive()
      openFailure = undefined
      return archive
    } catch (error) {
      openFailure = archiveReason(error)
      throw error
    }
  }

  /** Needs no storage: while that cannot be reached, WAL is received and waits in the spool. */
  async function startArchive() {
    await sweepRecoveries(place)
    const store = await archiveStore(deps)
    const wal = startWalArchive({
      address,
      store,
      log,
      storesTail: !deps.isBesideFiles,
      onGap(gap) {
        readAt = 0
        note('gap', `${gap.fromLsn} to ${gap.toLsn}`)
      },
    })
    opened.resolve({ store, wal })
    return { store, wal }
  }

  async function takeBase(store: ArchiveStore, signal: AbortSignal): Promise<void> {
    try {
      const { id } = await takeBaseBackup(address, store, signal)
      baseFailure = undefined
      note('base_backup_made', id)
    } catch (error) {
      if (signal.aborted) return
      baseFailure = archiveReason(error)
      note('base_backup_failed', baseFailure)
      throw error
    }
  }

  async function maintain({ store, wal }: NonNullable<typeof running>, signal: AbortSignal): Promise<void> {
    readAt = Date.now() + retryMs
    await wal.catchUp(AbortSignal.any([signal, AbortSignal.timeout(catchUpMs)]))
    if (!isSwept) await sweepBaseBackups(store)
    isSwept = true
    const { timeline } = wal.state()
    if (needsBaseBackup(await readCatalogue(store, wal.received()), timeline!, daysAgo(1))) {
      await takeBase(store, signal)
      await wal.catchUp(AbortSignal.any([signal, AbortSignal.timeout(catchUpMs)]))
    }
    await pruneArchive(store, daysAgo(deps.days))
    const read = await readCatalogue(store, wal.received())
    const newest = read.baseBackups.at(-1)
    found = {
      windows: recoveryWindows(read),
      gaps: recoveryGaps(read),
      damaged: read.damaged,
      baseAt: newest && Date.parse(newest.finishedAt),
    }
    readAt = Date.now() + readMs
  }

  async function look(signal: AbortSignal): Promise<void> {
    running ??= await open()
    const { lsn, isReceiving } = running.wal.state()
    if (isReceiving) receivedAt = Date.now()
    if (lsn !== undefined) behindBytes = distance(lsn, await readWalEnd(address))
    if (Date.now() >= readAt) await maintain(running, signal)
  }

  const chore = startChore({ name: 'pitr: archive', everyMs: lookMs, runsAtStart: true, run: look }, log)

  return {
    store: async signal => (await untilAborted(opened.promise, signal)).store,
    catalogue: signal => untilAborted(catalogue.get(), signal),
    async catchUp(signal) {
      const { wal } = await untilAborted(opened.promise, signal)
      await wal.catchUp(signal)
      catalogue.expire()
    },
    health() {
      const state = running?.wal.state()
      return {
        isReceiving: state?.isReceiving ?? false,
        receivedAt,
        failure: openFailure ?? (state?.failure && archiveReason(state.failure)),
        behindBytes,
        baseFailure,
        ...found,
      }
    },
    async close() {
      opened.reject(new Error('the archive is closed'))
      // Storage that does not answer must not prevent the stop. The next start removes what is incomplete.
      const inTime = (work: Promise<void> | undefined) =>
        untilAborted(Promise.resolve(work), AbortSignal.timeout(closeMs)).catch(() => {})
      await inTime(chore.stop())
      await inTime(running?.wal.stop())
    },
  }
}

const daysAgo = (days: number) => formatTime((Date.now() - days * dayMs) * 1000)
