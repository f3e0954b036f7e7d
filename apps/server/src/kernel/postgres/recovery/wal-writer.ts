// Writes received WAL into the spool, segment by segment, and passes whole segments to the packer.
import { mkdir } from 'node:fs/promises'
import { SharedSync } from '#src/kernel/objects/filesystem-sync.ts'
import type { ArchiveStore, SegmentTimes } from './archive-layout.ts'
import type { WalEnd } from './archived-segments.ts'
import { type SpooledSegment, spoolCipher, type WalPacker } from './wal-packer.ts'
import { parseSegmentName, segmentAt, segmentBytes, segmentName } from './wal-position.ts'
import { WalScanner } from './wal-scanner.ts'
import {
  beginSpool,
  cutSpool,
  NotSpooled,
  openSpool,
  readSpool,
  type SpoolEnd,
  type SpoolFile,
  spooledSegments,
  spoolPath,
} from './wal-spool.ts'
import type { SpooledPart } from './wal-tail.ts'

const maxPendingBytes = 1024 * 1024

/** What was found in one segment so far. */
interface Found {
  scanner: WalScanner
  times: SegmentTimes | undefined
}

interface Current {
  name: string
  file: SpoolFile
}

export class WalWriter {
  readonly #store: ArchiveStore
  readonly #packer: WalPacker
  readonly #directorySync = new SharedSync()
  #end: WalEnd
  #found: Found
  #current: Current | undefined
  #pending: Buffer[] = []
  #pendingBytes = 0
  #syncedPosition: number
  #durable: SpooledPart | undefined
  #received: SpooledSegment | undefined
  #lastWork: Promise<unknown> = Promise.resolve()
  /** After a failure it is unknown what is stored. Another writer continues from what it finds. */
  #failure: unknown

  /** Continues after `end`, whose segment is in the spool up to there. */
  constructor(store: ArchiveStore, packer: WalPacker, end: WalEnd, found = newFindings(end.position)) {
    this.#store = store
    this.#packer = packer
    this.#end = end
    this.#found = found
    this.#syncedPosition = end.position
  }

  static async continue(store: ArchiveStore, packer: WalPacker, left: UnfinishedSegment): Promise<WalWriter> {
    const { name, end, found } = left
    const { timeline, segment } = parseSegmentName(name)
    const path = spoolPath(store.spoolDir, name)
    await cutSpool(path, end)
    const position = segment * segmentBytes + end.bytes
    const writer = new WalWriter(store, packer, { timeline, position }, found)
    // Otherwise the segment is begun again.
    if (end.records > 0) {
      writer.#current = { name, file: await openSpool(path, spoolCipher(store, name), end) }
      writer.#durable = { name, storedBytes: end.storedBytes }
    }
    return writer
  }

  get end(): WalEnd {
    return this.#end
  }

  /** Everything before this position survives a power loss. */
  get syncedPosition(): number {
    return this.#syncedPosition
  }

  /** What survives a power loss of the current segment. */
  get durable(): SpooledPart | undefined {
    return this.#durable
  }

  /** What is in the spool of the current segment, without reading it. */
  get received(): SpooledSegment | undefined {
    return this.#received
  }

  /** Takes ownership of the bytes. They are durable after the next `sync`, or at the end of their segment. */
  async write(bytes: Buffer): Promise<void> {
    for (let at = 0; at < bytes.length; ) {
      const { timeline, position } = this.#end
      const part = bytes.subarray(at, at + segmentBytes - (position % segmentBytes))
      this.#found.scanner.push(part)
      this.#pending.push(part)
      this.#pendingBytes += part.length
      at += part.length
      this.#end = { timeline, position: position + part.length }
      if (this.#end.position % segmentBytes === 0) await this.#exclusively(() => this.#finishSegment())
      else if (this.#pendingBytes >= maxPendingBytes) await this.#exclusively(() => this.#append())
    }
  }

  sync(): Promise<void> {
    return this.#exclusively(() => this.#sync())
  }

  async close(): Promise<void> {
    await this.#lastWork
    await this.#current?.file.close()
    this.#current = undefined
  }

  #exclusively<T>(work: () => Promise<T>): Promise<T> {
    const result = this.#lastWork.then(() => {
      if (this.#failure) throw this.#failure
      return work()
    })
    this.#lastWork = result.catch(error => {
      this.#failure ??= error
    })
    return result
  }

  async #append(): Promise<number> {
    const chunks = this.#pending
    const { timeline, position } = this.#end
    const { times } = this.#found
    this.#pending = []
    this.#pendingBytes = 0
    if (chunks.length > 0) {
      this.#current ??= await this.#openSegment(segmentName(timeline, segmentAt(position - 1)))
      await this.#current.file.append(chunks)
      this.#received = { name: this.#current.name, bytes: this.#current.file.bytes, times }
    }
    return position
  }

  async #openSegment(name: string): Promise<Current> {
    const { spoolDir } = this.#store
    await mkdir(spoolDir, { recursive: true, mode: 0o700 })
    const file = await beginSpool(spoolPath(spoolDir, name), spoolCipher(this.#store, name), () =>
      this.#directorySync.sync(spoolDir),
    )
    return { name, file }
  }

  async #sync(): Promise<void> {
    const position = await this.#append()
    if (this.#syncedPosition === position) return
    await this.#current?.file.sync()
    this.#syncedPosition = position
    this.#durable = this.#current && { name: this.#current.name, storedBytes: this.#current.file.storedBytes }
  }

  async #finishSegment(): Promise<void> {
    await this.#sync()
    const { name, file } = this.#current!
    this.#current = undefined
    this.#durable = undefined
    this.#received = undefined
    await file.close()
    const { times } = this.#found
    this.#found.times = undefined
    await this.#packer.pack({ name, bytes: segmentBytes, times })
  }
}

/** The scanner continues over segments, because a record may begin in one and end in the next. */
function newFindings(position: number): Found {
  const found: Found = {
    times: undefined,
    scanner: new WalScanner(position, {
      onTransactionEnd(at) {
        const { first, last } = found.times ?? { first: at, last: at }
        found.times = { first: Math.min(first, at), last: Math.max(last, at) }
      },
    }),
  }
  return found
}

export interface UnfinishedSegment {
  name: string
  end: SpoolEnd
  found: Found
}

export interface Spool {
  /** Whole segments, and those after which WAL is missing. */
  toPack: SpooledSegment[]
  /** The given segment, if it is the last one. */
  received: SpooledSegment | undefined
  unfinished: UnfinishedSegment | undefined
}

/**
 * Reads what is in the spool, but not the segment that is being received. Changes nothing. A segment that is packed
 * meanwhile may be left out.
 */
export async function inspectSpool(store: ArchiveStore, received?: SpooledSegment): Promise<Spool> {
  const spool: Spool = { toPack: [], received: undefined, unfinished: undefined }
  const names = await spooledSegments(store.spoolDir)
  for (const name of names) {
    // Otherwise it has been completed meanwhile.
    if (name === received?.name && name === names.at(-1)) {
      spool.received = received
      continue
    }
    const inspected = await inspectSegment(store, name)
    if (!inspected) continue
    const { end, found } = inspected
    const isUnfinished = name === names.at(-1) && end.bytes < segmentBytes
    if (isUnfinished) spool.unfinished = { name, end, found }
    else spool.toPack.push({ name, bytes: end.bytes, times: found.times })
  }
  return spool
}

async function inspectSegment(
  store: ArchiveStore,
  name: string,
): Promise<Omit<UnfinishedSegment, 'name'> | undefined> {
  const found = newFindings(parseSegmentName(name).segment * segmentBytes)
  const reading = readSpool(spoolPath(store.spoolDir, name), spoolCipher(store, name))
  try {
    for (;;) {
      const { done, value } = await reading.next()
      if (done) return { end: value, found }
      found.scanner.push(value)
    }
  } catch (error) {
    if (error instanceof NotSpooled) return undefined
    throw error
  }
}
