// Frontend messages of the v3 protocol, written into one growing buffer.

export type Value = string | Buffer | null

const initialBytes = 16 * 1024
/** What a large request needed is not kept for the next one. */
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

  /** Bind of the unnamed portal and Execute of all its rows; parameters and results travel as text. */
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

  /** Statements without parameters, as one implicit transaction with its own end. */
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

  /** Hands over what was written. The caller says afterwards whether the memory may be used again. */
  take(): Buffer {
    const written = this.#bytes.subarray(0, this.#end)
    this.#end = 0
    return written
  }

  /** What was handed over has been sent, or its memory is still being read from and must be left alone. */
  release(isSent: boolean): void {
    if (!isSent || this.#bytes.length > keptBytes) this.#bytes = Buffer.allocUnsafe(initialBytes)
  }

  /** Starts a message with room for its body; returns where its length goes. */
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

/** At most so many bytes: three for each unit of UTF-16. */
const roomFor = (value: Value): number =>
  value === null ? 0 : typeof value === 'string' ? value.length * 3 : value.length

/** A message sent outside the pipeline: startup, authentication, cancel. */
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
