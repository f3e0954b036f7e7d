// How long quick reads take: the slowest hundredth against the middle under 32 connections, and the slowest
// hundredth while four others call a function that takes a second, against when nobody does.
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
const patienceMs = 5000
const slowCallers = 4

await onStage(async stage => {
  const rows = await stageRows(stage)
  const platform = await rows.start()
  const load = (seconds: number) =>
    wrk(platform.url, requestOf(rows, shapes.byKey), { file: rows.file('read.lua'), seconds, connections })
  /** The second before is not counted: after a pause connections are opened and statements prepared. */
  const read = async (): Promise<Sample> => {
    await load(1)
    const { p50Ms, p99Ms, maxMs, perSecond } = await load(roundSeconds)
    return { p50_ms: p50Ms, p99_ms: p99Ms, max_ms: maxMs, per_second: perSecond }
  }
  await load(5)
  const contenders = { quiet: read, beside: () => beside(rows, platform, read) }
  const samples = await interleave(rounds, contenders, patienceMs)
  await platform.stop()

  const spread = samples.quiet.map(each => each['p99_ms']! / each['p50_ms']!)
  const {
    ratio,
    range,
    measured,
    reference,
    rounds: taken,
  } = compare(samples.beside, samples.quiet, each => each['p99_ms']!)
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
    subject: `p99 of the same reads beside ${slowCallers} callers of a function that takes a second, against quiet`,
    target: { atMost: 3 },
    measured: ratio,
    unit: 'times',
    excellent: 1.5,
    range,
    beside: measured,
    quiet: reference,
    rounds: taken,
    round_seconds: roundSeconds,
  })
})

/** The callers begin before the reads do and end after them. */
async function beside(rows: RowsStage, platform: StagedServer, read: () => Promise<Sample>): Promise<Sample> {
  let isOver = false
  let naps = 0
  const callers = Array.from({ length: slowCallers }, async () => {
    while (!isOver) {
      const reply = await fetch(platform.url + rows.path('rpc/nap'), {
        method: 'POST',
        headers: { ...rows.anon, 'content-type': 'application/json' },
        body: '{}',
      })
      const text = await reply.text()
      if (reply.status !== 200) throw new Error(`rpc/nap answered ${reply.status}: ${text}`)
      naps++
    }
  })
  const all = Promise.all(callers)
  all.catch(() => {})
  await sleep(300)
  const sample = await read()
  isOver = true
  await all
  return { ...sample, naps }
}
