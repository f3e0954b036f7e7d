// Statements of callers over HTTP, with a data-plane route of this test.
import assert from 'node:assert/strict'
import { Agent, type ClientRequest, request } from 'node:http'
import { after, before, it } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import type { CreatedProject } from '@plinth/contract/projects.ts'
import type { Routes } from '@plinth/contract/route.ts'
import { Id } from '@plinth/contract/shapes.ts'
import { Type } from '@plinth/contract/type.ts'
import type { App } from '#src/app.ts'
import type { Handlers } from '#src/kernel/http/plane.ts'
import { sql } from '#src/kernel/postgres/sql.ts'
import { type Caller, statement } from '#src/tenancy/databases.ts'
import { eventually } from './eventually.ts'
import { startPlatform, type TestPlatform } from './harness.ts'

const probeApi = {
  run: {
    plane: 'data',
    method: 'POST',
    path: '/probe/{project}',
    allow: ['anon', 'authenticated', 'service_role'],
    summary: 'Run one statement as the caller',
    params: Type.Object({ project: Id }),
    body: Type.Object({ sql: Type.String() }),
    reply: Type.Array(Type.Array(Type.Union([Type.String(), Type.Null()]))),
  },
} as const satisfies Routes

const probeRoutes = ({ databases }: App): Handlers<typeof probeApi, Caller> => ({
  async run({ body }, caller, { method, path, headers, signal }) {
    const facts = { method, path, headers: JSON.stringify(headers), signal }
    const { rows } = await databases.asCaller(caller, facts, statement(body.sql, false), [])
    return rows.map(row => row.map(cell => cell?.toString() ?? null))
  },
})

let platform: TestPlatform
let project: CreatedProject
let ref: string

before(async () => {
  platform = await startPlatform({
    settings: {
      PLATFORM_POOL_SIZE: '1',
      // A statement that is not cancelled outlasts the limit of the test.
      PLATFORM_STATEMENT_TIMEOUT_MS: '600000',
      PLATFORM_RATE_LIMIT_ANON: '0',
      PLATFORM_RATE_LIMIT_SERVICE_ROLE: '0',
    },
    mount: app => app.http.mount('test', app.planes.data, probeApi, probeRoutes(app)),
  })
  project = await platform.createProject()
  ref = await platform.refOf(project.id)
})
after(() => platform?.stop())

const probe = (text: string, to = project) =>
  platform.call('POST', `/v1/probe/${to.id}`, { apikey: to.service_role_key, body: { sql: text } })

/** A request whose client can disconnect, or reuse its connection. */
function open(text: string, agent?: Agent): ClientRequest {
  const sent = request(`${platform.url}/v1/probe/${project.id}`, {
    method: 'POST',
    ...(agent && { agent }),
    headers: { apikey: project.service_role_key, 'content-type': 'application/json' },
  })
  sent.on('error', () => {})
  sent.end(JSON.stringify({ sql: text }))
  return sent
}

const running = (text: string) =>
  platform.asSuperuser('postgres', session =>
    session.rows(
      sql`select from pg_stat_activity where datname = ${ref} and state = 'active' and query = ${text}`,
    ),
  )

it('data plane: a statement runs as the role of the key and can read the request', async () => {
  const who = `select current_user, current_setting('request.path'), current_setting('request.headers')::json ->> 'apikey' is not null`
  const asAnon = await platform.call('POST', `/v1/${project.id}/probe/v1`, {
    apikey: project.anon_key,
    body: { sql: who },
  })
  assert.deepEqual(asAnon.body, [['anon', `/v1/${project.id}/probe/v1`, 't']])
  assert.deepEqual((await probe(who)).body, [['service_role', `/v1/probe/${project.id}`, 't']])
})

it('data plane: the key of another project is 401', async () => {
  const other = await platform.createProject()
  const { status, body } = await platform.call('POST', `/v1/probe/${project.id}`, {
    apikey: other.service_role_key,
    body: { sql: 'select 1' },
  })
  const unknown = await platform.call('POST', `/v1/probe/${project.id}`, {
    apikey: 'platform_service_role_nobody_0000',
    body: { sql: 'select 1' },
  })
  assert.deepEqual([status, body], [401, unknown.body])
})

it('data plane: the statement of a disconnected client is cancelled, and the connection is reused', async () => {
  const slow = 'select pg_sleep(600)'
  for (let round = 0; round < 3; round++) {
    const sent = open(slow)
    await eventually(async () => (await running(slow)).length === 1, 'the statement runs')
    sent.destroy()
    await eventually(async () => (await running(slow)).length === 0, 'the statement is cancelled')
    assert.deepEqual((await probe('select 1')).body, [['1']])
  }
})

it('data plane: the queued statement of a disconnected client does not run', async () => {
  await platform.app.databases.asOwner({ ref }, session => session.script('create table lines (a int)'))
  const slow = 'select pg_sleep(1.8)'
  const first = probe(slow)
  await eventually(async () => (await running(slow)).length === 1, 'the statement runs')
  const second = open('insert into lines values (1)')
  await sleep(150)
  second.destroy()
  await first
  assert.deepEqual((await probe('select count(*) from lines')).body, [['0']])
})

it('data plane: without a free connection a request gets 429 with Retry-After and a message', async () => {
  const other = await platform.createProject()
  const slow = Array.from({ length: 14 }, () => probe('select pg_sleep(1)'))
  const elsewhere = await probe('select 1', other)
  assert.equal(elsewhere.status, 200)
  const refused = (await Promise.all(slow)).filter(({ status }) => status !== 200)
  assert.ok(refused.length >= 3, 'one request runs, and ten wait up to two seconds')
  for (const { status, headers, body } of refused) {
    assert.equal(status, 429)
    assert.equal(headers.get('retry-after'), '1')
    assert.equal(headers.get('access-control-allow-origin'), '*')
    const message = 'All database connections of this project are busy; try again in a second'
    assert.deepEqual(body, {
      code: 'pool_exhausted',
      message,
      error: message,
      statusCode: 429,
      details: '',
      hint: '',
    })
  }
  assert.equal((await probe('select 1')).status, 200)
})

it('data plane: a terminated session is 503 with Retry-After', async () => {
  const slow = 'select pg_sleep(4)'
  const reply = probe(slow)
  await eventually(async () => (await running(slow)).length === 1, 'the statement runs')
  await platform.asSuperuser('postgres', session =>
    session.run(sql`select pg_terminate_backend(pid) from pg_stat_activity where datname = ${ref}`),
  )
  const { status, headers, body } = await reply
  assert.deepEqual([status, headers.get('retry-after'), body.code], [503, '1', 'database_unavailable'])
  assert.equal((await probe('select 1')).status, 200)
})

it('data plane: requests on one socket do not accumulate event listeners', async () => {
  const warned: string[] = []
  const listen = (warning: Error) => void warned.push(warning.name)
  process.on('warning', listen)
  const agent = new Agent({ keepAlive: true, maxSockets: 1 })
  for (let run = 0; run < 20; run++)
    await new Promise<void>(resolve =>
      open('select 1', agent).on('response', response => response.resume().on('end', resolve)),
    )
  agent.destroy()
  await sleep(20)
  process.off('warning', listen)
  assert.deepEqual(warned, [])
})
