// Random documents over random schemas, policies and claims: GraphQL shows exactly the rows that REST shows to the same
// caller. PLINTH_FUZZ_SEED and PLINTH_FUZZ_REQUESTS select others.
import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { signJwt } from '#src/kernel/crypto/jwt.ts'
import { createRandom } from './fuzz/random.ts'
import { pageText, randomPage } from './graphql-fuzz/document.ts'
import { pageAnswer } from './graphql-fuzz/reference.ts'
import { type FuzzRow, type FuzzSchema, fuzzUsers, randomSchema } from './graphql-fuzz/world.ts'
import { startPlatform, type TestPlatform } from './harness.ts'

const seed = process.env['PLINTH_FUZZ_SEED'] ?? 'plinth'
const requests = Number(process.env['PLINTH_FUZZ_REQUESTS'] ?? 1000)
const schemas = 5

let platform: TestPlatform
before(async () => {
  const settings = {
    PLATFORM_RATE_LIMIT_ANON: '0',
    PLATFORM_RATE_LIMIT_AUTHENTICATED: '0',
    PLATFORM_RATE_LIMIT_SERVICE_ROLE: '0',
    PLATFORM_STATEMENT_TIMEOUT_ANON_MS: '60000',
    PLATFORM_STATEMENT_TIMEOUT_MS: '60000',
  }
  platform = await startPlatform({ settings })
})
after(() => platform?.stop())

interface Caller {
  readonly isAnon: boolean
  readonly headers: Record<string, string>
}

for (let place = 0; place < schemas; place++)
  test(`graphql fuzz: schema ${place} of seed ${seed}`, async () => {
    const random = createRandom(`${seed} ${place}`)
    const project = await platform.createProject()
    const schema = randomSchema(random)
    const call = (method: string, path: string, { headers }: Caller, body?: unknown) =>
      platform.call(method, path, { headers, body })
    const service: Caller = { isAnon: false, headers: { apikey: project.service_role_key } }
    const made = await call('POST', `/v1/rest/${project.id}/rpc/exec_sql`, service, { sql: schema.sql })
    assert.equal(made.status, 200, JSON.stringify(made.body))
    const callers: Caller[] = [
      service,
      { isAnon: true, headers: { apikey: project.anon_key } },
      ...fuzzUsers.map(sub => ({
        isAnon: false,
        headers: {
          apikey: project.anon_key,
          authorization: `Bearer ${signJwt({ role: 'authenticated', sub }, project.jwt_secret)}`,
        },
      })),
    ]
    const visible = new Map<Caller, Map<string, FuzzRow[]>>()
    for (const caller of callers)
      visible.set(
        caller,
        await visibleRows(schema, caller, path => call('GET', `/v1/rest/${project.id}/${path}`, caller)),
      )
    for (let count = 0; count < requests / schemas; count++) {
      const caller = random.pick(callers)
      const rows = visible.get(caller)!
      const table = random.pick(schema.tables).name
      const page = randomPage({ schema, isAnon: caller.isAnon, rows, random }, table, 2)
      const variables = new Map<string, [string, unknown]>()
      const field = pageText(page, `${table}Collection`, variables)
      const declared = [...variables].map(([name, [type]]) => `$${name}: ${type}`).join(', ')
      const query = `query${declared && `(${declared})`} { ${field} }`
      const values = Object.fromEntries([...variables].map(([name, [, value]]) => [name, value]))
      const reply = await call('POST', `/v1/graphql/${project.id}`, caller, { query, variables: values })
      const shown = `request ${count}: ${query} ${JSON.stringify(values)}`
      assert.equal(reply.body.errors, undefined, `${shown}\n${JSON.stringify(reply.body)}`)
      assert.deepEqual(
        reply.body.data[`${table}Collection`],
        pageAnswer(rows, page, () => true),
        shown,
      )
      await assertBrokenIsHarmless(query, values)
    }

    /** A document with a piece taken out or repeated has an answer, or messages. */
    async function assertBrokenIsHarmless(query: string, variables: object): Promise<void> {
      if (!random.chance(0.3)) return
      const from = random.int(0, query.length - 1)
      const to = Math.min(query.length, from + random.int(1, 12))
      const piece = random.chance(0.5) ? '' : query.slice(from, to).repeat(2)
      const broken = query.slice(0, from) + piece + query.slice(to)
      const caller = random.pick(callers)
      const { status, body } = await call('POST', `/v1/graphql/${project.id}`, caller, {
        query: broken,
        variables,
      })
      assert.equal(status, 200, broken)
      if (body.errors) assert.ok(body.errors.every((each: { message: string }) => each.message.length > 0))
      else assert.notEqual(body.data, null)
    }
  })

async function visibleRows(
  { tables }: FuzzSchema,
  { isAnon }: Caller,
  read: (path: string) => Promise<{ status: number; body: FuzzRow[] }>,
): Promise<Map<string, FuzzRow[]>> {
  const rows = new Map<string, FuzzRow[]>()
  for (const { name, columns, hidden } of tables) {
    const select = columns
      .filter(each => !isAnon || !hidden.includes(each.name))
      .map(each => (each.type === 'bigint' || each.type === 'numeric' ? `${each.name}::text` : each.name))
    const { status, body } = await read(`${name}?select=${select.join()}`)
    assert.equal(status, 200, JSON.stringify(body))
    rows.set(name, body)
  }
  return rows
}
