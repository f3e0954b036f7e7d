// The answers of Redis (RESP2) out of the bytes that arrive, in whatever pieces they come. An answer of many pieces is
// gone through once: what is read of a list is kept, and a long text is put together when its last byte is here.
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

/** `wantsBytes` says whether texts of the answer that is coming are to stay bytes. */
export function createReplies(onReply: (reply: RedisReply) => void, wantsBytes: () => boolean): Replies {
  /** Lists whose end is still to come, the innermost last. */
  const open: OpenList[] = []
  let held: Buffer[] = []
  let heldBytes = 0
  /** How many bytes there must be before it is worth looking again. */
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

  /** Reads one item that starts here, and says where the next one does; -1 when it is not all there yet. */
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
        throw new Error('what answers is not Redis')
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
      if (heldBytes > 0) {
        held.push(chunk)
        heldBytes += chunk.length
        if (heldBytes < needed) return
        bytes = Buffer.concat(held, heldBytes)
        held = []
        heldBytes = 0
      }
      let at = 0
      while (at < bytes.length) {
        const next = readItem(bytes, at)
        if (next < 0) {
          held = [bytes.subarray(at)]
          heldBytes = bytes.length - at
          return
        }
        at = next
      }
    },
  }
}

/** Lengths, which are never large. */
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
