// Stores what the segment that is being received has so far, so that a lost disk loses about a second and not a segment.
// The spool is copied as it is, because its records are encrypted: `<segment>-<from>~<to>`, with positions in its file.
// The pieces are removed when the whole segment is in the archive.
import { mkdir, open, rmdir, stat, writeFile } from 'node:fs/promises'
import { startChore } from '#src/kernel/chores.ts'
import type { EngineLog } from '../engine/start.ts'
import { type ArchiveStore, parseTailPiece, type TailPiece, tailPiece, walFolder } from './archive-layout.ts'
import { archivedSegments } from './archived-segments.ts'
import { spoolCipher } from './wal-packer.ts'
import { segmentBytes, segmentName } from './wal-position.ts'
import { endOfRecords, isMissing, removeSpool, spoolPath } from './wal-spool.ts'

/** The durable part of the spool of the current segment. */
export interface SpooledPart {
  name: string
  /** Bytes of the file. */
  storedBytes: number
}

export interface WalTail {
  /** Why the last attempt failed, until one succeeds. */
  readonly failure: Error | undefined
  stop(): Promise<void>
}

/** With the 200 ms until WAL is durable in the spool, and the write itself, about a second. */
const everyMs = 500
const longestPauseMs = 10_000
const maxPieceBytes = 4 * 1024 * 1024

/** Takes nothing from the receiver: it reads the file, and one write is under way at a time. */
export function startWalTail(
  store: ArchiveStore,
  current: () => SpooledPart | undefined,
  log: EngineLog,
): WalTail {
  const { pieces, spoolDir } = store
  /** The pieces of the current segment, in order. */
  let segment: { name: string; stored: TailPiece[] } | undefined
  /** Pieces that are needed until their segment is packed. */
  const finished = new Map<string, string[]>()
  let hasSwept = false
  let seen: string | undefined
  let failure: Error | undefined
  let pauseMs = everyMs
  let retryAt = 0

  async function publish(): Promise<void> {
    await removePacked()
    const part = current()
    // Segments that fill faster are packed at once, and copying them as well would only cost.
    const isLasting = part !== undefined && part.name === seen
    seen = part?.name
    if (!part || !isLasting) return
    if (segment?.name !== part.name || endOf(segment.stored) > part.storedBytes) beginSegment(part.name)
    const { stored } = segment!
    while (endOf(stored) < part.storedBytes && (await publishNext(stored, part)));
    if (!hasSwept) await sweep(stored)
  }

  function beginSegment(name: string): void {
    if (segment) finished.set(segment.name, segment.stored.map(nameOf))
    segment = { name, stored: [] }
  }

  /**
   * A new piece replaces the last ones while they are smaller. So a segment has few pieces, and each byte is written few
   * times, however slowly it fills. False if the file is packed already.
   */
  async function publishNext(stored: TailPiece[], part: SpooledPart): Promise<boolean> {
    const from = endOf(stored)
    const to = Math.min(part.storedBytes, from + maxPieceBytes)
    const piece = { segment: part.name, from, to }
    let kept = stored.length
    for (; kept > 0; kept--) {
      const last = stored[kept - 1]!
      if (last.to - last.from > to - piece.from || to - last.from > maxPieceBytes) break
      piece.from = last.from
    }
    const bytes = await readPart(spoolPath(spoolDir, part.name), piece)
    if (!bytes) return false
    const writer = await pieces.write(nameOf(piece), 0)
    try {
      await writer.append([bytes])
      await writer.finish()
    } catch (error) {
      await writer.abort()
      throw error
    }
    const replaced = stored.splice(kept, stored.length, piece)
    await pieces.remove(replaced.map(nameOf))
    return true
  }

  async function removePacked(): Promise<void> {
    for (const [name, names] of finished) {
      if (await exists(spoolPath(spoolDir, name))) continue
      await pieces.remove(names)
      finished.delete(name)
    }
  }

  /** Finds what earlier processes have left. */
  async function sweep(stored: readonly TailPiece[]): Promise<void> {
    const own = new Set(stored.map(nameOf))
    for await (const piece of tailPieces(store)) {
      const name = nameOf(piece)
      if (own.has(name)) continue
      if (piece.segment === segment!.name) await pieces.remove([name])
      else finished.set(piece.segment, [...(finished.get(piece.segment) ?? []), name])
    }
    hasSwept = true
  }

  const nameOf = (piece: TailPiece) => tailPiece(store.systemId, piece)

  async function run(): Promise<void> {
    if (performance.now() < retryAt) return
    try {
      await publish()
      failure = undefined
      pauseMs = everyMs
    } catch (error) {
      if (!failure) log.warn({ err: error }, 'cannot archive the latest WAL; trying again')
      failure = error as Error
      retryAt = performance.now() + pauseMs
      pauseMs = Math.min(longestPauseMs, pauseMs * 2)
    }
  }

  const chore = startChore({ name: 'archive the latest WAL', everyMs, run })
  return {
    get failure() {
      return failure
    },
    stop: chore.stop,
  }
}

const endOf = (stored: readonly TailPiece[]): number => stored.at(-1)?.to ?? 0

/** Undefined if the file is missing. */
async function readPart(path: string, { from, to }: TailPiece): Promise<Buffer | undefined> {
  const file = await open(path, 'r').catch(ignoreMissing)
  if (!file) return
  try {
    const bytes = Buffer.allocUnsafe(to - from)
    for (let filled = 0; filled < bytes.length; ) {
      const { bytesRead } = await file.read(bytes, filled, bytes.length - filled, from + filled)
      if (bytesRead === 0) throw new Error(`${path} is shorter than what was written`)
      filled += bytesRead
    }
    return bytes
  } finally {
    await file.close()
  }
}

function ignoreMissing(error: unknown): undefined {
  if (!isMissing(error)) throw error
}

const exists = async (path: string) => (await stat(path).catch(ignoreMissing)) !== undefined

async function* tailPieces({ pieces, systemId }: ArchiveStore): AsyncGenerator<TailPiece> {
  for await (const { name } of pieces.list(walFolder(systemId))) {
    const piece = parseTailPiece(name.slice(name.indexOf('/') + 1))
    if (piece) yield piece
  }
}

export interface RestoredSpool {
  /** The paths of new files. */
  made: string[]
  /** Pieces that were written completely and cannot be read now. The WAL from there on is missing. */
  damaged: string[]
}

/**
 * Writes the pieces into the spool, after the disk with the spool was lost. Call it while nothing is received. If it fails, there
 * are no new files.
 */
export async function restoreSpool(store: ArchiveStore): Promise<RestoredSpool> {
  const { spoolDir } = store
  const found = new Map<string, TailPiece[]>()
  for await (const piece of tailPieces(store))
    found.set(piece.segment, [...(found.get(piece.segment) ?? []), piece])
  for await (const { timeline, number, bytes } of archivedSegments(store))
    if (bytes === segmentBytes) found.delete(segmentName(timeline, number))
  const made: string[] = []
  const damaged: string[] = []
  try {
    for (const [segment, parts] of found) {
      const joined = await joinPieces(parts, piece => readPiece(store, piece))
      const end = endOfRecords(joined, spoolCipher(store, segment))
      const isDamaged = !isUnwritten(parts, joined, end)
      if (isDamaged)
        damaged.push(
          ...parts
            .filter(({ from, to }) => from <= end && end < to)
            .map(each => tailPiece(store.systemId, each)),
        )
      const bytes = isDamaged ? joined.subarray(0, end) : joined
      if (bytes.length === 0) continue
      const path = spoolPath(spoolDir, segment)
      const spooled = await stat(path).catch(ignoreMissing)
      if (spooled && spooled.size >= bytes.length) continue
      await mkdir(spoolDir, { recursive: true, mode: 0o700 })
      if (!spooled) made.push(path)
      await writeFile(path, bytes, { mode: 0o600, flush: true })
    }
  } catch (error) {
    await forgetSpool(store, made)
    throw error
  }
  return { made, damaged }
}

const tagBytes = 16

/**
 * Whether a write that was killed, or a power loss, explains why the bytes from `end` on cannot be read: pieces that were to be
 * replaced are still there, bytes are missing at the end, or they are zeros. All else is damage.
 */
function isUnwritten(parts: readonly TailPiece[], joined: Buffer, end: number): boolean {
  const isReplaced = (part: TailPiece) =>
    parts.some(other => other !== part && other.from <= part.from && part.to <= other.to)
  const confirmed = Math.max(0, ...parts.filter(isReplaced).map(({ to }) => to))
  if (end === joined.length || (confirmed > 0 && end >= confirmed)) return true
  const rest = joined.subarray(end)
  if (rest.subarray(-tagBytes).every(byte => byte === 0)) return true
  // Only the last piece that has been written of several ends within a record.
  const isCut = parts.some(({ from, to }) => to > joined.length || to - from === maxPieceBytes)
  return isCut && (rest.length < 4 || 4 + rest.readUInt32LE(0) > rest.length)
}

/** Removes files that `restoreSpool` has made. */
export async function forgetSpool({ spoolDir }: ArchiveStore, made: readonly string[]): Promise<void> {
  for (const path of made) await removeSpool(path)
  // Unless it has others.
  await rmdir(spoolDir).catch(() => {})
}

/**
 * Up to the first missing byte. A piece has its name before it is complete, and those that it replaces are removed only
 * afterwards. So these are laid over it: they are complete, whatever a killed write or a power loss has left of it.
 */
async function joinPieces(
  parts: readonly TailPiece[],
  read: (piece: TailPiece) => Promise<Buffer>,
): Promise<Buffer> {
  const bytes = Buffer.alloc(Math.max(...parts.map(({ to }) => to)))
  const covered: { from: number; to: number }[] = []
  for (const piece of parts.toSorted((one, other) => other.to - other.from - (one.to - one.from))) {
    const found = await read(piece)
    found.copy(bytes, piece.from)
    covered.push({ from: piece.from, to: piece.from + found.length })
  }
  covered.sort((one, other) => one.from - other.from)
  const end = covered.reduce(
    (reached, { from, to }) => (from <= reached ? Math.max(reached, to) : reached),
    0,
  )
  return bytes.subarray(0, end)
}

/** Less than the piece should have if its write was killed. */
async function readPiece({ pieces, systemId }: ArchiveStore, piece: TailPiece): Promise<Buffer> {
  const reader = await pieces.open(tailPiece(systemId, piece), 0, maxPieceBytes)
  try {
    const bytes = Buffer.alloc(piece.to - piece.from)
    return bytes.subarray(0, await reader.fill(bytes))
  } finally {
    await reader.close()
  }
}
