// A hundred thousand generated requests, valid and broken, against a platform started as in production, with the checks
// of apps/server/test/rows-fuzz.test.ts. For nightly runs.
// Options: --requests, --seed, --first (the number of the first request), --at-once, --max-failures.
import { parseArgs } from 'node:util'
import { printed, runFuzz } from '../apps/server/test/fuzz/run.ts'
import { watchStatements } from '../apps/server/test/fuzz/statement-watch.ts'
import { openTap } from '../apps/server/test/fuzz/tap.ts'
import { buildWorld, checksum, type Place } from '../apps/server/test/fuzz/world.ts'
import { residentMegabytes } from './measure.ts'
import { onStage, startMain } from './stage.ts'

const { values: given } = parseArgs({
  options: {
    requests: { type: 'string', default: '100000' },
    seed: { type: 'string', default: new Date().toISOString().slice(0, 10) },
    first: { type: 'string', default: '0' },
    'at-once': { type: 'string', default: '6' },
    'max-failures': { type: 'string', default: '25' },
  },
})
const { seed } = given
const requests = Number(given.requests)
const onlyRead: readonly Place[] = ['left', 'for-anon', 'for-user1']

await onStage(async stage => {
  const engine = await stage.engine()
  const watch = watchStatements()
  const tap = await openTap(engine.address, watch)
  const { host, port, user, password } = tap.address
  const url = `postgres://${user}:${password}@${encodeURIComponent(host)}:${port}/plinth`
  const platform = await startMain(stage, { ...engine.env, DATABASE_URL: url })
  const { adminToken, address: postgres } = engine
  const world = await buildWorld({ url: platform.url, adminToken, postgres, control: 'plinth', seed })
  const sums = () => Promise.all(onlyRead.map(place => checksum(world, place)))
  const before = await sums()
  const since = performance.now()
  const report = await runFuzz({
    world,
    watch,
    seed,
    requests,
    first: Number(given.first),
    atOnce: Number(given['at-once']),
    maxFailures: Number(given['max-failures']),
  })
  const isUnchanged = JSON.stringify(await sums()) === JSON.stringify(before)
  const isAlive = (await fetch(`${platform.url}/health`)).status === 200

  const { failures, tolerated, ...counts } = report
  for (const request of tolerated) console.error(`tolerated: ${request}\n`)
  for (const failure of failures) console.error(`${printed(failure)}\n`)
  const isClean = failures.length === 0 && isUnchanged && isAlive && report.requests === requests
  console.log(
    JSON.stringify({
      bench: 'rows-fuzz',
      seed,
      is_clean: isClean,
      failures: failures.length,
      is_unchanged_by_reads: isUnchanged,
      is_alive: isAlive,
      ...counts,
      different_statements: watch.statements(),
      seconds: Math.round((performance.now() - since) / 1000),
      rss_mb: Math.round(residentMegabytes(platform.pid)),
    }),
  )
  console.log(
    isClean
      ? `${report.requests} requests with seed ${seed} ran without failures.`
      : `${failures.length} failures in ${report.requests} requests with seed ${seed}.`,
  )
  if (!isClean) process.exitCode = 1
  await platform.stop()
  await tap.close()
})
