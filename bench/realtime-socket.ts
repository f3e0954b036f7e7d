// A WebSocket client that costs as little as one can: all sockets of a process read into one buffer, frames are counted
// by their heads, and only who asks gets their bytes.
import { randomBytes } from 'node:crypto'
import { connect, type Socket } from 'node:net'

const shared = Buffer.allocUnsafe(256 * 1024)
const text = 1
const close = 8
const ping = 9
const pong = 10
/** How much of a payload tells an answer to a heartbeat from everything else. */
const tellingBytes = 7

/** Of all sockets that share it. */
export interface Tally {
  frames: number
  bytes: number
}

export interface Wanted {
  url: string
  /** With its query. */
  path: string
  /** Another address of this machine, when one has no ports left. */
  from?: string
}

export class LeanSocket {
  /** Told of every whole frame, a view into a buffer that is used again, and counts nothing, while it is set. */
  onFrame: ((payload: Buffer, isText: boolean) => void) | undefined
  onClosed: ((why: string) => void) | undefined
  readonly opened: Promise<void>
  readonly #socket: Socket
  readonly #tally: Tally
  #isOpen = false
  /** Bytes of a frame that has been counted and is not over. */
  #skip = 0
  /** The beginning of a frame, or of the handshake, that is not whole. */
  #carry: Buffer | undefined
  #settle: { resolve(): void; reject(error: Error): void } | undefined

  constructor({ url, path, from }: Wanted, tally: Tally) {
    const { hostname, port, host } = new URL(url)
    this.#tally = tally
    this.opened = new Promise((resolve, reject) => {
      this.#settle = { resolve, reject }
    })
    this.#socket = connect({
      host: hostname,
      port: Number(port),
      noDelay: true,
      ...(from && { localAddress: from }),
      onread: {
        buffer: shared,
        callback: (length, chunk) => {
          this.#read(chunk as Buffer, length)
          return true
        },
      },
    })
    this.#socket.on('error', error => this.#ended(error.message))
    this.#socket.on('close', () => this.#ended('the connection was closed'))
    const key = randomBytes(16).toString('base64')
    this.#socket.write(
      `GET ${path} HTTP/1.1\r\nHost: ${host}\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: ${key}\r\n\r\n`,
    )
  }

  send(payload: string | Buffer): void {
    const bytes = typeof payload === 'string' ? Buffer.from(payload) : payload
    this.#socket.write(clientFrame(bytes, typeof payload === 'string' ? text : 2))
  }

  end(): void {
    this.onClosed = undefined
    this.#socket.destroy()
  }

  #ended(why: string): void {
    this.#settle?.reject(new Error(why))
    this.#settle = undefined
    this.onClosed?.(why)
    this.onClosed = undefined
  }

  #read(chunk: Buffer, length: number): void {
    let bytes = chunk
    let end = length
    if (this.#carry) {
      bytes = Buffer.concat([this.#carry, chunk.subarray(0, length)])
      end = bytes.length
      this.#carry = undefined
    }
    let at = this.#isOpen ? 0 : this.#shakeHands(bytes.subarray(0, end))
    while (at < end) {
      const next = this.#skip > 0 ? this.#skipTo(at, end) : this.#frame(bytes, at, end)
      if (next < 0) {
        this.#carry = Buffer.from(bytes.subarray(at, end))
        return
      }
      at = next
    }
  }

  #skipTo(at: number, end: number): number {
    const step = Math.min(this.#skip, end - at)
    this.#skip -= step
    return at + step
  }

  /** Where what follows it begins. */
  #shakeHands(bytes: Buffer): number {
    const over = bytes.indexOf('\r\n\r\n')
    if (over < 0) {
      this.#carry = Buffer.from(bytes)
      return bytes.length
    }
    const line = bytes.toString('latin1', 0, bytes.indexOf('\r\n'))
    if (!line.startsWith('HTTP/1.1 101')) {
      this.#ended(`${line} ${bytes.toString('utf8', over + 4)}`)
      this.#socket.destroy()
      return bytes.length
    }
    this.#isOpen = true
    this.#settle?.resolve()
    this.#settle = undefined
    return over + 4
  }

  /** Where the next one begins, or may go on; -1 when too little of this one is here. */
  #frame(bytes: Buffer, at: number, end: number): number {
    if (end - at < 2) return -1
    const short = bytes[at + 1]! & 0x7f
    const head = at + (short === 127 ? 10 : short === 126 ? 4 : 2)
    if (end < head) return -1
    const size =
      short === 127
        ? Number(bytes.readBigUInt64BE(at + 2))
        : short === 126
          ? bytes.readUInt16BE(at + 2)
          : short
    const opcode = bytes[at]! & 0x0f
    if (opcode >= close || this.onFrame) {
      if (end < head + size) return -1
      this.#whole(opcode, bytes.subarray(head, head + size))
      return head + size
    }
    if (end < head + Math.min(size, tellingBytes)) return -1
    // `[null,"7","phoenix",…` answers a heartbeat; `[null,null,…`, or a frame that is not text, is a delivery.
    const isHeartbeat = opcode === text && bytes[head] === 0x5b && bytes[head + 6] === 0x22
    if (!isHeartbeat) {
      this.#tally.frames++
      this.#tally.bytes += size
    }
    this.#skip = head + size - end
    if (this.#skip > 0) return end
    this.#skip = 0
    return head + size
  }

  #whole(opcode: number, payload: Buffer): void {
    if (opcode === ping) this.#socket.write(clientFrame(payload, pong))
    else if (opcode === close)
      this.#ended(
        `closed with ${payload.length < 2 ? 'no code' : `${payload.readUInt16BE(0)} ${payload.subarray(2)}`}`,
      )
    else if (opcode !== pong) this.onFrame?.(payload, opcode === text)
  }
}

/** Masked with zeros, which is as good as any mask to a server. */
function clientFrame(payload: Buffer, opcode: number): Buffer {
  const size = payload.length
  const length =
    size < 126 ? [size] : size < 65_536 ? [126, size >> 8, size & 0xff] : [127, ...bigEndian(size)]
  const [first, ...rest] = length
  return Buffer.concat([Buffer.from([0x80 | opcode, 0x80 | first!, ...rest, 0, 0, 0, 0]), payload])
}

function bigEndian(size: number): Buffer {
  const bytes = Buffer.alloc(8)
  bytes.writeBigUInt64BE(BigInt(size))
  return bytes
}
