// A broadcast to five hundred subscribers, against a bare `ws` server that sends the same bytes to as many with batched
// writes: at full speed, and at a fixed rate, where only the CPU differs. Options: --rounds, --seconds, --window, --patience,
// --rates=full-speed,200,2000, --profile=<directory>.
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
    rates: { type: 'string', default: 'full-speed,200,2000' },
    profile: { type: 'string' },
  },
})
const seconds = Number(given.seconds)
const window = Number(given.window)
const atLeast = 0.5
/** Messages per second. At 200 hardly two are sent together, at 2000 a few are. */
const rates = given.rates.split(',').map(each => (each === 'full-speed' ? undefined : Number(each)))
const topic = 'room'
const payload = {
  text: 'of about a hundred characters, as people write them to each other all day long'.padEnd(96),
}

/** A server that forwards the messages of its sender. */
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
  const sender = await openSocket(reader(keys.service))
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
  const bareSender = await openSocket({ url: bare.url, path: '/sender' })

  // The bare server forwards the same bytes that our platform sends.
  const receivedFrame = ourReaders.call('frame', undefined)
  sender.send(pushed)
  const { payload: bytes, isText } = await receivedFrame
  const forwarded = isText ? Buffer.from(bytes).toString() : Buffer.from(bytes)
  const ours: Side = {
    readers: ourReaders,
    send: () => sender.send(pushed),
    cpu: () => cpu(ourReaders).platform + cpu(ourReaders).postgres,
  }
  const reference: Side = {
    readers: bareReaders,
    send: () => bareSender.send(forwarded),
    cpu: () => cpuMicros(bare.pid),
  }
  for (const side of [ours, reference]) for (const rate of rates) await fanOut(side, rate)
  for (const rate of rates) await measure(ours, reference, rate, bytes.length)

  for (const socket of [sender, bareSender]) socket.end()
  for (const readers of [ourReaders, bareReaders]) await readers.end()
  await stopAll(platform, bare)
})

async function openSocket(target: Reader): Promise<LeanSocket> {
  const socket = new LeanSocket(target, { frames: 0, bytes: 0 })
  await socket.opened
  return socket
}

function open(readers: Readers, all: Reader[]): Promise<number> {
  return readers.call('open', { readers: all, atOnce: 50, perSecond: 250 })
}

async function measure(ours: Side, bare: Side, rate: number | undefined, bytes: number): Promise<void> {
  const samples = await interleave(
    Number(given.rounds),
    { ours: () => fanOut(ours, rate), bare: () => fanOut(bare, rate) },
    Number(given.patience) * 1000,
  )
  const metrics = {
    per_second: 'deliveries per second',
    per_cpu_second: 'deliveries per CPU second of the server',
  }
  for (const [metric, unit] of Object.entries(metrics)) {
    if (rate !== undefined && metric === 'per_second') continue // the same by design
    const comparison = compare(samples.ours, samples.bare, each => each[metric]!)
    report({
      bench: 'realtime-broadcast',
      subject: `broadcast to ${subscriberCount} subscribers, ${rate === undefined ? 'at full speed' : `${rate} messages per second`}`,
      target: { atLeast },
      measured: comparison.ratio,
      unit: `of the ${unit} of a bare ws fan-out`,
      range: comparison.range,
      ours: comparison.measured,
      bare: comparison.reference,
      rounds: comparison.rounds,
      round_seconds: seconds,
      frame_bytes: bytes,
      ...(rate === undefined && { window }),
    })
  }
}

async function fanOut(side: Side, rate: number | undefined): Promise<Sample> {
  const { readers } = side
  const first = (await readers.call('counts', undefined)).frames
  const before = { server: side.cpu(), load: loadCpuMicros(readers) }
  const startedAt = performance.now()
  const elapsed = () => performance.now() - startedAt
  let sent = 0
  const limit = () =>
    rate === undefined
      ? readers.frames() / subscriberCount - first / subscriberCount + window
      : (elapsed() / 1000) * rate
  while (elapsed() < seconds * 1000) {
    for (; sent < limit(); sent++) side.send()
    if (rate === undefined) await readers.reached(first + (sent - window + 1) * subscriberCount, 5000)
    else await sleep(1)
  }
  const deliveries = sent * subscriberCount
  if (!(await readers.reached(first + deliveries, 20_000)))
    throw new Error(`only ${readers.frames() - first} of ${deliveries} deliveries arrived`)
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
