// Row changes to five hundred subscribers: distinct users under a policy, and the service_role key; how many deliveries
// a second in all and per second of CPU of every process involved, the load generator's too, and how long from commit
// to client at half the rate that is asked for. Options: --rounds, --seconds, --window, --patience,
// --only=flatOut,latency,edits,notes, --profile=<directory>.
import { parseArgs } from 'node:util'
import { compare, interleave, medians, report, rounded, type Sample } from './measure.ts'
import { type Readers, startReaders } from './realtime-load.ts'
import type { Reader } from './realtime-readers.ts'
import { costPer, type RealtimeStage, settled, stageRealtime, subscriberCount } from './realtime-stage.ts'
import {
  atPace,
  flatOut,
  type Paced,
  percentile,
  restPosts,
  sqlEdits,
  sqlNotes,
  sqlPosts,
  type Writer,
} from './realtime-writers.ts'
import { onStage } from './stage.ts'

const { values: given } = parseArgs({
  options: {
    rounds: { type: 'string', default: '5' },
    seconds: { type: 'string', default: '5' },
    window: { type: 'string', default: '100' },
    patience: { type: 'string', default: '5' },
    only: { type: 'string', default: 'flatOut,latency,edits,notes' },
    profile: { type: 'string' },
  },
})
const seconds = Number(given.seconds)
const rounds = Number(given.rounds)
const window = Number(given.window)
const patienceMs = Number(given.patience) * 1000
const atLeast = { underPolicies: 30_000, asService: 60_000 }
const latencySeconds = 10
/** One in so many subscribers is looked at for latencies. */
const sampleEvery = 5
const openPerSecond = 250

const wish = { topic: 'posts', table: 'posts' }
const asUsers = ({ users, reader }: RealtimeStage) =>
  users.map((user, index) => ({ ...reader(user.token, wish), isSampled: index % sampleEvery === 0 }))
const asService = ({ keys, reader }: RealtimeStage) =>
  Array.from({ length: subscriberCount }, () => reader(keys.service, wish))

const shares = { p50: 0.5, p95: 0.95, p99: 0.99, most: 1 }
const spread = ({ latenciesMs, fromSendingMs }: Paced) => ({
  from_commit_ms: shared(latenciesMs),
  from_sending_ms: shared(fromSendingMs),
})
const shared = (sorted: number[]) =>
  roundedAll(
    Object.fromEntries(Object.entries(shares).map(([name, share]) => [name, percentile(sorted, share)])),
  )
const roundedAll = (sample: Sample): Sample =>
  Object.fromEntries(Object.entries(sample).map(([name, value]) => [name, rounded(value)]))

await onStage(async stage => {
  const nodeOptions = given.profile ? ['--cpu-prof', `--cpu-prof-dir=${given.profile}`] : []
  const realtime = await stageRealtime(stage, { nodeOptions })
  const readers = startReaders()
  const wanted = new Set(given.only.split(','))
  try {
    const most = wanted.has('flatOut') ? await measureFlatOut(realtime, readers) : undefined
    if (wanted.has('latency')) await measureLatency(realtime, readers, most)
    if (wanted.has('edits')) await tellEdits(realtime, readers)
    if (wanted.has('notes')) await tellNotes(realtime, readers)
  } finally {
    await readers.end()
    await realtime.platform.stop()
  }
})

/** What is delivered while these are subscribed, flat out. */
async function turn(
  realtime: RealtimeStage,
  readers: Readers,
  { who, writer, fanOut = subscriberCount }: { who: Reader[]; writer: Writer; fanOut?: number },
): Promise<Sample> {
  await readers.tell('open', { readers: who, atOnce: 50, perSecond: openPerSecond })
  await flatOut(readers, writer, { seconds: 1, window, fanOut })
  const before = realtime.cpu(readers)
  const ran = await flatOut(readers, writer, { seconds, window, fanOut })
  const cost = costPer(before, realtime.cpu(readers), ran.deliveries)
  await readers.tell('marks', undefined)
  await readers.tell('close', undefined)
  await settled(realtime, readers)
  const cpu = cost.platform_cpu_us + cost.postgres_cpu_us + cost.load_cpu_us
  return {
    per_second: ran.deliveries / ran.seconds,
    per_cpu_second: 1e6 / cpu,
    changes_per_second: ran.changes / ran.seconds,
    ...cost,
    cores_used: (cpu * ran.deliveries) / 1e6 / ran.seconds,
  }
}

/** The most under policies. */
async function measureFlatOut(realtime: RealtimeStage, readers: Readers): Promise<number> {
  const writer = sqlPosts(realtime)
  const underPolicies = () => turn(realtime, readers, { who: asUsers(realtime), writer })
  const withKey = () => turn(realtime, readers, { who: asService(realtime), writer })
  await underPolicies() // a platform that has just been started is still being compiled
  await withKey()
  const samples = await interleave(rounds, { users: underPolicies, service: withKey }, patienceMs)
  await writer.end()
  const beside = compare(samples.users, samples.service, each => each['per_second']!)
  const perCpu = compare(samples.users, samples.service, each => each['per_cpu_second']!)
  const details = {
    of_those_as_service_role: beside.ratio,
    of_those_as_service_role_per_cpu_second: perCpu.ratio,
    rounds: beside.rounds,
    round_seconds: seconds,
    window,
  }
  for (const [subject, all, ours, least] of [
    [
      `row changes to ${subscriberCount} users under a policy`,
      samples.users,
      beside.measured,
      atLeast.underPolicies,
    ],
    [
      `row changes to ${subscriberCount} with the service_role key`,
      samples.service,
      beside.reference,
      atLeast.asService,
    ],
  ] as const) {
    const rates = all.map(each => rounded(each['per_second']!))
    report({
      bench: 'realtime',
      subject,
      target: { atLeast: least },
      measured: ours['per_second']!,
      unit: 'deliveries per second on this machine, the load generator beside',
      range: [Math.min(...rates), Math.max(...rates)],
      ours,
      ...details,
    })
  }
  return beside.measured['per_second']!
}

async function measureLatency(realtime: RealtimeStage, readers: Readers, most?: number): Promise<void> {
  await readers.tell('open', { readers: asUsers(realtime), atOnce: 50, perSecond: openPerSecond })
  const half = atLeast.underPolicies / 2
  const writers = { SQL: sqlPosts(realtime), HTTP: restPosts(realtime) }
  for (const [by, writer] of Object.entries(writers)) {
    await atPace(readers, writer, { seconds: 2, perSecond: half / subscriberCount, fanOut: subscriberCount })
    await latencyAt(half, by, writer, true)
    if (most && most / 2 > half) await latencyAt(most / 2, by, writer, false)
    await writer.end()
  }
  await readers.tell('close', undefined)
  await settled(realtime, readers)

  async function latencyAt(rate: number, by: string, writer: Writer, isAsked: boolean): Promise<void> {
    const before = realtime.cpu(readers)
    const ran = await atPace(readers, writer, {
      seconds: latencySeconds,
      perSecond: rate / subscriberCount,
      fanOut: subscriberCount,
    })
    report({
      bench: 'realtime',
      subject: `commit to client, written by ${by}, at ${rounded(rate)} deliveries a second`,
      ...(isAsked && { target: { atMost: 100 } }),
      measured: percentile(ran.latenciesMs, 0.95),
      unit: 'ms (p95)',
      ...spread(ran),
      ...roundedAll(costPer(before, realtime.cpu(readers), ran.deliveries)),
      deliveries_looked_at: ran.latenciesMs.length,
      seconds: latencySeconds,
    })
  }
}

/** Two rows to judge for every change. */
async function tellEdits(realtime: RealtimeStage, readers: Readers): Promise<void> {
  const writer = sqlEdits(realtime)
  const samples = await interleave(
    3,
    { edits: () => turn(realtime, readers, { who: asUsers(realtime), writer }) },
    patienceMs,
  )
  await writer.end()
  const ours = medians(samples.edits)
  report({
    bench: 'realtime',
    subject: `updates to ${subscriberCount} users under a policy`,
    measured: ours['per_second']!,
    unit: 'deliveries per second',
    ours,
    round_seconds: seconds,
  })
}

/** Each change is for one of five hundred: by a filter, and by the policy alone. */
async function tellNotes(realtime: RealtimeStage, readers: Readers): Promise<void> {
  const writer = sqlNotes(realtime)
  const subscribers = (isFiltered: boolean) =>
    realtime.users.map(({ id, token }) =>
      realtime.reader(token, {
        topic: 'notes',
        table: 'notes',
        ...(isFiltered && { filter: `owner=eq.${id}` }),
      }),
    )
  const ran = (isFiltered: boolean) => () =>
    turn(realtime, readers, { who: subscribers(isFiltered), writer, fanOut: 1 })
  const samples = await interleave(3, { filtered: ran(true), judged: ran(false) }, patienceMs)
  await writer.end()
  for (const [name, subject] of [
    ['filtered', 'changes for one user of 500 by a filter and the policy'],
    ['judged', 'changes for one user of 500 by the policy alone'],
  ] as const) {
    const ours = medians(samples[name])
    report({
      bench: 'realtime',
      subject,
      measured: ours['per_second']!,
      unit: 'changes per second',
      ours,
      round_seconds: seconds,
    })
  }
}
