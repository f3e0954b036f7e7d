// Row changes to five hundred subscribers: distinct users under a policy, and the service_role key. Measures deliveries
// per second and per second of CPU of all processes, including the load generator, and the latency from commit to client
// at half the required rate. Options: --rounds, --seconds, --window, --patience,
// --only=fullSpeed,latency,edits,notes, --profile=<directory>.
import { parseArgs } from 'node:util'
import { compare, interleave, medians, report, rounded, type Sample } from './measure.ts'
import { type Readers, startReaders } from './realtime-load.ts'
import type { Reader } from './realtime-readers.ts'
import { costPer, type RealtimeStage, settled, stageRealtime, subscriberCount } from './realtime-stage.ts'
import {
  type FixedRateRun,
  percentile,
  restPosts,
  sqlEdits,
  sqlNotes,
  sqlPosts,
  type Writer,
  writeAtFixedRate,
  writeAtFullSpeed,
} from './realtime-writers.ts'
import { onStage } from './stage.ts'

const { values: given } = parseArgs({
  options: {
    rounds: { type: 'string', default: '5' },
    seconds: { type: 'string', default: '5' },
    window: { type: 'string', default: '100' },
    patience: { type: 'string', default: '5' },
    only: { type: 'string', default: 'fullSpeed,latency,edits,notes' },
    profile: { type: 'string' },
  },
})
const seconds = Number(given.seconds)
const rounds = Number(given.rounds)
const window = Number(given.window)
const patienceMs = Number(given.patience) * 1000
const atLeast = { underPolicies: 30_000, asService: 60_000 }
const latencySeconds = 10
/** One in this number of subscribers is sampled for latencies. */
const sampleEvery = 5
const openPerSecond = 250

const channel = { topic: 'posts', table: 'posts' }
const asUsers = ({ users, reader }: RealtimeStage) =>
  users.map((user, index) => ({ ...reader(user.token, channel), isSampled: index % sampleEvery === 0 }))
const asService = ({ keys, reader }: RealtimeStage) =>
  Array.from({ length: subscriberCount }, () => reader(keys.service, channel))

const shares = { p50: 0.5, p95: 0.95, p99: 0.99, most: 1 }
const latencies = ({ latenciesMs, fromSendingMs }: FixedRateRun) => ({
  from_commit_ms: percentiles(latenciesMs),
  from_sending_ms: percentiles(fromSendingMs),
})
const percentiles = (sorted: number[]) =>
  roundedAll(
    Object.fromEntries(Object.entries(shares).map(([name, share]) => [name, percentile(sorted, share)])),
  )
const roundedAll = (sample: Sample): Sample =>
  Object.fromEntries(Object.entries(sample).map(([name, value]) => [name, rounded(value)]))

await onStage(async stage => {
  const nodeOptions = given.profile ? ['--cpu-prof', `--cpu-prof-dir=${given.profile}`] : []
  const realtime = await stageRealtime(stage, { nodeOptions })
  const readers = startReaders()
  const selected = new Set(given.only.split(','))
  try {
    const most = selected.has('fullSpeed') ? await measureFullSpeed(realtime, readers) : undefined
    if (selected.has('latency')) await measureLatency(realtime, readers, most)
    if (selected.has('edits')) await measureEdits(realtime, readers)
    if (selected.has('notes')) await measureNotes(realtime, readers)
  } finally {
    await readers.end()
    await realtime.platform.stop()
  }
})

/** Deliveries to these subscribers at full speed. */
async function measureRound(
  realtime: RealtimeStage,
  readers: Readers,
  {
    subscribers,
    writer,
    fanOut = subscriberCount,
  }: { subscribers: Reader[]; writer: Writer; fanOut?: number },
): Promise<Sample> {
  await readers.call('open', { readers: subscribers, atOnce: 50, perSecond: openPerSecond })
  await writeAtFullSpeed(readers, writer, { seconds: 1, window, fanOut })
  const before = realtime.cpu(readers)
  const ran = await writeAtFullSpeed(readers, writer, { seconds, window, fanOut })
  const cost = costPer(before, realtime.cpu(readers), ran.deliveries)
  await readers.call('marks', undefined)
  await readers.call('close', undefined)
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

/** Returns the deliveries per second under policies. */
async function measureFullSpeed(realtime: RealtimeStage, readers: Readers): Promise<number> {
  const writer = sqlPosts(realtime)
  const underPolicies = () => measureRound(realtime, readers, { subscribers: asUsers(realtime), writer })
  const withKey = () => measureRound(realtime, readers, { subscribers: asService(realtime), writer })
  await underPolicies() // the JIT has not compiled a new platform yet
  await withKey()
  const samples = await interleave(rounds, { users: underPolicies, service: withKey }, patienceMs)
  await writer.end()
  const comparison = compare(samples.users, samples.service, each => each['per_second']!)
  const perCpu = compare(samples.users, samples.service, each => each['per_cpu_second']!)
  const details = {
    of_those_as_service_role: comparison.ratio,
    of_those_as_service_role_per_cpu_second: perCpu.ratio,
    rounds: comparison.rounds,
    round_seconds: seconds,
    window,
  }
  for (const [subject, all, ours, least] of [
    [
      `row changes to ${subscriberCount} users under a policy`,
      samples.users,
      comparison.measured,
      atLeast.underPolicies,
    ],
    [
      `row changes to ${subscriberCount} with the service_role key`,
      samples.service,
      comparison.reference,
      atLeast.asService,
    ],
  ] as const) {
    const rates = all.map(each => rounded(each['per_second']!))
    report({
      bench: 'realtime',
      subject,
      target: { atLeast: least },
      measured: ours['per_second']!,
      unit: 'deliveries per second, with the load generator on the same machine',
      range: [Math.min(...rates), Math.max(...rates)],
      ours,
      ...details,
    })
  }
  return comparison.measured['per_second']!
}

async function measureLatency(realtime: RealtimeStage, readers: Readers, most?: number): Promise<void> {
  await readers.call('open', { readers: asUsers(realtime), atOnce: 50, perSecond: openPerSecond })
  const half = atLeast.underPolicies / 2
  const writers = { SQL: sqlPosts(realtime), HTTP: restPosts(realtime) }
  for (const [by, writer] of Object.entries(writers)) {
    await writeAtFixedRate(readers, writer, {
      seconds: 2,
      perSecond: half / subscriberCount,
      fanOut: subscriberCount,
    })
    await latencyAt(half, by, writer, true)
    if (most && most / 2 > half) await latencyAt(most / 2, by, writer, false)
    await writer.end()
  }
  await readers.call('close', undefined)
  await settled(realtime, readers)

  async function latencyAt(rate: number, by: string, writer: Writer, hasTarget: boolean): Promise<void> {
    const before = realtime.cpu(readers)
    const ran = await writeAtFixedRate(readers, writer, {
      seconds: latencySeconds,
      perSecond: rate / subscriberCount,
      fanOut: subscriberCount,
    })
    report({
      bench: 'realtime',
      subject: `commit to client, written by ${by}, at ${rounded(rate)} deliveries a second`,
      ...(hasTarget && { target: { atMost: 100 } }),
      measured: percentile(ran.latenciesMs, 0.95),
      unit: 'ms (p95)',
      ...latencies(ran),
      ...roundedAll(costPer(before, realtime.cpu(readers), ran.deliveries)),
      sampled_deliveries: ran.latenciesMs.length,
      seconds: latencySeconds,
    })
  }
}

/** Updates: both the old and the new row are checked. */
async function measureEdits(realtime: RealtimeStage, readers: Readers): Promise<void> {
  const writer = sqlEdits(realtime)
  const samples = await interleave(
    3,
    { edits: () => measureRound(realtime, readers, { subscribers: asUsers(realtime), writer }) },
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

/** Each change is visible to one of five hundred users: with a filter, and by the policy alone. */
async function measureNotes(realtime: RealtimeStage, readers: Readers): Promise<void> {
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
    measureRound(realtime, readers, { subscribers: subscribers(isFiltered), writer, fanOut: 1 })
  const samples = await interleave(3, { filtered: ran(true), unfiltered: ran(false) }, patienceMs)
  await writer.end()
  for (const [name, subject] of [
    ['filtered', 'changes for one user of 500 by a filter and the policy'],
    ['unfiltered', 'changes for one user of 500 by the policy alone'],
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
