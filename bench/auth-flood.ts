// Latency of reads by key during a flood of sign-ins, which keep the password hashing busy, against reads without
// sign-ins; and the delay of the platform's event loop meanwhile. Options: --rounds, --seconds.
import { setTimeout as sleep } from 'node:timers/promises'
import { parseArgs } from 'node:util'
import { loopWatch } from './loop-watch.ts'
import { compare, interleave, median, report, rounded, type Sample } from './measure.ts'
import { type RowsStage, requestOf, shapes, stageRows } from './rows-stage.ts'
import { onStage, type StagedServer } from './stage.ts'
import { wrk } from './wrk.ts'

const { values: given } = parseArgs({
  options: { rounds: { type: 'string', default: '6' }, seconds: { type: 'string', default: '4' } },
})
const rounds = Number(given.rounds)
const roundSeconds = Number(given.seconds)
const maxWaitMs = 5000
/** Few enough that the machine is not fully loaded, so that only the effect of the sign-ins is measured. */
const readers = 4
const flooders = 48

await onStage(async stage => {
  const rows = await stageRows(stage)
  const loop = loopWatch(rows.file('loop-delay.json'))
  const platform = await rows.start(loop.nodeOptions, loop.env)
  const load = (seconds: number) =>
    wrk(platform.url, requestOf(rows, shapes.byKey), {
      file: rows.file('read.lua'),
      seconds,
      connections: readers,
    })
  const read = async (): Promise<Sample> => {
    await load(1)
    await loop.read(platform)
    const { p50Ms, p99Ms, perSecond } = await load(roundSeconds)
    const late = await loop.read(platform)
    return {
      p50_ms: p50Ms,
      p99_ms: p99Ms,
      per_second: perSecond,
      loop_p99_ms: late.p99_ms,
      loop_max_ms: late.max_ms,
    }
  }
  await load(5)
  const samples = await interleave(
    rounds,
    { quiet: read, flooded: () => readDuringFlood(rows, platform, read) },
    maxWaitMs,
  )
  await platform.stop()
  const { ratio, range, measured, reference } = compare(
    samples.flooded,
    samples.quiet,
    each => each['p99_ms']!,
  )
  report({
    bench: 'auth-flood',
    subject: `p99 of reads by key over ${readers} connections during sign-ins by ${flooders} callers, against the p99 without them`,
    target: { atMost: 2 },
    measured: ratio,
    unit: 'times',
    range,
    flooded: measured,
    quiet: reference,
    rounds,
    round_seconds: roundSeconds,
  })
  const late = samples.flooded.map(each => each['loop_max_ms']!)
  report({
    bench: 'auth-flood',
    subject: 'longest delay of the event loop during the flood',
    target: { atMost: 50 },
    measured: median(late),
    unit: 'ms',
    range: [rounded(Math.min(...late)), rounded(Math.max(...late))],
    rounds,
  })
})

/** Signs in with an unknown address, which costs as much as a successful sign-in. */
async function readDuringFlood(
  rows: RowsStage,
  platform: StagedServer,
  read: () => Promise<Sample>,
): Promise<Sample> {
  let isOver = false
  let answered = 0
  let rejected = 0
  const body = JSON.stringify({ email: 'unknown@example.test', password: 'correct horse' })
  const callers = Array.from({ length: flooders }, async () => {
    while (!isOver) {
      const reply = await fetch(`${platform.url}/v1/auth/${rows.projectId}/sign-in`, {
        method: 'POST',
        headers: { ...rows.anon, 'content-type': 'application/json' },
        body,
      })
      await reply.text()
      if (reply.status === 400) answered++
      else if (reply.status === 429) {
        rejected++
        await sleep(500)
      } else throw new Error(`a sign-in answered ${reply.status}`)
    }
  })
  const all = Promise.all(callers)
  all.catch(() => {})
  await sleep(500)
  const sample = await read()
  isOver = true
  await all
  return { ...sample, sign_ins: answered, rejected }
}
