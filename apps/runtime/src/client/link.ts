// The connection to a worker, for all its calls at once. What is sent in one turn of the event loop is one write, because
// waking the other process for each call would take as much CPU time as the rest of the call. The functions of a project
// run in the process at the other end, so nothing that arrives is trusted.
import { connect, type Socket } from 'node:net'
import type { Readable } from 'node:stream'
import { type FrameType, frameHeaderBytes, maxAnswerFrameBytes } from '../frames.ts'
import { type CallHead, ConnectionLost, LinkedCall } from './linked-call.ts'

export interface Link {
  /** `timeoutMs` is the time for the head of the answer, and then for each next part of its body. */
  call(head: CallHead, body: Buffer | Readable | undefined, timeoutMs: number): LinkedCall
  close(): void
}

/** More frames are sent at once, so that the worker can begin while the rest of a turn is still in work. */
const maxFramesOfWrite = 4
const empty = Buffer.alloc(0)

/** `onClose` is called when the connection has ended, whoever ends it. */
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

  function flush(): void {
    const frames = queued
    if (frames.length === 0) return
    queued = []
    socket.write(frames.length === 1 ? frames[0]! : Buffer.concat(frames))
  }

  function send(frame: Buffer): void {
    queued.push(frame)
    if (queued.length === 1) setImmediate(flush)
    else if (queued.length === maxFramesOfWrite) flush()
  }

  function receive(chunk: Buffer): void {
    const bytes = rest.length === 0 ? chunk : Buffer.concat([rest, chunk])
    let at = 0
    while (bytes.length - at >= frameHeaderBytes) {
      const length = bytes.readUInt32BE(at)
      if (length > maxAnswerFrameBytes) throw new Error('a frame is too long')
      const end = at + 4 + length
      if (end > bytes.length) break
      const content = bytes.subarray(at + frameHeaderBytes, end)
      calls.get(bytes.readUInt32BE(at + 5))?.receive(bytes[at + 4] as FrameType, content)
      at = end
    }
    rest = bytes.subarray(at)
  }

  socket.on('error', error => {
    failure = error
  })
  socket.on('close', () => {
    for (const call of calls.values()) call.fail(new ConnectionLost(failure))
    onClose()
  })
  socket.on('data', (chunk: Buffer) => {
    try {
      receive(chunk)
    } catch (error) {
      failure = error
      socket.destroy()
    }
  })

  return {
    call(head, body, timeoutMs) {
      const id = nextId
      nextId = nextId === 0xffffffff ? 1 : nextId + 1
      const call = new LinkedCall({ id, timeoutMs, send, onEnd: () => calls.delete(id) })
      calls.set(id, call)
      if (socket.destroyed) call.fail(new ConnectionLost(failure))
      else call.start(head, body)
      return call
    },
    close: () => void socket.destroy(),
  }
}
