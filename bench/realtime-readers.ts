// The subscribers: a process of its own that opens sockets, joins a channel on each and counts what comes. Told by its
// parent what to do (realtime-load.ts). Commit and arrival are compared by the machine's monotonic clock.
import { setTimeout as sleep } from 'node:timers/promises'
import { LeanSocket, type Tally, type Wanted } from './realtime-socket.ts'

export interface Reader extends Wanted {
  /** Sent when the socket is open; what answers it says `ok`. */
  join?: string
  /** Changes flow only after a `system` message. */
  awaitsFeed?: boolean
  /** Its frames are looked at for marks. */
  isSampled?: boolean
}

export interface Orders {
  open: { readers: Reader[]; atOnce: number; perSecond: number }
  /** One each, from the socket of this number on. */
  join: { joins: string[]; from: number; perSecond: number }
  close: undefined
  taken: undefined
  marks: undefined
  /** The first frame that comes to the first socket. */
  frame: undefined
}

export interface Answers {
  open: number
  join: number
  close: undefined
  taken: Tally & { closed: string[] }
  marks: { mark: Float64Array; atMs: Float64Array }
  frame: { payload: Uint8Array; isText: boolean }
}

export const monotonicMs = () => Number(process.hrtime.bigint()) / 1e6
export const markPattern = 'mark-'
export const markDigits = 8
const patienceMs = 30_000
const heartbeatMs = 25_000

const tally: Tally = { frames: 0, bytes: 0 }
const sockets: LeanSocket[] = []
let closed: string[] = []
let marks: number[] = []
let times: number[] = []

async function open({ readers, atOnce, perSecond }: Orders['open']): Promise<number> {
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
  socket.onClosed = why => closed.push(why)
  await socket.opened
  sockets.push(socket)
  if (reader.join !== undefined) await joined(socket, reader.join, reader.awaitsFeed ?? false)
  if (reader.isSampled) socket.onFrame = noteMark
}

/** Until the channel has been answered, and the feed is ready where one is awaited. */
async function joined(socket: LeanSocket, join: string, awaitsFeed: boolean): Promise<void> {
  const { promise, resolve, reject } = Promise.withResolvers<void>()
  const late = setTimeout(() => reject(new Error('a join was not answered')), patienceMs)
  let isAnswered = false
  socket.onFrame = payload => {
    const [, , , event, { status, response, message }] = JSON.parse(payload.toString())
    if (status === 'error') reject(new Error(`a join failed: ${JSON.stringify(response ?? message)}`))
    if (event === 'phx_reply') isAnswered = true
    if (event === 'system' || (isAnswered && !awaitsFeed)) resolve()
  }
  socket.send(join)
  await promise.finally(() => clearTimeout(late))
  socket.onFrame = undefined
}

async function join({ joins, from, perSecond }: Orders['join']): Promise<number> {
  const since = performance.now()
  const all = joins.map(async (each, index) => {
    await sleep(Math.max(0, (index / perSecond) * 1000 - (performance.now() - since)))
    await joined(sockets[from + index]!, each, false)
  })
  await Promise.all(all)
  return all.length
}

function noteMark(payload: Buffer): void {
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

const deeds: { [Name in keyof Orders]: (order: Orders[Name]) => Answers[Name] | Promise<Answers[Name]> } = {
  open,
  join,
  close() {
    for (const socket of sockets.splice(0)) socket.end()
    closed = []
    return undefined
  },
  taken: () => ({ ...tally, closed }),
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
  process.on('message', async ({ id, name, order }: { id: number; name: keyof Orders; order: never }) => {
    try {
      process.send!({ id, answer: await deeds[name](order) })
    } catch (error) {
      process.send!({ id, error: String(error) })
    }
  })
  process.once('disconnect', () => process.exit(0))
  setInterval(() => {
    for (const socket of sockets) socket.send('[null,"0","phoenix","heartbeat",{}]')
  }, heartbeatMs)

  // So that whoever writes can be kept from running ahead.
  let told = 0
  setInterval(() => {
    if (tally.frames === told) return
    told = tally.frames
    process.send!({ frames: told })
  }, 4)
}
