// A statement of a caller, from socket to session and back: a route of the test's own on the data plane.
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
      PLATFORM_RATE_LIMIT_ANON: '0',
      PLATFORM_RATE_LIMIT_SERVICE_ROLE: '0',
    },
    mount: app => app.http.mount(app.planes.data, probeApi, probeRoutes(app)),
  })
  project = await platform.createProject()
  ref = await platform.refOf(project.id)
})
after(() => platform?.stop())

const probe = (text: string, to = project) =>
  platform.call('POST', `/v1/probe/${to.id}`, { apikey: to.service_role_key, body: { sql: text } })

/** A request whose client may hang up, or keep its connection for the next one. */
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

async function eventually(holds: () => boolean | Promise<boolean>, what: string, withinMs: number) {
  for (const end = Date.now() + withinMs; !(await holds()); await sleep(10))
    assert.ok(Date.now() < end, `${what} within ${withinMs} ms`)
}

it('answers as the role of the key, and knows the request', async () => {
  const who = `select current_user, current_setting('request.path'), current_setting('request.headers')::json ->> 'apikey' is not null`
  const asAnon = await platform.call('POST', `/v1/${project.id}/probe/v1`, {
    apikey: project.anon_key,
    body: { sql: who },
  })
  assert.deepEqual(asAnon.body, [['anon', `/v1/${project.id}/probe/v1`, 't']])
  assert.deepEqual((await probe(who)).body, [['service_role', `/v1/probe/${project.id}`, 't']])
})

it('is not open to the key of another project', async () => {
  const stranger = await platform.createProject()
  const { status, body } = await platform.call('POST', `/v1/probe/${project.id}`, {
    apikey: stranger.service_role_key,
    body: { sql: 'select 1' },
  })
  const unknown = await platform.call('POST', `/v1/probe/${project.id}`, {
    apikey: 'platform_service_role_nobody_0000',
    body: { sql: 'select 1' },
  })
  assert.deepEqual([status, body], [401, unknown.body])
})

it('stops the statement of a client that hangs up, and serves the next on its connection', async () => {
  const slow = 'select pg_sleep(7)'
  for (let round = 0; round < 3; round++) {
    const sent = open(slow)
    await eventually(async () => (await running(slow)).length === 1, 'it runs', 20_000)
    sent.destroy()
    await eventually(async () => (await running(slow)).length === 0, 'it is stopped', 4000)
    assert.deepEqual((await probe('select 1')).body, [['1']])
  }
})

it('takes the statement of a client that hangs up out of the line', async () => {
  await platform.app.databases.asOwner({ ref }, session => session.script('create table lines (a int)'))
  const slow = 'select pg_sleep(1.8)'
  const first = probe(slow)
  await eventually(async () => (await running(slow)).length === 1, 'it runs', 20_000)
  const second = open('insert into lines values (1)')
  await sleep(150)
  second.destroy()
  await first
  assert.deepEqual((await probe('select count(*) from lines')).body, [['0']])
})

it('tells a project that has no connection left 429, when to come back, and why', async () => {
  const other = await platform.createProject()
  const slow = Array.from({ length: 14 }, () => probe('select pg_sleep(1)'))
  const elsewhere = await probe('select 1', other)
  assert.equal(elsewhere.status, 200)
  const refused = (await Promise.all(slow)).filter(({ status }) => status !== 200)
  assert.ok(refused.length >= 3, 'one runs, ten wait at most two seconds')
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

it('tells a caller whose session the server ended 503 and when to try again', async () => {
  const slow = 'select pg_sleep(4)'
  const reply = probe(slow)
  await eventually(async () => (await running(slow)).length === 1, 'it runs', 20_000)
  await platform.asSuperuser('postgres', session =>
    session.run(sql`select pg_terminate_backend(pid) from pg_stat_activity where datname = ${ref}`),
  )
  const { status, headers, body } = await reply
  assert.deepEqual([status, headers.get('retry-after'), body.code], [503, '1', 'database_unavailable'])
  assert.equal((await probe('select 1')).status, 200)
})

it('keeps nothing of a request for the life of its socket', async () => {
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
