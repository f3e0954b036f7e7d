// Runs pg_dump as WebAssembly in a thread of its own, and exchanges the bytes between it and the server.
import { once } from 'node:events'
import { Worker } from 'node:worker_threads'
import { threadEnvironment } from '#src/kernel/thread-environment.ts'
import type { ServerAddress } from '../server-address.ts'
import type { Transport } from '../wire/transport.ts'
import type { PinnedModule } from './pinned-module.ts'
import { createRingMemory, type RingMemory, RingWriter } from './ring.ts'
import { connectToServer } from './server-connection.ts'
import type { FromThread, ThreadInput } from './thread-messages.ts'

const heapMb = 128
/** How long the server may take to end the session of a finished dump. */
const endMs = 5000

export interface ThreadedDump {
  module: PinnedModule
  address: ServerAddress
  args: readonly string[]
  maxBytes: number
  signal: AbortSignal
}

/** Rejects with what pg_dump reports. When it settles, the thread and the connection have ended. */
export async function dumpInThread(dump: ThreadedDump): Promise<Buffer> {
  const { module, address, args, maxBytes, signal } = dump
  const connection = await connectToServer(address, signal)
  const ring = createRingMemory()
  const input: ThreadInput = { module, ring, args, maxBytes }
  const worker = new Worker(new URL('./thread.ts', import.meta.url), {
    workerData: input,
    env: threadEnvironment(),
    resourceLimits: { maxOldGenerationSizeMb: heapMb },
  })
  try {
    const result = await resultOf(worker, connection, feed(connection, ring), signal)
    await endSession(connection)
    return result
  } finally {
    connection.socket.destroy()
    await worker.terminate()
  }
}

function resultOf(
  worker: Worker,
  { socket }: Transport,
  writeWaiting: () => void,
  signal: AbortSignal,
): Promise<Buffer> {
  return new Promise((resolve, reject) => {
    worker.on('message', (message: FromThread) => {
      if (message.kind === 'send') socket.write(message.bytes)
      else if (message.kind === 'space') writeWaiting()
      else if (message.kind === 'done') resolve(Buffer.from(message.dump))
      else reject(new Error(message.message))
    })
    worker.on('error', reject)
    worker.on('exit', code => reject(new Error(`The thread of pg_dump ended with code ${code}.`)))
    signal.addEventListener('abort', () => reject(signal.reason), { once: true })
    if (signal.aborted) reject(signal.reason)
  })
}

/** Writes the bytes of the server to the ring. The returned function writes those that waited for space. */
function feed({ socket, receive }: Transport, ring: RingMemory): () => void {
  const writer = new RingWriter(ring)
  let waiting: Buffer | undefined
  let hasEnded = false

  receive(bytes => {
    const rest = waiting ? bytes : bytes.subarray(writer.write(bytes))
    if (rest.length === 0) return
    waiting = Buffer.concat(waiting ? [waiting, rest] : [rest])
    socket.pause()
  })
  socket.once('close', () => {
    hasEnded = true
    if (!waiting) writer.close()
  })
  return () => {
    if (!waiting) return
    const rest = waiting.subarray(writer.write(waiting))
    waiting = rest.length > 0 ? rest : undefined
    if (waiting) return
    if (hasEnded) writer.close()
    else socket.resume()
  }
}

/** pg_dump has said goodbye. The server closes the connection once the session no longer holds locks. */
async function endSession({ socket }: Transport): Promise<void> {
  if (socket.closed) return
  const closed = once(socket, 'close')
  const timer = setTimeout(() => socket.destroy(), endMs)
  socket.resume()
  await closed
  clearTimeout(timer)
}
