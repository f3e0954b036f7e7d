// 3 §4 "eIDAS configuration, logs, usage": the merged log of a project.
import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { type FunctionsApi, functionsProject } from '../functions.ts'
import { createProject, mintToken, someId } from '../people.ts'
import { type Target, target } from '../target.ts'
import { until } from '../until.ts'
import { assertManagementError, type Reply } from '../wire.ts'

let it: Target
let own: FunctionsApi
before(async () => {
  it = await target()
  own = await functionsProject(it)
})
after(() => it.stop())

const logs = (query = '', token = it.adminToken, id = own.project.id): Promise<Reply> =>
  it.call('GET', `/api/v1/projects/${id}/logs?${query}`, { token })

const entries = async (query: string, token?: string): Promise<any[]> => {
  const reply = await logs(query, token)
  assert.equal(reply.status, 200, reply.text)
  return reply.body.logs
}

const fields = [
  ...['id', 'source', 'timestamp', 'method', 'route', 'service', 'function', 'status', 'duration_ms'],
  ...['bytes_in', 'bytes_out', 'role', 'request_id', 'trace_id', 'level', 'event', 'message'],
]
const trace = '4bf92f3577b34da6a3ce929d0e0e4736'
const parent = `00-${trace}-00f067aa0ba902b7-01`

test('3 §4 the log merges requests and lines of functions, newest first, without anything of their content', async () => {
  await own.deploy(
    'logged',
    `Deno.serve(async req => {
      console.log('printed', Deno.env.get('LOGGED_SECRET'))
      return Response.json({ trace: req.headers.get('traceparent'), state: req.headers.get('tracestate'), body: await req.text() })
    })`,
  )
  const secret = 'a-secret-of-the-project'
  await it.manage('POST', `/projects/${own.project.id}/secrets`, { name: 'LOGGED_SECRET', value: secret })
  const reply = await own.call('logged/sub-path?query=hidden-query', {
    headers: { traceparent: parent, tracestate: 'vendor=1', 'x-hidden': 'hidden-header' },
    body: { text: 'hidden-body' },
  })
  assert.deepEqual(
    [reply.status, reply.body.trace, reply.body.state, reply.body.body],
    [200, parent, 'vendor=1', '{"text":"hidden-body"}'],
  )
  const requestId = reply.headers.get('x-request-id')
  const found = await until('the request and the lines are logged', async () => {
    const list = await entries(`request_id=${requestId}`)
    return list.length === 4 && list
  })
  assert.deepEqual(
    found.map(each => [each.source, each.event, each.function, each.status, each.trace_id]),
    [
      ['access', 'request', null, 200, trace],
      ['function', 'end', 'logged', 200, trace],
      ['function', 'output', 'logged', null, null],
      ['function', 'start', 'logged', null, trace],
    ],
  )
  for (const each of found) assert.deepEqual(Object.keys(each).sort(), fields.toSorted())
  assert.deepEqual(
    [found[0].method, found[0].route, found[0].service, found[0].role],
    ['POST', '/v1/functions/{project}/{name}/{path}', 'functions', 'service_role'],
  )
  assert.equal(found[2].message, 'printed ***')
  const { text } = await logs('limit=500')
  for (const hidden of [/hidden-/, /sub-path/, new RegExp(secret), new RegExp(own.project.service_role_key)])
    assert.doesNotMatch(text, hidden)
})

test('3 §4 source selects access or function', async () => {
  await it.call('GET', `/v1/whoami/${own.project.id}`, { apikey: own.project.anon_key })
  await until('both sources are logged', async () => {
    const sources = new Set((await entries('source=all&limit=500')).map(each => each.source))
    return sources.size === 2
  })
  for (const source of ['access', 'function'])
    assert.deepEqual([...new Set((await entries(`source=${source}`)).map(each => each.source))], [source])
})

test('3 §4 limit is 1 to 500 with a default of 50, and before continues at next_before', async () => {
  const { id, anon_key } = await createProject(it, { quotas: { rate_limit_anon: 0 } })
  const ids: (string | null)[] = []
  for (let count = 0; count < 52; count++) {
    const reply = await it.call('GET', `/v1/whoami/${id}`, { apikey: anon_key })
    ids.unshift(reply.headers.get('x-request-id'))
  }
  const read = async (query: string) => (await logs(query, it.adminToken, id)).body
  await until('all are logged', async () => (await read('limit=500')).logs.length === 52)
  assert.equal((await read('')).logs.length, 50)
  assert.deepEqual((await read('limit=501')).next_before, null)
  const seen: (string | null)[] = []
  let before = ''
  for (;;) {
    const page = await read(`limit=20${before}`)
    seen.push(...page.logs.map((each: any) => each.request_id))
    if (page.next_before === null) break
    before = `&before=${page.next_before}`
  }
  assert.deepEqual(seen, ids)
  for (const query of ['limit=0', 'source=none', 'before=0', 'status=600', 'from=now'])
    assertManagementError(await logs(query, it.adminToken, id), 'invalid_request')
})

test('3 §5.1 reading needs read scope; what functions print needs deploy scope', async () => {
  const { token: read } = await mintToken(it, 'read')
  const { token: deploy } = await mintToken(it, 'deploy')
  await own.deploy('talking', `Deno.serve(() => { console.log('for deployers'); return new Response() })`)
  const reply = await own.call('talking')
  const query = `source=function&request_id=${reply.headers.get('x-request-id')}`
  await until('it is logged', async () => (await entries(query)).length === 3)
  const messages = async (token: string, more = '') =>
    (await entries(query + more, token)).map(each => each.message)
  assert.deepEqual(await messages(deploy), ['POST 200', 'for deployers', 'POST'])
  assert.deepEqual(await messages(read), ['POST 200', null, 'POST'])
  assert.deepEqual(await messages(deploy, '&text=for'), ['for deployers'])
  assert.deepEqual(await messages(read, '&text=for'), [])
  assertManagementError(await logs('', it.adminToken, someId), 'project_not_found')
})

test('an invalid traceparent reaches no function', async () => {
  for (const headers of [{ traceparent: 'invalid', tracestate: 'vendor=1' }, { tracestate: 'vendor=1' }]) {
    const { body } = await own.call('logged', { headers })
    assert.deepEqual([body.trace, body.state], [null, null])
  }
})
