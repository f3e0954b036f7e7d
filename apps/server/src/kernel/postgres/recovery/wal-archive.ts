// Receives the WAL of the embedded Postgres as it is written, and archives it: whole segments packed and encrypted among
// the pieces, the last one in the spool. The position is confirmed to the server only when it is durable here, so a
// receiver that was away continues without a gap, up to `max_slot_wal_keep_size` of WAL.
import { setTimeout as sleep } from 'node:timers/promises'
import { guardedSettings, withClient } from '../database.ts'
import type { EngineLog } from '../engine/start.ts'
import type { ServerAddress } from '../server-address.ts'
import { sql } from '../sql.ts'
import { type ArchiveStore, formatSystemId } from './archive-layout.ts'
import { archivedEnd, removeSegmentsFrom, type WalEnd } from './archived-segments.ts'
import { openReplication, type ReplicationConnection } from './replication-connection.ts'
import { reserveWal } from './replication-slot.ts'
import { type SpooledSegment, startWalPacker } from './wal-packer.ts'
import { formatLsn, parseLsn, parseSegmentName, segmentAt, segmentBytes } from './wal-position.ts'
import { removeUnbegun } from './wal-spool.ts'
import { streamWal } from './wal-stream.ts'
import { startWalTail } from './wal-tail.ts'
import { inspectSpool, type UnfinishedSegment, WalWriter } from './wal-writer.ts'

export interface WalArchiveOptions {
  /** The superuser. */
  address: ServerAddress
  store: ArchiveStore
  log: EngineLog
  /** Called after WAL was lost. Times after the gap can be recovered only from a base backup that is made now. */
  onGap?(gap: WalGap): void
  /** Also stores the segment that is being received among the pieces, about every second. */
  storesTail?: boolean
}

export interface WalGap {
  /** The end of the WAL before the gap, and the start of the WAL after it. */
  fromLsn: string
  toLsn: string
}

export interface WalArchive {
  state(): WalArchiveState
  /** The segment that is being received, up to what is in the spool. */
  received(): SpooledSegment | undefined
  /** Resolves once all WAL before the position is durable in the archive. */
  reach(lsn: string, signal?: AbortSignal): Promise<void>
  /**
   * Ends a transaction and waits until it is archived. Afterwards every time up to the returned one can be recovered.
   * Recovery needs the end of a transaction after its target.
   */
  catchUp(signal?: AbortSignal): Promise<{ at: string; lsn: string }>
  stop(): Promise<void>
}

export interface WalArchiveState {
  isReceiving: boolean
  /** Durable up to here. Undefined before the first connection. */
  lsn: string | undefined
  /** Of the server. Undefined before the first connection. */
  timeline: number | undefined
  /** The last gap since this process started. */
  gap: WalGap | undefined
  /** Why nothing is received or packed at the moment. */
  failure: Error | undefined
}

const reconnectMs = { first: 100, longest: 5000 }
/** The system identifier of a server, which `ArchiveStore` needs. */
export async function readSystemId(address: ServerAddress): Promise<string> {
  const connection = await openReplication(address)
  try {
    return (await identify(connection)).systemId
  } finally {
    connection.close()
  }
}

/** Up to here WAL is durable on the server. */
export async function readWalEnd(address: ServerAddress): Promise<string> {
  const found = await withClient(address, 'postgres', guardedSettings, session =>
    session.row<{ lsn: string }>(sql`select pg_current_wal_flush_lsn()::text as lsn`),
  )
  return found!.lsn
}

export function startWalArchive(options: WalArchiveOptions): WalArchive {
  const { address, store, log, onGap } = options
  const packer = startWalPacker(store, log)
  const stopping = new AbortController()
  const waiting = new Set<Waiting>()
  let connection: ReplicationConnection | undefined
  let syncedPosition: number | undefined
  let timeline: number | undefined
  let isReceiving = false
  let gap: WalGap | undefined
  let failure: Error | undefined
  let endRest = () => {}
  let current: WalWriter | undefined
  const tail = options.storesTail ? startWalTail(store, () => current?.durable, log) : undefined

  function noteSynced(position: number): void {
    syncedPosition = position
    for (const each of waiting) if (each.position <= position) each.resolve()
  }

  function noteGap(before: WalEnd, position: number): void {
    gap = { fromLsn: formatLsn(before.position), toLsn: formatLsn(position) }
    log.error(gap, 'WAL was lost before it was archived; a new base backup is needed')
    onGap?.(gap)
  }

  /** The writer for what follows the WAL that is stored here, or for what the server still has. */
  async function openWriter(server: WalEnd, kept: number): Promise<WalWriter> {
    // A segment that is packed disappears from the spool.
    await packer.idle()
    await removeUnbegun(store.spoolDir)
    const { toPack, unfinished, others } = await inspectFor(store, server.timeline)
    const spooled = unfinished
      ? withoutRest(unfinished)
      : toPack.findLast(each => timelineOf(each) === server.timeline)
    const stored = spooled ? endOf(spooled) : await archivedEnd(store, server.timeline)
    for (const segment of toPack) await packer.pack(segment)
    // Our last segment may be incomplete, too. It is received again, into the same file of the spool.
    if (others.length > 0) await packer.idle()
    const start = { timeline: server.timeline, position: startOfSegment(kept) }
    // A segment that is not in the spool is received from its start.
    const next = stored && !unfinished ? { ...stored, position: startOfSegment(stored.position) } : stored
    const isNext = next !== undefined && start.position <= next.position && next.position <= server.position
    if (isNext && unfinished) return WalWriter.continue(store, packer, unfinished)
    if (isNext) return new WalWriter(store, packer, next)
    if (unfinished) {
      await packer.pack(withoutRest(unfinished))
      await packer.idle()
    }
    if (stored) {
      await removeSegmentsFrom(store, start)
      noteGap(stored, start.position)
    }
    return new WalWriter(store, packer, start)
  }

  async function receive(replication: ReplicationConnection): Promise<void> {
    const server = await identify(replication)
    if (server.systemId !== store.systemId)
      throw new Error('this is not the server whose WAL is archived here')
    const writer = await openWriter(server, await reserveWal(replication))
    timeline = server.timeline
    current = writer
    try {
      noteSynced(writer.syncedPosition)
      await streamWal(replication, writer, {
        onReceived() {
          isReceiving = true
          failure = undefined
        },
        onSynced: noteSynced,
        isAwaited: () => waiting.size > 0,
        rest,
      })
    } finally {
      isReceiving = false
      await writer.sync().then(
        () => noteSynced(writer.syncedPosition),
        () => {},
      )
      await writer.close()
      current = undefined
    }
  }

  /** Ends early for those that wait for a position. */
  async function rest(milliseconds: number): Promise<void> {
    if (waiting.size > 0) return
    const { promise, resolve } = Promise.withResolvers<void>()
    endRest = resolve
    const timer = setTimeout(resolve, milliseconds)
    await promise
    clearTimeout(timer)
  }

  async function run(): Promise<void> {
    let pauseMs = reconnectMs.first
    while (!stopping.signal.aborted) {
      try {
        connection = await openReplication(address)
        if (!stopping.signal.aborted) await receive(connection)
      } catch (error) {
        if (stopping.signal.aborted) break
        // The database restarts, or the disk is full: logged once.
        if (!failure) log.warn({ err: error }, 'cannot receive WAL; trying again')
        else pauseMs = Math.min(reconnectMs.longest, pauseMs * 2)
        failure = error as Error
      } finally {
        connection?.close()
      }
      await sleep(pauseMs, undefined, { signal: stopping.signal }).catch(() => {})
      if (!failure) pauseMs = reconnectMs.first
    }
  }

  const running = run()

  async function reach(lsn: string, signal?: AbortSignal): Promise<void> {
    const position = parseLsn(lsn)
    if (syncedPosition !== undefined && syncedPosition >= position) return
    const { promise, resolve, reject } = Promise.withResolvers<void>()
    const entry: Waiting = { position, resolve, reject }
    const onAbort = () => reject(signal!.reason)
    waiting.add(entry)
    endRest()
    signal?.addEventListener('abort', onAbort, { once: true })
    if (signal?.aborted) onAbort()
    if (stopping.signal.aborted) reject(new Error('the archive is stopped'))
    try {
      await promise
    } finally {
      waiting.delete(entry)
      signal?.removeEventListener('abort', onAbort)
    }
  }

  return {
    state: () => ({
      isReceiving,
      lsn: syncedPosition === undefined ? undefined : formatLsn(syncedPosition),
      timeline,
      gap,
      failure: failure ?? packer.failure ?? tail?.failure,
    }),
    received: () => current?.received,
    reach,
    async catchUp(signal) {
      const reached = await emitHeartbeat(address)
      await reach(reached.lsn, signal)
      return reached
    },
    async stop() {
      stopping.abort()
      connection?.close()
      endRest()
      // A writer may wait for the packer.
      await Promise.all([packer.stop(), tail?.stop(), running])
      for (const { reject } of waiting) reject(new Error('the archive is stopped'))
    },
  }
}

/** After an exchange of clusters, the server may be on another timeline than the last segment in the spool. */
async function inspectFor(store: ArchiveStore, timeline: number) {
  const { toPack, unfinished } = await inspectSpool(store)
  if (!unfinished || timelineOf(unfinished) === timeline) return { toPack, unfinished, others: [] }
  const others = [withoutRest(unfinished)]
  return { toPack: [...toPack, ...others], unfinished: undefined, others }
}

interface Waiting {
  position: number
  resolve(): void
  reject(error: unknown): void
}

async function identify(connection: ReplicationConnection): Promise<WalEnd & { systemId: string }> {
  const [row] = await connection.rows('IDENTIFY_SYSTEM')
  const [systemId, timeline, position] = row ?? []
  if (!systemId || !timeline || !position) throw new Error('the server does not identify itself')
  return { systemId: formatSystemId(systemId), timeline: Number(timeline), position: parseLsn(position) }
}

/** The time is read first, so it is before that of the commit. */
function emitHeartbeat(address: ServerAddress): Promise<{ at: string; lsn: string }> {
  const settings = { ...guardedSettings, synchronous_commit: 'on' }
  return withClient(address, 'postgres', settings, async session => {
    const before = await session.row<{ at: string }>(
      sql`select to_char(clock_timestamp() at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"') as at`,
    )
    await session.run(sql`select pg_logical_emit_message(true, 'plinth', 'heartbeat')`)
    const after = await session.row<{ lsn: string }>(sql`select pg_current_wal_flush_lsn()::text as lsn`)
    return { at: before!.at, lsn: after!.lsn }
  })
}

const timelineOf = ({ name }: { name: string }) => parseSegmentName(name).timeline

const withoutRest = ({ name, end, found }: UnfinishedSegment) => ({
  name,
  bytes: end.bytes,
  times: found.times,
})

const startOfSegment = (position: number) => segmentAt(position) * segmentBytes

function endOf({ name, bytes }: { name: string; bytes: number }): WalEnd {
  const { timeline, segment } = parseSegmentName(name)
  return { timeline, position: segment * segmentBytes + bytes }
}
