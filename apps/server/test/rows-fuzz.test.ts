// A thousand requests from the grammar, a part of them broken, against a real platform; `bench/rows-fuzz.ts` sends more.
// PLINTH_FUZZ_SEED and PLINTH_FUZZ_REQUESTS choose others.
import assert from 'node:assert/strict'
import { after, before, describe, it } from 'node:test'
import { complaintAbout, complaintAboutTruth } from './fuzz/checks.ts'
import type { Property } from './fuzz/judge.ts'
import { printed, type Report, runFuzz } from './fuzz/run.ts'
import { tableNamed } from './fuzz/schema.ts'
import {
  type StatementWatch,
  complaintAbout as statementComplaint,
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

describe('a thousand requests, whole and broken', () => {
  it('are never answered with a 5xx of ours, nor with an error that has no code and message', () => {
    assert.equal(failuresOf('answer'), '')
    assert.equal(report.requests, requests)
  })

  it('get the rows and counts that plain SQL gives the same caller', () => {
    assert.equal(failuresOf('truth'), '')
    assert.ok(report.comparedWithRows > requests / 5, `${report.comparedWithRows} had rows`)
  })

  it('are answered alike, to the byte, whatever is hidden from the caller', () => {
    assert.equal(failuresOf('twins'), '')
    assert.ok(report.twinsWithRows > requests / 12, `${report.twinsWithRows} had rows`)
  })

  it('reach Postgres with their values as parameters and their names in quotes', () => {
    assert.equal(failuresOf('statement'), '')
    assert.ok(watch.statements() > requests / 4 && watch.markedValues() > requests / 4)
    assert.ok(watch.markedNames() > requests / 20, `${watch.markedNames()} statements with names`)
  })

  it('change nothing where they only read', () => {
    assert.deepEqual(sums.after, sums.before)
  })

  it('leave the platform alive', async () => {
    assert.equal((await platform.call('GET', '/health')).status, 200)
  })
})

describe('what watches over them', () => {
  it('sees a value that is part of a statement', async () => {
    const { id, credentials } = world.projects.scratch
    const body = { sql: `select 'zq123456qz'` }
    const reply = await platform.call('POST', `/v1/rest/${id}/rpc/exec_sql`, {
      body,
      headers: credentials.service,
    })
    assert.equal(reply.status, 200)
    assert.deepEqual(
      watch.complaints.splice(0).map(({ complaint, mark }) => [complaint, mark]),
      [['a value is part of a statement', 'zq123456qz']],
    )
  })

  it('sees a name outside quotes, and one that has broken out of them', () => {
    const name = 'nmabcdefmn'
    assert.equal(statementComplaint(`select "a""${name}", 'it''s ${name}' from "t" -- done`), undefined)
    assert.match(statementComplaint(`select ${name} from "t"`)!.complaint, /outside quotes/)
    assert.match(statementComplaint(`select "a"${name}" from "t"`)!.complaint, /never closed/)
    assert.match(statementComplaint(`select '\\'${name}' from "t"`)!.complaint, /never closed/)
    assert.match(statementComplaint(`select "${name}"; drop table "t"`)!.complaint, /several statements/)
  })

  it('sees rows that plain SQL would not give, and a page or a count that is off', () => {
    const table = tableNamed('labels')
    const order = [{ field: { column: table.columns[0]!, path: [] } }]
    const query = { table, select: [], where: [], order, limit: 2 }
    const read = { who: 'anon', method: 'GET', query, count: 'exact', shape: 'array' } as const
    const answer = (text: string, range = '0-1/9') => ({
      status: 200,
      headers: { 'content-range': range },
      text,
    })
    const complaint = (given: ReturnType<typeof answer>) =>
      complaintAboutTruth(read, given, { body: '[{"id":1},{"id":90071992547409931}]', total: 9 })
    assert.equal(complaint(answer('[{"id":1},{"id":90071992547409931}]')), undefined)
    assert.match(complaint(answer('[{"id":90071992547409931},{"id":1}]'))!, /the rows are others/)
    assert.match(complaint(answer('[{"id":1},{"id":90071992547409932}]'))!, /the rows are others/)
    assert.match(complaint(answer('[{"id":1},{"id":90071992547409931}]', '0-1/10'))!, /Content-Range/)
    assert.match(complaint({ ...answer('{}'), status: 400 })!, /is refused/)
  })

  it('sees a canary in an answer to somebody it is not for', () => {
    const wire = { who: 'user1', method: 'GET', path: 'people', params: [], headers: {} } as const
    const answer = (canary: string) => ({ status: 200, headers: {}, text: `["CANARY-${canary}-aa00bb"]` })
    assert.equal(complaintAbout(wire, answer('u1')), undefined)
    assert.match(complaintAbout(wire, answer('u2'))!, /shows user1 what it may not see: CANARY-u2/)
  })
})
