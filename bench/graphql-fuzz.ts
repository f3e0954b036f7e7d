// A hundred thousand random documents, and a broken copy of each, against a platform started as in production, with the
// checks of apps/server/test/graphql-fuzz.test.ts. For nightly runs.
// Options: --documents, --seed, --first-schema (the number of the first schema), --at-once, --max-failures.
import { parseArgs } from 'node:util'
import { openTap } from '../apps/server/test/fuzz/tap.ts'
import { emptyReport, printed, runSchema } from '../apps/server/test/graphql-fuzz/run.ts'
import { countStatements } from '../apps/server/test/graphql-fuzz/statement-count.ts'
import { residentMegabytes } from './measure.ts'
import { onStage, startMain } from './stage.ts'

const { values: given } = parseArgs({
  options: {
    documents: { type: 'string', default: '100000' },
    seed: { type: 'string', default: new Date().toISOString().slice(0, 10) },
    'first-schema': { type: 'string', default: '0' },
    'at-once': { type: 'string', default: '6' },
    'max-failures': { type: 'string', default: '25' },
  },
})
const { seed } = given
const documents = Number(given.documents)
const maxFailures = Number(given['max-failures'])
/** Each schema has its own project. */
const documentsPerSchema = 1000

await onStage(async stage => {
  const engine = await stage.engine()
  const count = countStatements()
  const tap = await openTap(engine.address, count)
  const { host, port, user, password } = tap.address
  const url = `postgres://${user}:${password}@${encodeURIComponent(host)}:${port}/plinth`
  const platform = await startMain(stage, { ...engine.env, DATABASE_URL: url })
  const place = {
    url: platform.url,
    adminToken: engine.adminToken,
    postgres: engine.address,
    control: 'plinth',
  }
  const since = performance.now()
  const report = emptyReport()
  let schema = Number(given['first-schema'])
  for (let left = documents; left > 0 && report.failures.length < maxFailures; left -= documentsPerSchema) {
    const options = {
      documents: Math.min(left, documentsPerSchema),
      atOnce: Number(given['at-once']),
      maxFailures,
    }
    await runSchema({ place, count, seed, schema: schema++, ...options }, report)
  }
  const isAlive = (await fetch(`${platform.url}/health`)).status === 200

  const { failures, valid, validWithRows, brokenAnswered, brokenStatements, statuses } = report
  for (const failure of failures) console.error(`${printed(failure)}\n`)
  const isClean = failures.length === 0 && isAlive && valid === documents && report.broken === documents
  console.log(
    JSON.stringify({
      bench: 'graphql-fuzz',
      seed,
      is_clean: isClean,
      failures: failures.length,
      is_alive: isAlive,
      valid,
      valid_with_rows: validWithRows,
      broken: report.broken,
      broken_still_valid: brokenAnswered,
      broken_by_statements: brokenStatements,
      statuses,
      schemas: schema - Number(given['first-schema']),
      seconds: Math.round((performance.now() - since) / 1000),
      rss_mb: Math.round(residentMegabytes(platform.pid)),
    }),
  )
  console.log(
    isClean
      ? `${valid} documents and a broken copy of each ran without failures, with seed ${seed}.`
      : `${failures.length} failures in ${valid} documents and their broken copies, with seed ${seed}.`,
  )
  if (!isClean) process.exitCode = 1
  await platform.stop()
  await tap.close()
})
