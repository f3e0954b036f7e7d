// What is secret stays where it belongs: not in logs, audit entries, errors or the log of Postgres. And every
// answer can be found again in the log by its request id.
import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import { connect } from 'node:net'
import { dirname, join } from 'node:path'
import { after, before, test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import type { Routes } from '@plinth/contract/route.ts'
import { Type } from '@plinth/contract/type.ts'
import { signJwt } from '#src/kernel/crypto/jwt.ts'
import { keyring } from '#src/kernel/crypto/keys.ts'
import { raw } from '#src/kernel/postgres/sql.ts'
import { statement } from '#src/tenancy/databases.ts'
import { createLogins } from '#src/tenancy/logins.ts'
import { type CallOptions, startPlatform, type TestPlatform } from './harness.ts'

/** Runs SQL of the caller's own, which no route of the platform does yet. */
const sqlApi = {
  run: {
    plane: 'data',
    method: 'POST',
    path: '/sql/{project}/run',
    allow: ['service_role'],
    summary: 'Run a statement',
    body: Type.Object({ sql: Type.String(), as_owner: Type.Optional(Type.Boolean()) }),
    reply: Type.Object({ ok: Type.Boolean() }),
  },
} as const satisfies Routes

let platform: TestPlatform
const secrets = new Map<string, string>()

/** A secret nobody else has. */
function secret(name: string, prefix = ''): string {
  const value = prefix + randomBytes(18).toString('hex')
  secrets.set(name, value)
  return value
}
function keep(name: string, value: string): string {
  secrets.set(name, value)
  return value
}

interface Answer {
  what: string
  id: string | null
  status: number
  headers: Headers
  text: string
  body: any
}
const answers: Answer[] = []

async function ask(
  method: string,
  path: string,
  options: CallOptions & { raw?: string } = {},
): Promise<Answer> {
  const { token, apikey, body, headers } = options
  const sent = options.raw ?? (body === undefined ? undefined : JSON.stringify(body))
  const reply = await fetch(platform.url + path, {
    method,
    headers: {
      ...(sent !== undefined && { 'content-type': 'application/json' }),
      ...(token !== undefined && { authorization: `Bearer ${token}` }),
      ...(apikey !== undefined && { apikey }),
      ...headers,
    },
    ...(sent !== undefined && { body: sent }),
  })
  const text = await reply.text()
  const isJson = reply.headers.get('content-type')?.includes('json') && text !== ''
  const answer: Answer = {
    what: `${method} ${path.slice(0, 60)} ${reply.status}`,
    id: reply.headers.get('x-request-id'),
    status: reply.status,
    headers: reply.headers,
    text,
    body: isJson ? JSON.parse(text) : text,
  }
  answers.push(answer)
  return answer
}
const manage = (method: string, path: string, body?: unknown, token = platform.adminToken) =>
  ask(method, `/api/v1${path}`, { token, ...(body !== undefined && { body }) })

/** Bytes straight to the socket, for what no client would send. */
async function sendBytes(text: string): Promise<string> {
  const { hostname, port } = new URL(platform.url)
  const socket = connect(Number(port), hostname).setEncoding('utf8')
  let answer = ''
  socket.on('data', chunk => (answer += chunk))
  socket.on('error', () => {})
  socket.write(text)
  await once(socket, 'close')
  return answer
}

const entries = () => platform.logged.map(line => JSON.parse(line) as Record<string, any>)
const entriesOf = (id: string | null) => entries().filter(entry => entry['id'] === id)

/** The line of a request is written once its answer is sent, which the client may notice first. */
async function requestLine(id: string | null): Promise<Record<string, any>> {
  for (const end = Date.now() + 20_000; Date.now() < end; await sleep(5)) {
    const [found, ...more] = entriesOf(id).filter(({ msg }) => msg === 'request')
    assert.equal(more.length, 0, 'one line a request')
    if (found) return found
  }
  return assert.fail(`no line for request ${id}`)
}

async function asControl<T>(query: string): Promise<T[]> {
  return platform.asSuperuser(platform.control, session => session.rows<T>(raw(query)))
}

before(async () => {
  platform = await startPlatform({
    settings: { PLATFORM_LOG_LEVEL: 'debug' },
    mount: app =>
      app.http.mount(app.planes.data, sqlApi, {
        async run({ body }, caller, { method, path, headers, signal }) {
          const facts = { method, path, headers: JSON.stringify(headers), signal }
          if (body.as_owner) await app.databases.asOwner(caller.tenant, session => session.script(body.sql))
          else await app.databases.asCaller(caller, facts, statement(body.sql, false), [])
          return { ok: true }
        },
      }),
  })
  keep('admin token', platform.adminToken)
  keep('control plane secret', platform.controlPlaneSecret)
  keep('password of the superuser', platform.address.password)
})
after(() => platform.stop())

test('no secret is left in logs, errors, audit entries or the log of Postgres', async () => {
  await useManagementSecrets()
  const project = await useProjectSecrets()
  await useSecretsInSql(project)
  await useSecretsInTheWrongPlace(project.id)

  const [log, audit, tables] = [platform.logged.join(''), await auditTexts(), await storedTexts()]
  const postgresLog = readFileSync(join(dirname(platform.address.host), 'postgres.log'), 'utf8')
  assert.match(postgresLog, /ready to accept connections/)
  assert.ok(secrets.size > 25 && answers.length > 40)
  const hits: string[] = []
  for (const [name, value] of secrets) {
    const look = (where: string, text: string) => text.includes(value) && hits.push(`${name} in ${where}`)
    look('the log', log)
    look('the audit log', audit)
    look('the control database', tables)
    look('the log of Postgres', postgresLog)
    for (const { what, status, text, headers } of answers) {
      look(`the headers of ${what}`, JSON.stringify([...headers]))
      if (status >= 400) look(`the error of ${what}`, text)
    }
  }
  assert.deepEqual(hits, [])
})

async function useManagementSecrets(): Promise<void> {
  const email = 'keeper@example.com'
  const password = secret('password')
  const { body: user } = await manage('POST', '/admin/users', { email, password, role: 'super_admin' })
  await ask('POST', '/api/v1/platform/login', { body: { email, password: secret('wrong password') } })
  await ask('POST', '/api/v1/platform/login', { body: { email: secret('password as e-mail'), password } })
  const login = await ask('POST', '/api/v1/platform/login', { body: { email, password } })
  assert.equal(login.status, 200)
  const session = keep('session', login.body.token)
  await manage('PATCH', `/admin/users/${user.id}`, { password: secret('new password') }, session)
  await manage('POST', '/admin/users', {
    email,
    password: secret('password of a taken address'),
    role: 'viewer',
  })
  await manage('POST', '/admin/users', { email: 'x', password: secret('password beside a bad address') })
  await manage('GET', '/projects', undefined, session)

  const minted = await manage('POST', '/platform/tokens', { name: 'ci', scope: 'read' })
  const token = keep('platform token', minted.body.token)
  assert.equal((await manage('GET', '/projects', undefined, token)).status, 200)
  assert.equal((await manage('GET', '/admin/stats', undefined, token)).status, 403)
  const listed = await manage('GET', '/platform/tokens')
  assert.ok(!listed.text.includes(token))
  await manage('DELETE', `/platform/tokens/${minted.body.id}`)
  assert.equal((await manage('GET', '/projects', undefined, token)).status, 401)
  for (const kind of ['', 'platform_pat_', 'ey.']) {
    const bearer = secret(`unknown bearer ${kind}`, kind)
    assert.equal((await manage('GET', '/projects', undefined, bearer)).status, 401)
  }
}

async function useProjectSecrets(): Promise<{ id: string; apikey: string }> {
  const smtp = secret('smtp password')
  const created = await manage('POST', '/projects', {
    name: 'secretive',
    settings: { smtp: { host: 'mail', password: smtp }, oauth: [{ client_secret: secret('client secret') }] },
  })
  assert.equal(created.status, 201)
  const { id } = created.body
  for (const name of ['anon_key', 'service_role_key', 'jwt_secret']) keep(name, created.body[name])
  const { anon_key, jwt_secret } = created.body
  const jwt = keep('token of a user', signJwt({ role: 'authenticated', sub: 'u', jti: 'x' }, jwt_secret))
  assert.equal((await ask('GET', `/v1/whoami/${id}`, { apikey: anon_key, token: jwt })).status, 200)
  assert.equal((await ask('GET', `/v1/whoami/${id}`, { token: jwt })).status, 401)
  await ask('GET', `/v1/whoami/${id}`, { apikey: secret('unknown key', 'platform_anon_secretive_') })
  await ask('GET', `/v1/whoami/${id}`, { headers: { authorization: `Basic ${secret('basic credential')}` } })
  await ask('GET', `/v1/whoami/${id}`, { apikey: anon_key, headers: { cookie: secret('cookie') } })

  const revealed = await manage('GET', `/projects/${id}/keys/service-role`)
  assert.equal(revealed.body.service_role_key, created.body.service_role_key)
  const read = await manage('GET', `/projects/${id}`)
  for (const name of ['smtp password', 'client secret', 'service_role_key', 'jwt_secret'])
    assert.ok(!read.text.includes(secrets.get(name)!), `${name} is not shown`)
  await manage('PATCH', `/projects/${id}`, { settings: { smtp: { password: secret('new smtp password') } } })
  await manage('PATCH', `/projects/${id}`, {
    settings: { api_key: secret('api key') },
    quotas: { nonsense: 1 },
  })
  keep('rotated jwt secret', (await manage('POST', `/projects/${id}/rotate/jwt`)).body.jwt_secret)
  const keys = (await manage('POST', `/projects/${id}/rotate/api-keys`)).body
  keep('rotated anon key', keys.anon_key)
  keep('rotated service_role key', keys.service_role_key)
  const logins = createLogins(platform.address, keyring(platform.controlPlaneSecret))
  const ref = await platform.refOf(id)
  for (const login of ['owner', 'api', 'svc'] as const)
    keep(`password of the ${login} login`, logins.address(ref, login).password)
  await manage('POST', '/admin/encrypt-settings-secrets')
  return { id, apikey: keys.service_role_key }
}

async function useSecretsInSql({ id, apikey }: { id: string; apikey: string }): Promise<void> {
  const value = (name: string) => `'${secret(name)}'`
  const run = (sql: string, as_owner?: boolean) =>
    ask('POST', `/v1/sql/${id}/run`, { apikey, body: { sql, ...(as_owner && { as_owner }) } })
  const owned = `create table public.kept (v text primary key);
                 insert into public.kept values (${value('row')}); select 1`
  assert.equal((await run(owned, true)).status, 200)
  const failing = [
    `select ${value('value of a failing cast')}::int`,
    `insert into public.kept values ('${secrets.get('row')}')`,
    `insert into public.kept (v, w) values (${value('value beside an unknown column')}, 1)`,
    `do $$ begin raise exception ${value('raised message')} using detail = ${value('raised detail')}; end $$`,
    `do $$ begin raise log ${value('logged message')}; raise 'end'; end $$`,
    `selec ${value('value in a syntax error')}`,
    `select * from "${secret('name of no table')}"`,
  ]
  for (const sql of failing)
    for (const asOwner of [false, true]) {
      const { status } = await run(sql, asOwner)
      assert.ok(status >= 400, sql)
    }
  await run(`do $$ begin raise notice ${value('notice')}; raise warning ${value('warning')}; end $$`, true)
  // A session that breaks with the secret in its hands.
  await run(`select pg_terminate_backend(pg_backend_pid()), ${value('value of an ended session')}`, true)
}

async function useSecretsInTheWrongPlace(id: string): Promise<void> {
  const token = platform.adminToken
  await ask('POST', '/api/v1/projects', { token, raw: `{"name": "${secret('bad JSON')}"` })
  await ask('POST', '/api/v1/projects', { token, raw: secret('no JSON at all') })
  await ask('POST', '/api/v1/projects', { token, raw: `{"__proto__": {"a": "${secret('poisoned JSON')}"}}` })
  await ask('POST', '/api/v1/projects', {
    token,
    body: { name: 5, description: secret('beside a bad field') },
  })
  await ask('POST', '/api/v1/projects', { token, body: { name: secret('long name').repeat(20) } })
  await ask('POST', '/api/v1/projects', {
    token,
    body: { name: 'x', slug: secret('bad slug', 'NOT_A_SLUG_') },
  })
  await ask('POST', '/api/v1/projects', {
    token,
    raw: secret('text'),
    headers: { 'content-type': 'text/plain' },
  })
  await ask('GET', `/api/v1/projects?apikey=${secret('key in a query')}&status=${secret('bad query')}`, {
    token,
  })
  await ask('GET', `/api/v1/projects/${secret('bad id')}`, { token })
  await ask('GET', `/api/v1/nothing/${secret('unknown path')}`, { token })
  await ask('GET', `/api/v1/nothing/${secret('unknown path, no credential')}`)
  await ask('GET', `/v1/whoami/${secret('project that is none')}`, { apikey: secret('key for no project') })
  await ask('GET', `/v1/whoami/${id}?access_token=${secret('access token in a query')}`)
  await ask('GET', `/${secret('path outside')}`)
  await ask('GET', `/%zz${secret('path that cannot be decoded')}`)
  await ask('GET', '/health', { headers: { 'x-request-id': secret('request id of a stranger') } })
  await ask('GET', '/health', { headers: { 'x-forwarded-for': secret('address of a stranger') } })
  await ask('PUT', '/api/v1/projects', { token, body: { v: secret('wrong method') } })
  await ask('POST', '/api/v1/projects', { token, body: { name: secret('too much').repeat(50_000) } })
  for (const [name, bytes] of [
    ['malformed head', (value: string) => `GET /health HTTP/1.1\r\nHost: x\r\nBad Header ${value}\r\n\r\n`],
    ['no HTTP at all', (value: string) => `${value}\r\n\r\n`],
    [
      'oversized head',
      (value: string) => `GET /health HTTP/1.1\r\nHost: x\r\nX-Big: ${value.repeat(1800)}\r\n\r\n`,
    ],
  ] as const) {
    const answer = await sendBytes(bytes(secret(name)))
    assert.match(answer, /^HTTP\/1\.1 4\d\d /, name)
    assert.match(answer, /\r\nx-request-id: \S+\r\n/i, name)
    assert.ok(!answer.includes(secrets.get(name)!), name)
  }
}

async function auditTexts(): Promise<string> {
  const shown = await manage('GET', '/admin/audit?limit=100')
  assert.ok(shown.body.total > 10)
  const exported = [
    await manage('GET', '/admin/audit/export?format=csv'),
    await manage('GET', '/admin/audit/export'),
  ]
  return [shown, ...exported].map(({ text }) => text).join('\n')
}

/** Every row of every table of the control database. */
async function storedTexts(): Promise<string> {
  const tables = await asControl<{ name: string }>(
    "select format('%I.%I', schemaname, tablename) as name from pg_tables where schemaname = 'public'",
  )
  const texts = await Promise.all(
    tables.map(({ name }) => asControl<{ text: string }>(`select t::text as text from ${name} t`)),
  )
  return JSON.stringify(texts)
}

test('every answer carries a request id, and the log has one line of it', async () => {
  const project = await platform.createProject()
  const { token } = await platform.platform.mintToken({ body: { name: 'reader', scope: 'read' } })
  const { anon_key: apikey } = project
  const reach: [number, string, string, (CallOptions & { raw?: string })?][] = [
    [200, 'GET', '/health'],
    [200, 'GET', '/api/v1/health/services'],
    [200, 'GET', '/api/v1/openapi.json'],
    [200, 'HEAD', '/api/v1/projects', { token }],
    [200, 'GET', '/api/v1/admin/audit/export', { token: platform.adminToken }],
    [401, 'GET', '/api/v1/projects'],
    [403, 'GET', '/api/v1/admin/stats', { token }],
    [404, 'GET', `/api/v1/projects/${crypto.randomUUID()}`, { token }],
    [404, 'GET', '/api/v1/nowhere', { token: platform.adminToken }],
    [404, 'GET', '/nowhere'],
    [400, 'GET', '/%zz'],
    [400, 'POST', '/api/v1/platform/login', { raw: '{' }],
    [415, 'POST', '/api/v1/platform/login', { raw: 'x', headers: { 'content-type': 'text/plain' } }],
    [413, 'POST', '/api/v1/platform/login', { body: { email: 'x'.repeat(2_000_000) } }],
    [204, 'OPTIONS', `/v1/whoami/${project.id}`, { headers: { 'access-control-request-method': 'GET' } }],
    [200, 'GET', `/v1/whoami/${project.id}`, { apikey }],
    [401, 'GET', `/v1/whoami/${project.id}`],
    [404, 'GET', `/v1/nowhere/${project.id}`, { apikey }],
    [403, 'POST', `/v1/sql/${project.id}/run`, { apikey, body: { sql: 'select 1' } }],
  ]
  const given = 'an-id-of-the-clients-own'
  const ids = new Set<string>()
  for (const [status, method, path, options = {}] of reach) {
    const headers = { 'x-request-id': given, ...options.headers }
    const answer = await ask(method, path, { ...options, headers })
    assert.equal(answer.status, status, answer.what)
    assert.match(answer.id ?? 'none', /^[\w-]{14,}$/, answer.what)
    ids.add(answer.id!)
    const line = await requestLine(answer.id)
    assert.deepEqual([line['status'], line['method']], [status, method], answer.what)
    assert.ok(!line['route'].includes(project.id), 'the pattern of the route, not its address')
  }
  assert.equal(ids.size, reach.length, 'each its own')
  assert.ok(!platform.logged.join('').includes(given), 'an id counts only from a trusted proxy')
})

test('an audit entry carries the request id of its answer', async () => {
  const created = await manage('POST', '/projects', { name: 'audited' })
  const rows = await asControl(
    `select action, target, actor_kind from public.audit where request_id = '${created.id}'`,
  )
  assert.deepEqual(rows, [{ action: 'project.created', target: created.body.id, actor_kind: 'admin_token' }])
})

test('a 500 says nothing of what went wrong, and the log has it under the request id', async () => {
  const project = await platform.createProject()
  const { token } = await platform.platform.mintToken({ body: { name: 'unlucky', scope: 'read' } })
  const askCold = () => {
    platform.app.directory.forget(project.id)
    return ask('GET', `/v1/whoami/${project.id}`, { apikey: project.anon_key })
  }
  const broken: [string, () => Promise<Answer>, 'management' | 'data'][] = [
    ['tokens', () => manage('GET', '/projects', undefined, token), 'management'],
    ['projects', () => manage('GET', '/projects'), 'management'],
    ['projects', () => manage('POST', '/projects', { name: 'never' }), 'management'],
    ['projects', askCold, 'data'],
    [
      'users',
      () => ask('POST', '/api/v1/platform/login', { body: { email: 'a@b.co', password: 'x' } }),
      'management',
    ],
    ['audit', () => manage('GET', '/admin/audit'), 'management'],
    ['audit', () => manage('GET', '/admin/audit/export'), 'management'],
  ]
  const message = 'Something went wrong on our side; the request id leads to its trace in the log'
  const bodies = {
    management: { error: { message, code: 'internal_error' } },
    data: { code: 'internal_error', message, error: message, statusCode: 500, details: '', hint: '' },
  }
  for (const [table, act, plane] of broken) {
    const answer = await withoutTable(table, act)
    assert.deepEqual([answer.status, answer.body], [500, bodies[plane]], `${answer.what} without ${table}`)
    for (const [name] of answer.headers) assert.doesNotMatch(name, /powered|server/i)
    assert.equal((await requestLine(answer.id))['status'], 500)
    const failure = entriesOf(answer.id).find(({ level }) => level === 'error')
    assert.equal(failure?.['err'].code, '42P01', 'the cause')
    assert.ok(failure?.['err'].stack.length > 0)
  }
  assert.equal((await ask('GET', `/v1/whoami/${project.id}`, { apikey: project.anon_key })).status, 200)
})

test('an audit entry that cannot be written is logged and does not undo the act', async () => {
  const created = await withoutTable('audit', () => manage('POST', '/projects', { name: 'unrecorded' }))
  assert.equal(created.status, 201)
  const complaint = entriesOf(created.id).find(({ level }) => level === 'error')
  assert.equal(complaint?.['action'], 'project.created')
  assert.equal((await manage('GET', `/projects/${created.body.id}`)).status, 200)
})

/** The table is away while the work is done. */
async function withoutTable<T>(table: string, work: () => Promise<T>): Promise<T> {
  const rename = (from: string, to: string) =>
    platform.asSuperuser(platform.control, session =>
      session.script(`alter table public.${from} rename to ${to}`),
    )
  await rename(table, `${table}_away`)
  try {
    return await work()
  } finally {
    await rename(`${table}_away`, table)
  }
}
