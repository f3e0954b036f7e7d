// The subscribers: a separate process that opens sockets, joins a channel on each and counts deliveries. Its parent
// (realtime-load.ts) sends commands. Commit and arrival are compared by the machine's monotonic clock.
import { setTimeout as sleep } from 'node:timers/promises'
import { LeanSocket, type SocketTarget, type Tally } from './realtime-socket.ts'

export interface Reader extends SocketTarget {
  /** Sent when the socket is open. The reply has the status `ok`. */
  join?: string
  /** Changes are delivered only after a `system` message. */
  awaitsFeed?: boolean
  /** Its frames are searched for marks. */
  isSampled?: boolean
}

export interface Commands {
  open: { readers: Reader[]; atOnce: number; perSecond: number }
  /** One per socket, starting with the socket of this number. */
  join: { joins: string[]; from: number; perSecond: number }
  close: undefined
  counts: undefined
  marks: undefined
  /** The first frame of the first socket. */
  frame: undefined
}

export interface Results {
  open: number
  join: number
  close: undefined
  counts: Tally & { closed: string[] }
  marks: { mark: Float64Array; atMs: Float64Array }
  frame: { payload: Uint8Array; isText: boolean }
}

export const monotonicMs = () => Number(process.hrtime.bigint()) / 1e6
export const markPattern = 'mark-'
export const markDigits = 8
const joinTimeoutMs = 30_000
const heartbeatMs = 25_000

const tally: Tally = { frames: 0, bytes: 0 }
const sockets: LeanSocket[] = []
let closed: string[] = []
let marks: number[] = []
let times: number[] = []

async function open({ readers, atOnce, perSecond }: Commands['open']): Promise<number> {
  const since = performance.now()
  let next = 0
  const worker = async () => {
    while (next < readers.length) {
      const index = next++
      await sleep(Math.max(0, (index / perSecond) * 1000 - (performance.now() - since)))
      await openOne(readers[index]!)
    }
  }
  await Promise.all(Array.from({ length: atOnce }, worker))
  return sockets.length
}

async function openOne(reader: Reader): Promise<void> {
  const socket = new LeanSocket(reader, tally)
  socket.onClose = reason => closed.push(reason)
  await socket.opened
  sockets.push(socket)
  if (reader.join !== undefined) await joinChannel(socket, reader.join, reader.awaitsFeed ?? false)
  if (reader.isSampled) socket.onFrame = recordMark
}

/** Waits until the join is answered and, if requested, the feed is ready. */
async function joinChannel(socket: LeanSocket, join: string, awaitsFeed: boolean): Promise<void> {
  const { promise, resolve, reject } = Promise.withResolvers<void>()
  const timeout = setTimeout(() => reject(new Error('a join was not answered')), joinTimeoutMs)
  let isAnswered = false
  socket.onFrame = payload => {
    const [, , , event, { status, response, message }] = JSON.parse(payload.toString())
    if (status === 'error') reject(new Error(`a join failed: ${JSON.stringify(response ?? message)}`))
    if (event === 'phx_reply') isAnswered = true
    if (event === 'system' || (isAnswered && !awaitsFeed)) resolve()
  }
  socket.send(join)
  await promise.finally(() => clearTimeout(timeout))
  socket.onFrame = undefined
}

async function join({ joins, from, perSecond }: Commands['join']): Promise<number> {
  const since = performance.now()
  const all = joins.map(async (each, index) => {
    await sleep(Math.max(0, (index / perSecond) * 1000 - (performance.now() - since)))
    await joinChannel(sockets[from + index]!, each, false)
  })
  await Promise.all(all)
  return all.length
}

function recordMark(payload: Buffer): void {
  if (payload[6] === 0x22) return // an answer to a heartbeat
  tally.frames++
  tally.bytes += payload.length
  const at = payload.indexOf(markPattern)
  if (at < 0) return
  marks.push(
    Number(payload.toString('latin1', at + markPattern.length, at + markPattern.length + markDigits)),
  )
  times.push(monotonicMs())
}

const handlers: {
  [Name in keyof Commands]: (input: Commands[Name]) => Results[Name] | Promise<Results[Name]>
} = {
  open,
  join,
  close() {
    for (const socket of sockets.splice(0)) socket.end()
    closed = []
    return undefined
  },
  counts: () => ({ ...tally, closed }),
  marks() {
    const found = { mark: Float64Array.from(marks), atMs: Float64Array.from(times) }
    marks = []
    times = []
    return found
  },
  frame() {
    const socket = sockets[0]!
    return new Promise(resolve => {
      socket.onFrame = (payload, isText) => {
        socket.onFrame = undefined
        resolve({ payload: Uint8Array.from(payload), isText })
      }
    })
  },
}

if (process.send) {
  process.on('message', async ({ id, name, input }: { id: number; name: keyof Commands; input: never }) => {
    try {
      process.send!({ id, result: await handlers[name](input) })
    } catch (error) {
      process.send!({ id, error: String(error) })
    }
  })
  process.once('disconnect', () => process.exit(0))
  setInterval(() => {
    for (const socket of sockets) socket.send('[null,"0","phoenix","heartbeat",{}]')
  }, heartbeatMs)

  // So that the writer can wait for the subscribers.
  let lastSent = 0
  setInterval(() => {
    if (tally.frames === lastSent) return
    lastSent = tally.frames
    process.send!({ frames: lastSent })
  }, 4)
}
