// Parses replies of Redis (RESP2) from chunks of any size. A reply in many chunks is parsed once: parsed items of a list
// are kept, and a long string is assembled when its last byte arrives.
import { RedisError } from './redis-error.ts'

/** Integers that a number cannot hold exactly are bigints. */
export type RedisReply = string | Buffer | number | bigint | null | RedisError | RedisReply[]

export interface Replies {
  take(chunk: Buffer): void
}

interface OpenList {
  items: RedisReply[]
  size: number
}

const [cr, minus, plus, colon, dollar, star, zero] = [13, 45, 43, 58, 36, 42, 48]
const crlf = 2

/** `wantsBytes` tells whether strings of the next reply are returned as buffers. */
export function createReplies(onReply: (reply: RedisReply) => void, wantsBytes: () => boolean): Replies {
  /** Incomplete lists, the innermost last. */
  const open: OpenList[] = []
  let pending: Buffer[] = []
  let pendingBytes = 0
  /** How many pending bytes are needed to parse further. */
  let needed = 0

  function deliver(value: RedisReply): void {
    let reply = value
    for (;;) {
      const list = open.at(-1)
      if (!list) return onReply(reply)
      list.items.push(reply)
      if (list.items.length < list.size) return
      reply = list.items
      open.pop()
    }
  }

  /** Reads the item that starts here. Returns where the next one starts, or -1 if it is incomplete. */
  function readItem(bytes: Buffer, start: number): number {
    const lineEnd = bytes.indexOf(cr, start + 1)
    if (lineEnd < 0 || lineEnd + crlf > bytes.length) return wait(bytes.length - start + 1)
    const next = lineEnd + crlf
    switch (bytes[start]) {
      case dollar:
        return readText(bytes, start, next, smallInteger(bytes, start + 1, lineEnd))
      case plus:
        deliver(bytes.toString('latin1', start + 1, lineEnd))
        return next
      case colon:
        deliver(integer(bytes, start + 1, lineEnd))
        return next
      case star:
        openList(smallInteger(bytes, start + 1, lineEnd))
        return next
      case minus:
        deliver(new RedisError(bytes.toString('utf8', start + 1, lineEnd)))
        return next
      default:
        throw new Error('the server is not Redis')
    }
  }

  function readText(bytes: Buffer, start: number, from: number, length: number): number {
    if (length < 0) {
      deliver(null)
      return from
    }
    const end = from + length
    if (end + crlf > bytes.length) return wait(end + crlf - start)
    deliver(wantsBytes() ? Buffer.from(bytes.subarray(from, end)) : bytes.toString('utf8', from, end))
    return end + crlf
  }

  function openList(size: number): void {
    if (size > 0) open.push({ items: [], size })
    else deliver(size < 0 ? null : [])
  }

  function wait(bytes: number): -1 {
    needed = bytes
    return -1
  }

  return {
    take(chunk) {
      let bytes = chunk
      if (pendingBytes > 0) {
        pending.push(chunk)
        pendingBytes += chunk.length
        if (pendingBytes < needed) return
        bytes = Buffer.concat(pending, pendingBytes)
        pending = []
        pendingBytes = 0
      }
      let at = 0
      while (at < bytes.length) {
        const next = readItem(bytes, at)
        if (next < 0) {
          pending = [bytes.subarray(at)]
          pendingBytes = bytes.length - at
          return
        }
        at = next
      }
    },
  }
}

/** For lengths, which a number represents exactly. */
function smallInteger(bytes: Buffer, start: number, end: number): number {
  if (bytes[start] === minus) return -smallInteger(bytes, start + 1, end)
  let number = 0
  for (let at = start; at < end; at++) number = number * 10 + bytes[at]! - zero
  return number
}

const safeDigits = 15

function integer(bytes: Buffer, start: number, end: number): number | bigint {
  return end - start <= safeDigits
    ? smallInteger(bytes, start, end)
    : BigInt(bytes.toString('latin1', start, end))
}
