// Moves whole segments from the spool into the archive, compressed and encrypted. At most two at a time: without a bound,
// catching up would take all memory.
import { setTimeout as sleep } from 'node:timers/promises'
import { proofBytes } from '#src/kernel/objects/content-proof.ts'
import { frameCipher } from '#src/kernel/objects/frames.ts'
import { writePacked } from '#src/kernel/objects/packed-file.ts'
import type { EngineLog } from '../engine/start.ts'
import {
  type ArchiveStore,
  type SegmentTimes,
  segmentMark,
  segmentVersion,
  walFolder,
} from './archive-layout.ts'
import { writeSealedPiece } from './sealed-piece.ts'
import { readSpool, removeSpool, spoolPath } from './wal-spool.ts'

export interface SpooledSegment {
  name: string
  bytes: number
  times: SegmentTimes | undefined
}

export interface WalPacker {
  /** Starts to pack the segment, unless it is being packed already. Waits while two others are. */
  pack(segment: SpooledSegment): Promise<void>
  /** Why the last attempt failed, until one succeeds. */
  readonly failure: Error | undefined
  /** Resolves when nothing is being packed. */
  idle(): Promise<void>
  stop(): Promise<void>
}

const maxAtOnce = 2
const retryMs = { first: 500, longest: 30_000 }

/** The key of the records of a segment in the spool. */
export const spoolCipher = ({ dataKey, systemId }: ArchiveStore, name: string) =>
  frameCipher(dataKey, `${systemId}-${name.toLowerCase()}`)

export function startWalPacker(store: ArchiveStore, log: EngineLog): WalPacker {
  const running = new Map<string, Promise<void>>()
  const stopping = new AbortController()
  let failure: Error | undefined

  /** Tries again until it succeeds, because WAL that is not archived is a gap. */
  async function packWithRetries(segment: SpooledSegment): Promise<void> {
    for (let pauseMs = retryMs.first; !stopping.signal.aborted; ) {
      try {
        await packSegment(store, segment, stopping.signal)
        failure = undefined
        return
      } catch (error) {
        if (stopping.signal.aborted) return
        if (!failure) log.warn({ err: error, segment: segment.name }, 'cannot archive WAL; trying again')
        failure = error as Error
      }
      await sleep(pauseMs, undefined, { signal: stopping.signal }).catch(() => {})
      pauseMs = Math.min(retryMs.longest, pauseMs * 2)
    }
  }

  return {
    async pack(segment) {
      while (running.size >= maxAtOnce && !running.has(segment.name) && !stopping.signal.aborted)
        await Promise.race(running.values())
      if (running.has(segment.name) || stopping.signal.aborted) return
      const packed = packWithRetries(segment).finally(() => running.delete(segment.name))
      running.set(segment.name, packed)
    },
    get failure() {
      return failure
    },
    async idle() {
      await Promise.all(running.values())
    },
    async stop() {
      stopping.abort()
      await Promise.all(running.values())
    },
  }
}

/** A repetition after a crash writes the same file and mark again. */
async function packSegment(store: ArchiveStore, segment: SpooledSegment, signal: AbortSignal): Promise<void> {
  const { pieces, dataKey, systemId, spoolDir } = store
  const folder = walFolder(systemId)
  const version = segmentVersion(systemId, segment.name, segment.bytes)
  const path = spoolPath(spoolDir, segment.name)
  const file = writePacked(pieces, dataKey, folder, version)
  try {
    let bytes = 0
    for await (const chunk of readSpool(path, spoolCipher(store, segment.name))) {
      signal.throwIfAborted()
      bytes += chunk.length
      await file.write(chunk)
    }
    if (bytes !== segment.bytes)
      throw new Error(
        `the spool of WAL segment ${segment.name} has ${bytes} bytes instead of ${segment.bytes}`,
      )
    const packed = await file.end()
    const name = `${folder}/${segmentMark(version, packed.storedBytes, segment.times)}`
    await writeSealedPiece({ pieces, dataKey, name, version }, proofBytes(packed))
  } catch (error) {
    await file.abort()
    throw error
  }
  await removeSpool(path)
}
