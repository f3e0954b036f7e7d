// The log has a line with the request id of every answer, and the causes of errors under it.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { eventually } from './eventually.ts'
import type { CallOptions } from './harness.ts'
import { type Answer, loggedRequests } from './logged-requests.ts'

const { platform, ask, manage, asControl } = loggedRequests()
const entries = () => platform.logged.map(line => JSON.parse(line) as Record<string, any>)
const entriesOf = (id: string | null) => entries().filter(entry => entry['id'] === id)

/** Waits for the log line of a request, which is written after the answer was sent. */
function requestLine(id: string | null): Promise<Record<string, any>> {
  return eventually(() => {
    const [found, ...more] = entriesOf(id).filter(({ msg }) => msg === 'request')
    assert.equal(more.length, 0, 'one line per request')
    return found
  }, `a line for request ${id}`)
}

test('hygiene: every answer has a request id, and the log has one line with it', async () => {
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
    assert.ok(!line['route'].includes(project.id), 'the log has the route pattern, not the path')
  }
  assert.equal(ids.size, reach.length, 'every request has a different id')
  assert.ok(!platform.logged.join('').includes(given), 'a request id is accepted only from a trusted proxy')
})

test('hygiene: an audit entry has the request id of its answer', async () => {
  const created = await manage('POST', '/projects', { name: 'audited' })
  const rows = await asControl(
    `select action, target, actor_kind from public.audit where request_id = '${created.id}'`,
  )
  assert.deepEqual(rows, [{ action: 'project.created', target: created.body.id, actor_kind: 'admin_token' }])
})

test('hygiene: a 500 contains no details, and the log has the cause under the request id', async () => {
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
    assert.equal(failure?.['err'].code, '42P01', 'the log has the cause')
    assert.ok(failure?.['err'].stack.length > 0)
  }
  assert.equal((await ask('GET', `/v1/whoami/${project.id}`, { apikey: project.anon_key })).status, 200)
})

test('hygiene: a failed audit entry is logged and does not undo the request', async () => {
  const created = await withoutTable('audit', () => manage('POST', '/projects', { name: 'unrecorded' }))
  assert.equal(created.status, 201)
  const failure = entriesOf(created.id).find(({ level }) => level === 'error')
  assert.equal(failure?.['action'], 'project.created')
  assert.equal((await manage('GET', `/projects/${created.body.id}`)).status, 200)
})

/** Runs the work while the table is renamed. */
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
