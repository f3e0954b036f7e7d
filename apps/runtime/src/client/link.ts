// The connection to a worker, for all its calls at once. What is sent in one turn of the event loop is one write, because
// waking the other process for each call would take as much CPU time as the rest of the call. The functions of a project
// run in the process at the other end, so nothing that arrives is trusted: a worker that breaks a rule loses the
// connection.
import { connect, type Socket } from 'node:net'
import type { Readable } from 'node:stream'
import { type FrameType, frameHeaderBytes, initialCredit, maxAnswerFrameBytes } from '../frames.ts'
import { type CallHead, ConnectionLost, LinkedCall } from './linked-call.ts'

export interface Link {
  /** `timeoutMs` is the time for the head of the answer, and then for each next part of its body. */
  call(head: CallHead, body: Buffer | Readable | undefined, timeoutMs: number): LinkedCall
  close(): void
}

/** More frames are sent at once, so that the worker can begin while the rest of a turn is still in work. */
const maxFramesOfWrite = 4
/** After more frames than this, other work of the event loop is done before the next are read. */
const maxFramesOfTurn = 500
/** A worker that lets so many bytes wait does not read any more. */
const maxUnsentBytes = 16 * 1024 * 1024
/** What a worker may still send for a call that was cancelled, before it knows. */
const strayOfCancelled = initialCredit + maxAnswerFrameBytes
/** What it may still send for a call that has ended, such as a last credit. */
const strayOfEnded = 1024
const maxStray = 64 * strayOfCancelled
const empty = Buffer.alloc(0)

/** `onClose` is called when the connection is closed, by either end. */
export function openLink(path: string, onClose: () => void): Promise<Link> {
  return new Promise((resolve, reject) => {
    const socket = connect({ path })
    const fail = (cause: unknown) => reject(new ConnectionLost(cause))
    socket.once('error', fail)
    socket.once('connect', () => {
      socket.off('error', fail)
      resolve(linkOn(socket, onClose))
    })
  })
}

function linkOn(socket: Socket, onClose: () => void): Link {
  const calls = new Map<number, LinkedCall>()
  let nextId = 1
  let failure: unknown
  let queued: Buffer[] = []
  let rest: Buffer = empty
  let stray = strayOfEnded

  function flush(): void {
    const frames = queued
    if (frames.length === 0) return
    queued = []
    socket.write(frames.length === 1 ? frames[0]! : Buffer.concat(frames))
    if (socket.writableLength > maxUnsentBytes) socket.destroy(new Error('the worker does not read'))
  }

  function send(frame: Buffer): void {
    queued.push(frame)
    if (queued.length === 1) setImmediate(flush)
    else if (queued.length === maxFramesOfWrite) flush()
  }

  /** Returns the number of frames. */
  function receive(chunk: Buffer): number {
    let count = 0
    const bytes = rest.length === 0 ? chunk : Buffer.concat([rest, chunk])
    let at = 0
    while (bytes.length - at >= frameHeaderBytes) {
      const length = bytes.readUInt32BE(at)
      if (length < frameHeaderBytes - 4 || length > maxAnswerFrameBytes)
        throw new Error('a frame has no valid length')
      const end = at + 4 + length
      if (end > bytes.length) break
      const call = calls.get(bytes.readUInt32BE(at + 5))
      if (call) call.receive(bytes[at + 4] as FrameType, bytes.subarray(at + frameHeaderBytes, end))
      else stray -= end - at
      if (stray < 0) throw new Error('the worker sends frames that belong to no call')
      at = end
      count++
    }
    rest = bytes.subarray(at)
    return count
  }

  /** Node reads a socket up to 32 times in a turn, if it is always full. */
  function waitForNextTurn(): void {
    socket.pause()
    setImmediate(() => socket.resume())
  }

  /** Resolves when the worker has read what was sent, or the connection has ended. */
  function drained(): Promise<void> | undefined {
    if (!socket.writableNeedDrain || socket.destroyed) return
    return new Promise(resolve => {
      const done = () => {
        socket.off('drain', done)
        socket.off('close', done)
        resolve()
      }
      socket.on('drain', done)
      socket.on('close', done)
    })
  }

  // Each call that waits listens.
  socket.setMaxListeners(0)
  socket.on('error', error => {
    failure = error
  })
  socket.on('close', () => {
    for (const call of calls.values()) call.fail(new ConnectionLost(failure))
    onClose()
  })
  socket.on('data', (chunk: Buffer) => {
    try {
      if (receive(chunk) > maxFramesOfTurn) waitForNextTurn()
    } catch (error) {
      socket.destroy(error as Error)
    }
  })

  return {
    call(head, body, timeoutMs) {
      const id = nextId
      nextId = nextId === 0xffffffff ? 1 : nextId + 1
      const onEnd = (isCancelled: boolean) => {
        calls.delete(id)
        stray = Math.min(maxStray, stray + (isCancelled ? strayOfCancelled : strayOfEnded))
      }
      const call = new LinkedCall({ id, timeoutMs, send, drained, onEnd })
      calls.set(id, call)
      if (socket.destroyed) call.fail(new ConnectionLost(failure))
      else call.start(head, body)
      return call
    },
    close: () => void socket.destroy(),
  }
}
