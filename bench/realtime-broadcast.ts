// A broadcast to five hundred subscribers, against a bare `ws` server that sends the same bytes to as many with batched
// writes: flat out, and at a pace, where only the CPU differs. Options: --rounds, --seconds, --window, --patience,
// --paces=flat-out,200,2000, --profile=<directory>.
import { setTimeout as sleep } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { parseArgs } from 'node:util'
import { compare, cpuMicros, interleave, report, type Sample } from './measure.ts'
import { loadCpuMicros, type Readers, startReaders } from './realtime-load.ts'
import type { Reader } from './realtime-readers.ts'
import { LeanSocket } from './realtime-socket.ts'
import { joinOf, stageRealtime, subscriberCount } from './realtime-stage.ts'
import { onStage, type StagedServer } from './stage.ts'

const { values: given } = parseArgs({
  options: {
    rounds: { type: 'string', default: '7' },
    seconds: { type: 'string', default: '3' },
    window: { type: 'string', default: '100' },
    patience: { type: 'string', default: '5' },
    paces: { type: 'string', default: 'flat-out,200,2000' },
    profile: { type: 'string' },
  },
})
const seconds = Number(given.seconds)
const window = Number(given.window)
const atLeast = 0.5
/** Messages a second. At 200 hardly two are ever sent at once; at 2000 a few are. */
const paces = given.paces.split(',').map(each => (each === 'flat-out' ? undefined : Number(each)))
const topic = 'room'
const payload = {
  text: 'of about a hundred characters, as people write them to each other all day long'.padEnd(96),
}

/** One that passes on what its sender is told to send. */
interface Side {
  readers: Readers
  send(): void
  cpu(): number
}

await onStage(async stage => {
  const nodeOptions = given.profile ? ['--cpu-prof', `--cpu-prof-dir=${given.profile}`] : []
  const { platform, reader, users, keys, cpu } = await stageRealtime(stage, { nodeOptions })
  const bare = await stage.server(fileURLToPath(new URL('realtime-bare.ts', import.meta.url)), {})
  const [ourReaders, bareReaders] = [startReaders(), startReaders()]
  const sender = await opened(reader(keys.service))
  sender.send(joinOf({ topic }))
  await open(
    ourReaders,
    users.map(({ token }) => reader(token, { topic })),
  )
  await open(
    bareReaders,
    users.map(() => ({ url: bare.url, path: '/' })),
  )
  const pushed = userBroadcast(topic, 'message', JSON.stringify(payload))
  const bareSender = await opened({ url: bare.url, path: '/sender' })

  // What comes out of ours is what the bare one is given to pass on.
  const heard = ourReaders.tell('frame', undefined)
  sender.send(pushed)
  const { payload: bytes, isText } = await heard
  const passedOn = isText ? Buffer.from(bytes).toString() : Buffer.from(bytes)
  const ours: Side = {
    readers: ourReaders,
    send: () => sender.send(pushed),
    cpu: () => cpu(ourReaders).platform + cpu(ourReaders).postgres,
  }
  const reference: Side = {
    readers: bareReaders,
    send: () => bareSender.send(passedOn),
    cpu: () => cpuMicros(bare.pid),
  }
  for (const side of [ours, reference]) for (const pace of paces) await fanOut(side, pace)
  for (const pace of paces) await measure(ours, reference, pace, bytes.length)

  for (const socket of [sender, bareSender]) socket.end()
  for (const readers of [ourReaders, bareReaders]) await readers.end()
  await stopAll(platform, bare)
})

async function opened(wanted: Reader): Promise<LeanSocket> {
  const socket = new LeanSocket(wanted, { frames: 0, bytes: 0 })
  await socket.opened
  return socket
}

function open(readers: Readers, all: Reader[]): Promise<number> {
  return readers.tell('open', { readers: all, atOnce: 50, perSecond: 250 })
}

async function measure(ours: Side, bare: Side, pace: number | undefined, bytes: number): Promise<void> {
  const samples = await interleave(
    Number(given.rounds),
    { ours: () => fanOut(ours, pace), bare: () => fanOut(bare, pace) },
    Number(given.patience) * 1000,
  )
  const figures = {
    per_second: 'deliveries per second',
    per_cpu_second: 'deliveries per CPU second of the server',
  }
  for (const [figure, unit] of Object.entries(figures)) {
    if (pace !== undefined && figure === 'per_second') continue // the same by design
    const found = compare(samples.ours, samples.bare, each => each[figure]!)
    report({
      bench: 'realtime-broadcast',
      subject: `broadcast to ${subscriberCount} subscribers, ${pace === undefined ? 'flat out' : `${pace} messages a second`}`,
      target: { atLeast },
      measured: found.ratio,
      unit: `of the ${unit} of a bare ws fan-out`,
      range: found.range,
      ours: found.measured,
      bare: found.reference,
      rounds: found.rounds,
      round_seconds: seconds,
      frame_bytes: bytes,
      ...(pace === undefined && { window }),
    })
  }
}

async function fanOut(side: Side, pace: number | undefined): Promise<Sample> {
  const { readers } = side
  const first = (await readers.tell('taken', undefined)).frames
  const before = { server: side.cpu(), load: loadCpuMicros(readers) }
  const begun = performance.now()
  const elapsed = () => performance.now() - begun
  let sent = 0
  const limit = () =>
    pace === undefined
      ? readers.frames() / subscriberCount - first / subscriberCount + window
      : (elapsed() / 1000) * pace
  while (elapsed() < seconds * 1000) {
    for (; sent < limit(); sent++) side.send()
    if (pace === undefined) await readers.reached(first + (sent - window + 1) * subscriberCount, 5000)
    else await sleep(1)
  }
  const deliveries = sent * subscriberCount
  if (!(await readers.reached(first + deliveries, 20_000)))
    throw new Error(`of ${deliveries} deliveries ${readers.frames() - first} came`)
  const took = elapsed() / 1000
  const server = side.cpu() - before.server
  return {
    per_second: deliveries / took,
    per_cpu_second: (deliveries / server) * 1e6,
    server_cpu_us: server / deliveries,
    load_cpu_us: (loadCpuMicros(readers) - before.load) / deliveries,
    server_cores: server / 1e6 / took,
  }
}

/** A frame of kind 3, as supabase-js sends it. */
function userBroadcast(subTopic: string, event: string, json: string): Buffer {
  const fields = ['1', '2', `realtime:${subTopic}`, event, ''].map(each => Buffer.from(each))
  const sizes = fields.map(each => each.length)
  return Buffer.concat([Buffer.from([3, ...sizes, 1]), ...fields, Buffer.from(json)])
}

async function stopAll(...servers: StagedServer[]): Promise<void> {
  for (const server of servers) await server.stop()
}
