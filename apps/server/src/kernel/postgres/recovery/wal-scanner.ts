// Finds the times of commits in a stream of WAL, and databases that were created by copying files. It reads only the
// first bytes of each record. Checksums are not verified, because the stream was received from the server itself.
import { segmentBytes } from './wal-position.ts'

export interface WalFindings {
  /**
   * A transaction ended: a commit or an abort, at which recovery may stop. In microseconds since 1970. Called at the end of
   * the record, because recovery needs all of it.
   */
  onTransactionEnd(at: number): void
  /** `create database … strategy file_copy`. Replay copies the files of the source again. */
  onFileCopy?(sourceOid: number, oid: number): void
}

const pageBytes = 8192
const longHeaderBytes = 40
const shortHeaderBytes = 24
const recordHeaderBytes = 24
/** Enough for the header, the ids of the origin and the top-level transaction, and the data that is read here. */
const prefixBytes = 48
const isContinuation = 0x0001

const transactionManager = 1
const databaseManager = 4
/** Commit, abort, and both of prepared transactions. */
const transactionEnds = new Set([0x00, 0x20, 0x30, 0x40])
/** Microseconds from 1970 to 2000, from which Postgres counts. */
const postgresEpoch = 946_684_800_000_000

const aligned = (bytes: number) => Math.ceil(bytes / 8) * 8

export class WalScanner {
  readonly #findings: WalFindings
  /** The position of the next byte. */
  #position: number
  readonly #pageHeader = Buffer.alloc(longHeaderBytes)
  readonly #prefix = Buffer.alloc(prefixBytes)
  /** Bytes of the current record in the prefix, and how many there will be. */
  #filled = 0
  #wanted = 0
  /** Bytes of the current record that follow, with its padding and without page headers. */
  #left = 0
  /** Of the current record. */
  #transactionEnd: number | undefined
  /** A segment that was switched early, or not written to its end, contains zeros from here on. */
  #isAtEnd = false

  /** Starts at the beginning of a segment. */
  constructor(position: number, findings: WalFindings) {
    if (position % segmentBytes !== 0) throw new RangeError('WAL is scanned from the beginning of a segment')
    this.#position = position
    this.#findings = findings
  }

  push(bytes: Buffer): void {
    let at = 0
    while (at < bytes.length) {
      const inSegment = this.#position % segmentBytes
      const inPage = inSegment % pageBytes
      if (inSegment === 0) this.#isAtEnd = false
      const headerBytes = inSegment < pageBytes ? longHeaderBytes : shortHeaderBytes
      const used = this.#isAtEnd
        ? Math.min(bytes.length - at, segmentBytes - inSegment)
        : inPage < headerBytes
          ? this.#readPageHeader(bytes, at, inPage, headerBytes)
          : this.#readRecord(bytes, at, Math.min(bytes.length, at + pageBytes - inPage))
      at += used
      this.#position += used
    }
  }

  #readPageHeader(bytes: Buffer, at: number, inPage: number, headerBytes: number): number {
    const used = bytes.copy(this.#pageHeader, inPage, at, at + headerBytes - inPage)
    if (inPage + used < headerBytes) return used
    // After a crash, the page may not continue the record before it.
    const continues = (this.#pageHeader.readUInt16LE(2) & isContinuation) !== 0
    this.#left = continues ? aligned(this.#pageHeader.readUInt32LE(16)) : 0
    if (!continues) this.#beginRecord()
    return used
  }

  #beginRecord(): void {
    this.#filled = 0
    this.#wanted = 0
    this.#transactionEnd = undefined
  }

  /** Reads bytes of one record, up to `end`, and returns how many. */
  #readRecord(bytes: Buffer, at: number, end: number): number {
    if (this.#left === 0) return this.#readLength(bytes, at, end)
    const used = Math.min(this.#left, end - at)
    if (this.#filled < this.#wanted) {
      this.#filled += bytes.copy(
        this.#prefix,
        this.#filled,
        at,
        at + Math.min(used, this.#wanted - this.#filled),
      )
      if (this.#filled === this.#wanted) this.#inspect()
    }
    this.#left -= used
    if (this.#left > 0) return used
    if (this.#transactionEnd !== undefined) this.#findings.onTransactionEnd(this.#transactionEnd)
    this.#beginRecord()
    return used
  }

  /** The length is never split between pages, because records are aligned, but it may be split between chunks. */
  #readLength(bytes: Buffer, at: number, end: number): number {
    const used = bytes.copy(this.#prefix, this.#filled, at, Math.min(end, at + 4 - this.#filled))
    this.#filled += used
    if (this.#filled < 4) return used
    const length = this.#prefix.readUInt32LE(0)
    if (length < recordHeaderBytes) {
      this.#beginRecord()
      this.#isAtEnd = true
      return used
    }
    this.#wanted = Math.min(length, prefixBytes)
    this.#left = aligned(length) - 4
    return used
  }

  #inspect(): void {
    const info = this.#prefix[16]!
    const manager = this.#prefix[17]
    const isEnd = manager === transactionManager && transactionEnds.has(info & 0x70)
    const isFileCopy = manager === databaseManager && (info & 0xf0) === 0
    if (!isEnd && !isFileCopy) return
    const data = this.#dataAt()
    if (data === undefined) return
    if (isEnd) this.#transactionEnd = Number(this.#prefix.readBigInt64LE(data)) + postgresEpoch
    else this.#findings.onFileCopy?.(this.#prefix.readUInt32LE(data + 8), this.#prefix.readUInt32LE(data))
  }

  /** Where the data of a record without pages starts. */
  #dataAt(): number | undefined {
    let at = recordHeaderBytes
    if (this.#prefix[at] === 253) at += 3 // replication origin
    if (this.#prefix[at] === 252) at += 5 // top-level transaction
    if (this.#prefix[at] === 255) return at + 2
    if (this.#prefix[at] === 254) return at + 5
    return undefined
  }
}
