// A thousand generated requests, some of them malformed, against a real platform. `bench/rows-fuzz.ts` sends more.
// PLINTH_FUZZ_SEED and PLINTH_FUZZ_REQUESTS select other requests.
import assert from 'node:assert/strict'
import { after, before, describe, it } from 'node:test'
import type { Property } from './fuzz/case-check.ts'
import { differenceFromSql, problemWith } from './fuzz/checks.ts'
import { printed, type Report, runFuzz } from './fuzz/run.ts'
import { tableNamed } from './fuzz/schema.ts'
import {
  type StatementWatch,
  problemWith as statementProblem,
  watchStatements,
} from './fuzz/statement-watch.ts'
import { openTap, type Tap } from './fuzz/tap.ts'
import { buildWorld, checksum, type Place, type World } from './fuzz/world.ts'
import { startPlatform, type TestPlatform, testServer } from './harness.ts'

const seed = process.env['PLINTH_FUZZ_SEED'] ?? 'plinth'
const requests = Number(process.env['PLINTH_FUZZ_REQUESTS'] ?? 1000)
const onlyRead: readonly Place[] = ['left', 'for-anon', 'for-user1']

let tap: Tap
let platform: TestPlatform
let world: World
let watch: StatementWatch
let report: Report
let sums: { before: string[]; after: string[] }

before(async () => {
  console.log(`seed ${seed}, ${requests} requests`)
  watch = watchStatements()
  tap = await openTap(testServer(), watch)
  platform = await startPlatform({ address: tap.address })
  const { url, adminToken, control } = platform
  world = await buildWorld({ url, adminToken, control, postgres: testServer(), seed })
  const sum = () => Promise.all(onlyRead.map(place => checksum(world, place)))
  const atFirst = await sum()
  report = await runFuzz({ world, watch, seed, requests })
  sums = { before: atFirst, after: await sum() }
  const { failures, tolerated, ...counts } = report
  console.log(JSON.stringify({ ...counts, failures: failures.length, tolerated: tolerated.length }))
})

after(async () => {
  await platform?.stop()
  await tap?.close()
})

const failuresOf = (property: Property) =>
  report.failures
    .filter(failure => failure.property === property)
    .map(printed)
    .join('\n\n')

describe('rows fuzz: a thousand valid and malformed requests', () => {
  it('never cause a 5xx of the platform, and every error has a code and a message', () => {
    assert.equal(failuresOf('answer'), '')
    assert.equal(report.requests, requests)
  })

  it('return the same rows and counts as plain SQL for the same caller', () => {
    assert.equal(failuresOf('sql'), '')
    assert.ok(report.comparedWithRows > requests / 5, `${report.comparedWithRows} had rows`)
  })

  it('get byte-identical answers when only hidden rows differ', () => {
    assert.equal(failuresOf('copy'), '')
    assert.ok(report.copiesWithRows > requests / 12, `${report.copiesWithRows} had rows`)
  })

  it('reach Postgres with values as parameters and quoted names', () => {
    assert.equal(failuresOf('statement'), '')
    assert.ok(watch.statements() > requests / 4 && watch.markedValues() > requests / 4)
    assert.ok(watch.markedNames() > requests / 20, `${watch.markedNames()} statements with names`)
  })

  it('do not change projects that are only read', () => {
    assert.deepEqual(sums.after, sums.before)
  })

  it('do not stop the platform', async () => {
    assert.equal((await platform.call('GET', '/health')).status, 200)
  })
})

describe('rows fuzz: the checks', () => {
  it('detect a value inside a statement', async () => {
    const { id, credentials } = world.projects.scratch
    const body = { sql: `select 'zq123456qz'` }
    const reply = await platform.call('POST', `/v1/rest/${id}/rpc/exec_sql`, {
      body,
      headers: credentials.service,
    })
    assert.equal(reply.status, 200)
    assert.deepEqual(
      watch.problems.splice(0).map(({ problem, mark }) => [problem, mark]),
      [['a value is part of a statement', 'zq123456qz']],
    )
  })

  it('detect an unquoted name and one that is escaped incorrectly', () => {
    const name = 'nmabcdefmn'
    assert.equal(statementProblem(`select "a""${name}", 'it''s ${name}' from "t" -- done`), undefined)
    assert.match(statementProblem(`select ${name} from "t"`)!.problem, /outside quotes/)
    assert.match(statementProblem(`select "a"${name}" from "t"`)!.problem, /never closed/)
    assert.match(statementProblem(`select '\\'${name}' from "t"`)!.problem, /never closed/)
    assert.match(statementProblem(`select "${name}"; drop table "t"`)!.problem, /several statements/)
  })

  it('detect wrong rows, a wrong order and a wrong count', () => {
    const table = tableNamed('labels')
    const order = [{ field: { column: table.columns[0]!, path: [] } }]
    const query = { table, select: [], where: [], order, limit: 2 }
    const read = { who: 'anon', method: 'GET', query, count: 'exact', shape: 'array' } as const
    const answer = (text: string, range = '0-1/9') => ({
      status: 200,
      headers: { 'content-range': range },
      text,
    })
    const problem = (given: ReturnType<typeof answer>) =>
      differenceFromSql(read, given, { body: '[{"id":1},{"id":90071992547409931}]', total: 9 })
    assert.equal(problem(answer('[{"id":1},{"id":90071992547409931}]')), undefined)
    assert.match(problem(answer('[{"id":90071992547409931},{"id":1}]'))!, /the rows are others/)
    assert.match(problem(answer('[{"id":1},{"id":90071992547409932}]'))!, /the rows are others/)
    assert.match(problem(answer('[{"id":1},{"id":90071992547409931}]', '0-1/10'))!, /Content-Range/)
    assert.match(problem({ ...answer('{}'), status: 400 })!, /is refused/)
  })

  it('detect a marker of another caller in an answer', () => {
    const wire = { who: 'user1', method: 'GET', path: 'people', params: [], headers: {} } as const
    const answer = (canary: string) => ({ status: 200, headers: {}, text: `["CANARY-${canary}-aa00bb"]` })
    assert.equal(problemWith(wire, answer('u1')), undefined)
    assert.match(problemWith(wire, answer('u2'))!, /shows user1 what it may not see: CANARY-u2/)
  })
})
