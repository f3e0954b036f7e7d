// Latency of fast reads: p99 against p50 under 32 connections, and p99 while four other callers call a function that takes
// a second, against p99 without them.
// Options: --rounds, --seconds.
import { setTimeout as sleep } from 'node:timers/promises'
import { parseArgs } from 'node:util'
import { compare, interleave, median, report, rounded, type Sample } from './measure.ts'
import { type RowsStage, requestOf, shapes, stageRows } from './rows-stage.ts'
import { onStage, type StagedServer } from './stage.ts'
import { wrk } from './wrk.ts'

const { values: given } = parseArgs({
  options: { rounds: { type: 'string', default: '6' }, seconds: { type: 'string', default: '4' } },
})
const rounds = Number(given.rounds)
const roundSeconds = Number(given.seconds)
const connections = 32
const maxWaitMs = 5000
const slowCallers = 4

await onStage(async stage => {
  const rows = await stageRows(stage)
  const platform = await rows.start()
  const load = (seconds: number) =>
    wrk(platform.url, requestOf(rows, shapes.byKey), { file: rows.file('read.lua'), seconds, connections })
  /** The first second is not counted: after a pause, connections are opened and statements prepared. */
  const read = async (): Promise<Sample> => {
    await load(1)
    const { p50Ms, p99Ms, maxMs, perSecond } = await load(roundSeconds)
    return { p50_ms: p50Ms, p99_ms: p99Ms, max_ms: maxMs, per_second: perSecond }
  }
  await load(5)
  const contenders = { quiet: read, withSlowCallers: () => withSlowCallers(rows, platform, read) }
  const samples = await interleave(rounds, contenders, maxWaitMs)
  await platform.stop()

  const spread = samples.quiet.map(each => each['p99_ms']! / each['p50_ms']!)
  const {
    ratio,
    range,
    measured,
    reference,
    rounds: taken,
  } = compare(samples.withSlowCallers, samples.quiet, each => each['p99_ms']!)
  report({
    bench: 'rows-latency',
    subject: `p99 of reads by key over ${connections} connections against their p50`,
    target: { atMost: 4 },
    measured: median(spread),
    unit: 'times',
    range: [rounded(Math.min(...spread)), rounded(Math.max(...spread))],
    quiet: reference,
    rounds,
    round_seconds: roundSeconds,
  })
  report({
    bench: 'rows-latency',
    subject: `p99 of the same reads during ${slowCallers} callers of a function that takes a second, against quiet`,
    target: { atMost: 3 },
    measured: ratio,
    unit: 'times',
    excellent: 1.5,
    range,
    with_slow_callers: measured,
    quiet: reference,
    rounds: taken,
    round_seconds: roundSeconds,
  })
})

/** The callers start before the reads and end after them. */
async function withSlowCallers(
  rows: RowsStage,
  platform: StagedServer,
  read: () => Promise<Sample>,
): Promise<Sample> {
  let isOver = false
  let slowCalls = 0
  const callers = Array.from({ length: slowCallers }, async () => {
    while (!isOver) {
      const reply = await fetch(platform.url + rows.path('rpc/nap'), {
        method: 'POST',
        headers: { ...rows.anon, 'content-type': 'application/json' },
        body: '{}',
      })
      const text = await reply.text()
      if (reply.status !== 200) throw new Error(`rpc/nap answered ${reply.status}: ${text}`)
      slowCalls++
    }
  })
  const all = Promise.all(callers)
  all.catch(() => {})
  await sleep(300)
  const sample = await read()
  isOver = true
  await all
  return { ...sample, slow_calls: slowCalls }
}
