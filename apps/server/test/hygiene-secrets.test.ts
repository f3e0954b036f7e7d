// Secrets appear neither in logs, audit entries and errors nor in the log of Postgres.
import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import { connect } from 'node:net'
import { dirname, join } from 'node:path'
import { before, test } from 'node:test'
import { signJwt } from '#src/kernel/crypto/jwt.ts'
import { keyring } from '#src/kernel/crypto/keys.ts'
import { createLogins } from '#src/tenancy/logins.ts'
import { loggedRequests } from './logged-requests.ts'

const { platform, answers, ask, manage, asControl } = loggedRequests()
const secrets = new Map<string, string>()

/** Creates a unique secret and records it under this name. */
function secret(name: string, prefix = ''): string {
  const value = prefix + randomBytes(18).toString('hex')
  secrets.set(name, value)
  return value
}
function record(name: string, value: string): string {
  secrets.set(name, value)
  return value
}

before(() => {
  record('admin token', platform.adminToken)
  record('control plane secret', platform.controlPlaneSecret)
  record('password of the superuser', platform.address.password)
})

/** Writes raw bytes to a socket, for requests that no HTTP client sends. */
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

test('hygiene: no secret is in logs, errors, audit entries or the Postgres log', async () => {
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
    const search = (where: string, text: string) => text.includes(value) && hits.push(`${name} in ${where}`)
    search('the log', log)
    search('the audit log', audit)
    search('the control database', tables)
    search('the log of Postgres', postgresLog)
    for (const { what, status, text, headers } of answers) {
      search(`the headers of ${what}`, JSON.stringify([...headers]))
      if (status >= 400) search(`the error of ${what}`, text)
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
  const session = record('session', login.body.token)
  await manage('PATCH', `/admin/users/${user.id}`, { password: secret('new password') }, session)
  await manage('POST', '/admin/users', {
    email,
    password: secret('password of a taken address'),
    role: 'viewer',
  })
  await manage('POST', '/admin/users', { email: 'x', password: secret('password beside a bad address') })
  await manage('GET', '/projects', undefined, session)

  const minted = await manage('POST', '/platform/tokens', { name: 'ci', scope: 'read' })
  const token = record('platform token', minted.body.token)
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
  for (const name of ['anon_key', 'service_role_key', 'jwt_secret']) record(name, created.body[name])
  const { anon_key, jwt_secret } = created.body
  const jwt = record('token of a user', signJwt({ role: 'authenticated', sub: 'u', jti: 'x' }, jwt_secret))
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
  record('rotated jwt secret', (await manage('POST', `/projects/${id}/rotate/jwt`)).body.jwt_secret)
  const keys = (await manage('POST', `/projects/${id}/rotate/api-keys`)).body
  record('rotated anon key', keys.anon_key)
  record('rotated service_role key', keys.service_role_key)
  const logins = createLogins(platform.address, keyring(platform.controlPlaneSecret))
  const ref = await platform.refOf(id)
  for (const login of ['owner', 'api', 'svc'] as const)
    record(`password of the ${login} login`, logins.address(ref, login).password)
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
  // The session ends during a statement that contains a secret.
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
