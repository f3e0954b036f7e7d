// A WebSocket client with minimal CPU cost: all sockets of a process read into one buffer, and frames are counted by their
// heads. The bytes are passed on only if `onFrame` is set.
import { randomBytes } from 'node:crypto'
import { connect, type Socket } from 'node:net'

const shared = Buffer.allocUnsafe(256 * 1024)
const text = 1
const close = 8
const ping = 9
const pong = 10
/** The bytes of a payload that distinguish a heartbeat reply from other frames. */
const heartbeatHeadBytes = 7

/** Counts of all sockets that share it. */
export interface Tally {
  frames: number
  bytes: number
}

export interface SocketTarget {
  url: string
  /** The path with its query. */
  path: string
  /** Another address of this machine, if one has no ports left. */
  from?: string
}

export class LeanSocket {
  /** If set, it gets every complete frame as a view into a reused buffer, and frames are not counted. */
  onFrame: ((payload: Buffer, isText: boolean) => void) | undefined
  onClose: ((reason: string) => void) | undefined
  readonly opened: Promise<void>
  readonly #socket: Socket
  readonly #tally: Tally
  #isOpen = false
  /** Remaining bytes of a frame that is counted already. */
  #skip = 0
  /** The beginning of an incomplete frame or handshake. */
  #carry: Buffer | undefined
  #opening: { resolve(): void; reject(error: Error): void } | undefined

  constructor({ url, path, from }: SocketTarget, tally: Tally) {
    const { hostname, port, host } = new URL(url)
    this.#tally = tally
    this.opened = new Promise((resolve, reject) => {
      this.#opening = { resolve, reject }
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
    this.#socket.on('error', error => this.#handleEnd(error.message))
    this.#socket.on('close', () => this.#handleEnd('the connection was closed'))
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
    this.onClose = undefined
    this.#socket.destroy()
  }

  #handleEnd(reason: string): void {
    this.#opening?.reject(new Error(reason))
    this.#opening = undefined
    this.onClose?.(reason)
    this.onClose = undefined
  }

  #read(chunk: Buffer, length: number): void {
    let bytes = chunk
    let end = length
    if (this.#carry) {
      bytes = Buffer.concat([this.#carry, chunk.subarray(0, length)])
      end = bytes.length
      this.#carry = undefined
    }
    let at = this.#isOpen ? 0 : this.#readHandshake(bytes.subarray(0, end))
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

  /** Returns the offset after the handshake. */
  #readHandshake(bytes: Buffer): number {
    const over = bytes.indexOf('\r\n\r\n')
    if (over < 0) {
      this.#carry = Buffer.from(bytes)
      return bytes.length
    }
    const line = bytes.toString('latin1', 0, bytes.indexOf('\r\n'))
    if (!line.startsWith('HTTP/1.1 101')) {
      this.#handleEnd(`${line} ${bytes.toString('utf8', over + 4)}`)
      this.#socket.destroy()
      return bytes.length
    }
    this.#isOpen = true
    this.#opening?.resolve()
    this.#opening = undefined
    return over + 4
  }

  /** The offset of the next frame, or where it continues; -1 if too little of this frame has arrived. */
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
      this.#handleFrame(opcode, bytes.subarray(head, head + size))
      return head + size
    }
    if (end < head + Math.min(size, heartbeatHeadBytes)) return -1
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

  #handleFrame(opcode: number, payload: Buffer): void {
    if (opcode === ping) this.#socket.write(clientFrame(payload, pong))
    else if (opcode === close)
      this.#handleEnd(
        `closed with ${payload.length < 2 ? 'no code' : `${payload.readUInt16BE(0)} ${payload.subarray(2)}`}`,
      )
    else if (opcode !== pong) this.onFrame?.(payload, opcode === text)
  }
}

/** A frame masked with zeros, which is a valid mask. */
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
