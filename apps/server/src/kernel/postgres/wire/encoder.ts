// Encodes frontend messages of the v3 protocol into one growing buffer.

export type Value = string | Buffer | null

const initialBytes = 16 * 1024
/** A larger buffer is not kept after it was sent. */
const keptBytes = 256 * 1024

export class Encoder {
  #bytes = Buffer.allocUnsafe(initialBytes)
  #end = 0

  get isEmpty(): boolean {
    return this.#end === 0
  }

  parse(name: string, sql: string): void {
    const length = this.#open(0x50, name.length + 1 + sql.length * 3 + 3)
    this.#text(name)
    this.#text(sql)
    this.#uint16(0)
    this.#close(length)
  }

  /** Bind to the unnamed portal and Execute for all rows, with parameters and results as text. */
  bindAndExecute(name: string, values: readonly Value[]): void {
    let room = name.length + 16
    for (const value of values) room += 4 + roomFor(value)
    const length = this.#open(0x42, room)
    this.#bytes[this.#end++] = 0
    this.#text(name)
    this.#uint16(0)
    this.#uint16(values.length)
    for (const value of values) this.#value(value)
    this.#uint16(0)
    this.#close(length)
    this.#open(0x45, 5)
    this.#bytes.writeInt32BE(9, this.#end - 4)
    this.#bytes[this.#end++] = 0
    this.#int32(0)
  }

  /** A simple query: statements without parameters, as one implicit transaction that needs no Sync. */
  query(sql: string): void {
    const length = this.#open(0x51, sql.length * 3 + 1)
    this.#text(sql)
    this.#close(length)
  }

  closeStatement(name: string): void {
    const length = this.#open(0x43, name.length + 2)
    this.#bytes[this.#end++] = 0x53
    this.#text(name)
    this.#close(length)
  }

  sync(): void {
    this.#close(this.#open(0x53, 0))
  }

  /** Returns the encoded messages. The caller must call `release` afterwards. */
  take(): Buffer {
    const written = this.#bytes.subarray(0, this.#end)
    this.#end = 0
    return written
  }

  /** Memory that is not sent yet must not be reused. */
  release(isSent: boolean): void {
    if (!isSent || this.#bytes.length > keptBytes) this.#bytes = Buffer.allocUnsafe(initialBytes)
  }

  /** Starts a message with space for its body, and returns the position of its length. */
  #open(type: number, room: number): number {
    const needed = this.#end + 5 + room
    if (needed > this.#bytes.length) {
      const larger = Buffer.allocUnsafe(Math.max(needed, this.#bytes.length * 2))
      this.#bytes.copy(larger, 0, 0, this.#end)
      this.#bytes = larger
    }
    this.#bytes[this.#end++] = type
    this.#end += 4
    return this.#end - 4
  }

  #close(length: number): void {
    this.#bytes.writeInt32BE(this.#end - length, length)
  }

  #value(value: Value): void {
    if (value === null) return this.#int32(-1)
    const at = this.#end
    this.#end += 4
    this.#end +=
      typeof value === 'string' ? this.#bytes.write(value, this.#end) : value.copy(this.#bytes, this.#end)
    this.#bytes.writeInt32BE(this.#end - at - 4, at)
  }

  #text(text: string): void {
    this.#end += this.#bytes.write(text, this.#end)
    this.#bytes[this.#end++] = 0
  }

  #uint16(number: number): void {
    this.#end = this.#bytes.writeUInt16BE(number, this.#end)
  }

  #int32(number: number): void {
    this.#end = this.#bytes.writeInt32BE(number, this.#end)
  }
}

/** An upper bound of the encoded size: three bytes for each UTF-16 code unit. */
const roomFor = (value: Value): number =>
  value === null ? 0 : typeof value === 'string' ? value.length * 3 : value.length

/** A message outside the pipeline: startup, authentication, cancel. */
export function message(type: string, ...parts: (Buffer | string | number)[]): Buffer {
  const body = Buffer.concat(parts.map(part => (typeof part === 'number' ? int32(part) : asBuffer(part))))
  return Buffer.concat([Buffer.from(type), int32(body.length + 4), body])
}

const asBuffer = (part: Buffer | string) => (typeof part === 'string' ? Buffer.from(`${part}\0`) : part)

function int32(number: number): Buffer {
  const bytes = Buffer.allocUnsafe(4)
  bytes.writeInt32BE(number)
  return bytes
}
