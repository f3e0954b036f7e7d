// A thousand random documents over random schemas, policies and claims, and a broken copy of each. Valid ones show exactly
// the rows that plain SQL and REST show to the same caller, broken ones run at most one statement. `bench/graphql-fuzz.ts`
// sends more. PLINTH_FUZZ_SEED and PLINTH_FUZZ_REQUESTS select others.
import assert from 'node:assert/strict'
import { after, before, describe, it } from 'node:test'
import { createRandom } from './fuzz/random.ts'
import { openTap, type Tap } from './fuzz/tap.ts'
import type { PageQuery } from './graphql-fuzz/document.ts'
import { createFuzzProject, type Place, send } from './graphql-fuzz/project.ts'
import { answerProblem, emptyReport, printed, runSchema, validProblem } from './graphql-fuzz/run.ts'
import { countStatements, markHeader } from './graphql-fuzz/statement-count.ts'
import { startPlatform, type TestPlatform, testServer } from './harness.ts'

const seed = process.env['PLINTH_FUZZ_SEED'] ?? 'plinth'
const documents = Number(process.env['PLINTH_FUZZ_REQUESTS'] ?? 1000)
const schemas = 5

const count = countStatements()
let tap: Tap
let platform: TestPlatform
let place: Place
before(async () => {
  tap = await openTap(testServer(), count)
  platform = await startPlatform({
    address: tap.address,
    settings: { PLATFORM_STATEMENT_TIMEOUT_ANON_MS: '60000', PLATFORM_STATEMENT_TIMEOUT_MS: '60000' },
  })
  const { url, adminToken, control } = platform
  place = { url, adminToken, control, postgres: testServer() }
})
after(async () => {
  await platform?.stop()
  await tap?.close()
})

describe('graphql fuzz: a thousand documents, and a broken copy of each', () => {
  for (let schema = 0; schema < schemas; schema++)
    it(`schema ${schema} of seed ${seed}`, async () => {
      const report = emptyReport()
      await runSchema({ place, count, seed, schema, documents: documents / schemas }, report)
      const { failures, ...counts } = report
      console.log(JSON.stringify(counts))
      assert.equal(failures.map(printed).join('\n\n'), '')
      assert.equal(report.broken, documents / schemas)
      assert.ok(
        (report.brokenStatements[0] ?? 0) > report.broken / 2,
        'most broken documents run no statement',
      )
    })
})

describe('graphql fuzz: the checks', () => {
  const aPage: PageQuery = {
    table: 'apples',
    order: [],
    hasTypename: false,
    hasEdges: true,
    hasTotal: true,
    info: [],
    hasCursors: false,
    node: { table: 'apples', columns: ['id'], ones: [], manies: [] },
  }

  it('count the statements of a transaction', async () => {
    const project = await createFuzzProject(place, 'counted', createRandom(seed))
    const statementsOf = async (query: string, mark: string) => {
      const headers = { ...project.callers[0]!.headers, [markHeader]: mark }
      const reply = await send(place.url, `/v1/graphql/${project.id}`, headers, { query })
      assert.equal(reply.status, 200)
      return count.take(mark)
    }
    const deletion = 'deleteFromapplesCollection(filter: {id: {eq: -1}}) { affectedCount }'
    assert.equal(await statementsOf('{ nowhere }', 'none'), 0)
    assert.equal(await statementsOf('{ applesCollection { totalCount } }', 'one'), 1)
    assert.equal(await statementsOf(`mutation { a: ${deletion} b: ${deletion} }`, 'two'), 2)
  })

  it('count a statement that is repeated on its own connection once', () => {
    const session = count.onSession!('login')
    const values = Buffer.from(`"${markHeader}":"repeated"`)
    const run = (text: string, isNamed: boolean) => {
      session.onRun('settings', isNamed, values)
      session.onRun(text, isNamed, Buffer.alloc(0))
      session.onSync()
    }
    run('select 1', true)
    run('select 1', false)
    assert.equal(count.take('repeated'), 1)
    run('select 1', true)
    run('select 2', false)
    assert.equal(count.take('repeated'), 2)
    run('select 1', true)
    run('select 1', true)
    assert.deepEqual(count.left(), ['repeated'])
    assert.equal(count.take('repeated'), 2)
  })

  it('compare an answer with plain SQL and with REST', () => {
    const rows = (...ids: number[]) => ({ edges: ids.map(id => ({ node: { id } })), totalCount: ids.length })
    const problem = (given: object, ofSql: object, ofRest: number[]) =>
      validProblem(
        aPage,
        { status: 200, text: JSON.stringify({ data: { applesCollection: given } }) },
        JSON.stringify(ofSql),
        new Map([['apples', ofRest.map(id => ({ id }))]]),
      )?.[0]
    assert.equal(problem(rows(1, 2), rows(1, 2), [1, 2]), undefined)
    assert.equal(problem(rows(1, 2), rows(2, 1), [1, 2]), 'sql')
    assert.equal(problem(rows(1, 2), rows(1), [1, 2]), 'sql')
    assert.equal(problem(rows(1, 2), rows(1, 2), [1]), 'rest')
  })

  it('reject a 5xx, an empty answer and an error without a message', () => {
    const problem = (status: number, body: object) => answerProblem({ status, text: JSON.stringify(body) })
    assert.match(problem(500, { error: {} })!, /status 500/)
    assert.match(problem(200, { data: null })!, /neither data nor errors/)
    assert.match(problem(200, { data: null, errors: [{}] })!, /without a message/)
    assert.equal(problem(200, { data: null, errors: [{ message: 'wrong' }] }), undefined)
  })
})
