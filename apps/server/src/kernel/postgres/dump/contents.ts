// Reads the table of contents of a dump in pg_dump's custom format: one entry per object of the database.
import { isUtf8 } from 'node:buffer'
import { atOnce, type Sliced } from '#src/kernel/slices.ts'

export interface DumpedObject {
  tag: string
  /** As pg_dump calls it, for example `TABLE` or `FK CONSTRAINT`. */
  kind: string
  schema: string | undefined
  /** The empty string if the object has no owner. */
  owner: string
  section: Section
  sql: string
  /** The statement that drops the object, or the empty string. */
  drop: string
}
export type Section = (typeof sections)[number]

/** The bytes are not a dump that this version can read. */
export class UnreadableDump extends Error {
  override readonly name = 'UnreadableDump'
}

const magic = 'PGDMP'
/** In the order of pg_dump's numbers, which begin with 1. */
const sections = ['none', 'pre', 'data', 'post'] as const
const customFormat = 1
const integerBytes = 4
/** Versions of the format as major * 100 + minor. Postgres 12 to 18 write these. */
const versions = { oldest: 114, compressionByte: 115, relationKind: 116, newest: 116 }
/** Bytes between two yields. */
const sliceBytes = 256 * 1024

export function readContents(dump: Buffer): DumpedObject[] {
  return atOnce(contentsOf(dump))
}

/** The same in slices, for a dump of any size. */
export function* contentsOf(dump: Buffer): Sliced<DumpedObject[]> {
  const reader = new Reader(dump)
  const format = readHeader(reader)
  const count = reader.integer()
  if (count < 0) throw new UnreadableDump(`The dump is damaged: it has ${count} entries.`)
  const objects: DumpedObject[] = []
  let yieldedAt = 0
  // No memory is reserved for the count, which may be wrong: each entry must be in the dump.
  while (objects.length < count) {
    objects.push(readEntry(reader, format))
    if (reader.at - yieldedAt < sliceBytes) continue
    yieldedAt = reader.at
    yield
  }
  return objects
}

interface Format {
  version: number
  offsetBytes: number
}

function readHeader(reader: Reader): Format {
  if (reader.latin1(magic.length) !== magic)
    throw new UnreadableDump('This is not a dump in the custom format of pg_dump.')
  const version = reader.byte() * 100 + reader.byte()
  reader.skip(1) // revision
  if (version < versions.oldest || version > versions.newest)
    throw new UnreadableDump(
      `The dump has version ${Math.floor(version / 100)}.${version % 100} of pg_dump's format, which this version of the platform cannot read.`,
    )
  const [integerSize, offsetBytes, format] = [reader.byte(), reader.byte(), reader.byte()]
  if (integerSize !== integerBytes || format !== customFormat)
    throw new UnreadableDump('This is not a dump in the custom format of pg_dump.')
  if (version >= versions.compressionByte) reader.skip(1)
  else reader.integer()
  for (let part = 0; part < 7; part++) reader.integer() // time of the dump
  for (let part = 0; part < 3; part++) reader.text() // database, versions of the server and of pg_dump
  return { version, offsetBytes }
}

function readEntry(reader: Reader, { version, offsetBytes }: Format): DumpedObject {
  reader.integer() // number of the entry
  reader.integer() // whether it has data
  reader.text() // oid of the catalogue
  reader.text() // oid of the object
  const tag = reader.text() ?? ''
  const kind = reader.text() ?? ''
  const section = sections[reader.integer() - 1]
  if (!section) throw new UnreadableDump(`The dump is damaged: ${kind} ${tag} is in an unknown section.`)
  const sql = reader.text() ?? ''
  const drop = reader.text() ?? ''
  reader.text() // COPY statement
  const schema = reader.text() || undefined
  reader.text() // tablespace
  reader.text() // table access method
  if (version >= versions.relationKind) reader.integer()
  const owner = reader.text() ?? ''
  reader.text() // WITH OIDS
  while (reader.text() !== undefined); // numbers of the entries that it depends on
  reader.skip(1 + offsetBytes) // place of the data
  return { tag, kind, schema, owner, section, sql, drop }
}

class Reader {
  readonly #bytes: Buffer
  at = 0

  constructor(bytes: Buffer) {
    this.#bytes = bytes
  }

  /** Moves behind so many bytes and returns where they begin. */
  skip(count: number): number {
    const start = this.at
    if (count > this.#bytes.length - start)
      throw new UnreadableDump(
        `The dump is damaged or incomplete: it ends at byte ${this.#bytes.length}, within an entry.`,
      )
    this.at = start + count
    return start
  }

  byte(): number {
    return this.#bytes[this.skip(1)]!
  }

  integer(): number {
    const isNegative = this.byte() !== 0
    const value = this.#bytes.readUInt32LE(this.skip(integerBytes))
    return isNegative ? -value : value
  }

  latin1(count: number): string {
    return this.#bytes.toString('latin1', this.skip(count), this.at)
  }

  /** Undefined for a text that is not set. */
  text(): string | undefined {
    const length = this.integer()
    if (length < 0) return
    const bytes = this.#bytes.subarray(this.skip(length), this.at)
    // Other bytes would be replaced, which would change the object.
    if (!isUtf8(bytes)) throw new UnreadableDump('The dump has text that is not valid UTF-8.')
    return bytes.toString('utf8')
  }
}
