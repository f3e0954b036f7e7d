// Headers and query strings that would be expensive to process: each is answered, or rejected with a reason.
import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import type { CreatedProject } from '@plinth/contract/projects.ts'
import { type Reply, startPlatform, type TestPlatform } from './harness.ts'

let platform: TestPlatform
let project: CreatedProject

before(async () => {
  platform = await startPlatform({
    settings: { PLATFORM_RATE_LIMIT_SERVICE_ROLE: '0', PLATFORM_RATE_LIMIT_ANON: '0' },
  })
  project = await platform.createProject()
  await owner(`
    create table targets (id int primary key);
    create table things (id int primary key, name text, target int references targets);
    alter table things disable row level security; alter table targets disable row level security;
    insert into things select i, case when i < 3 then 'x' || i end from generate_series(1, 4) i;
    create table keys (name text primary key); alter table keys disable row level security;
    create function answer(length int) returns int language sql as $$
      select set_config('response.headers', '[{"x-long":"' || repeat('x', length) || '"}]', true); select 1 $$;
    create function raised(length int) returns int language plpgsql as $$ begin
      raise sqlstate 'PGRST' using message = '{"code":"1","message":"' || repeat('x', length) || '"}',
        detail = '{"status":418,"headers":{}}'; end $$`)
})
after(() => platform?.stop())

const rows = (method: string, path: string, headers: Record<string, string> = {}, body?: unknown) =>
  platform.call(method, `/v1/rest/${project.id}/${path}`, { apikey: project.anon_key, headers, body })

async function owner(text: string): Promise<Reply> {
  const reply = await platform.call('POST', `/v1/rest/${project.id}/rpc/exec_sql`, {
    apikey: project.service_role_key,
    body: { sql: text },
  })
  assert.equal(reply.status, 200, JSON.stringify(reply.body))
  return reply
}
const statusAndCode = ({ status, body }: Reply) => [status, body.code]
/** Repeats the piece to 25,000 characters, which still fit into a header. */
const many = (piece: string, separator = ',') =>
  Array(Math.floor(25_000 / (piece.length + separator.length)))
    .fill(piece)
    .join(separator)

test('row limits: names of Object.prototype are ordinary names in headers and parameters', async () => {
  for (const name of ['__proto__', 'constructor', 'toString', 'valueOf']) {
    assert.equal((await rows('GET', 'things', { prefer: name })).status, 200)
    assert.equal((await rows('GET', 'things', { prefer: `${name}=x` })).status, 200)
    assert.equal((await rows('GET', 'things', { cookie: `${name}=x` })).status, 200)
    assert.equal((await rows('GET', 'things', { range: name })).status, 200)
    assert.deepEqual(statusAndCode(await rows('GET', 'things', { accept: name })), [406, 'PGRST107'])
    assert.deepEqual(statusAndCode(await rows('GET', 'things', { 'accept-profile': name })), [
      406,
      'PGRST106',
    ])
    assert.deepEqual(statusAndCode(await rows('GET', name)), [404, 'PGRST205'])
    assert.deepEqual(statusAndCode(await rows('GET', `things?${name}=eq.1`)), [400, '42703'])
    assert.deepEqual(statusAndCode(await rows('GET', `things?select=${name}`)), [400, '42703'])
    assert.deepEqual(statusAndCode(await rows('GET', `things?select=${name}(id)`)), [400, 'PGRST200'])
    assert.deepEqual(statusAndCode(await rows('GET', `things?order=${name}`)), [400, '42703'])
    assert.deepEqual(statusAndCode(await rows('GET', `things?id=${name}.1`)), [400, 'PGRST100'])
    assert.deepEqual(statusAndCode(await rows('GET', `things?id=is.${name}`)), [400, 'PGRST100'])
    assert.deepEqual(statusAndCode(await rows('POST', `rpc/${name}`, {}, {})), [404, 'PGRST202'])
    assert.deepEqual(statusAndCode(await rows('POST', `things?columns=${name}`, {}, {})), [400, 'PGRST204'])
    const form = { 'content-type': 'application/x-www-form-urlencoded' }
    assert.deepEqual(statusAndCode(await rows('POST', 'things', form, `${name}=x`)), [400, 'PGRST204'])
    const csv = { 'content-type': 'text/csv' }
    assert.deepEqual(statusAndCode(await rows('POST', 'things', csv, `${name}\nx`)), [400, 'PGRST204'])
  }
})

test('row limits: headers with thousands of parts are rejected', async () => {
  assert.deepEqual(statusAndCode(await rows('GET', 'things', { prefer: many('timezone=Mars/Olympus') })), [
    400,
    'invalid_request',
  ])
  assert.deepEqual(statusAndCode(await rows('GET', 'things', { accept: many('a/b') })), [406, 'PGRST107'])
  assert.deepEqual(statusAndCode(await rows('GET', 'things', { accept: many('a/b', ';') })), [
    406,
    'PGRST107',
  ])
  assert.deepEqual(statusAndCode(await rows('GET', 'things', { cookie: many('a=b', ';') })), [
    400,
    'invalid_request',
  ])
  assert.equal((await rows('GET', 'things', { range: '0-'.repeat(10_000) })).status, 200)
})

test('row limits: query strings with thousands of parts are rejected, and the error names the limit', async () => {
  for (const [query, reason] of [
    [`select=${many('id')}`, /more than 2000 columns/],
    [`select=${many('targets()')}`, /more than 200 embedded/],
    [`select=${'targets('.repeat(3000)}`, /nest at most 5/],
    [many('id=eq.1', '&'), /more than 1000 filters/],
    [`or=(${many('id.eq.1')})`, /more than 1000 filters/],
    [`or=(${'and('.repeat(5000)}`, /nest at most 50/],
    [`order=${many('id')}`, /at most 100 terms/],
    [`order=${many('id.ip.[')}`, /order/],
    [`${'a.'.repeat(10_000)}a=eq.1`, /at most 20 relations/],
    [`select=id${'->a'.repeat(4000)}`, /at most 50 steps/],
  ] as const) {
    const { status, body } = await rows('GET', `things?${query}`)
    assert.equal(status, 400, JSON.stringify(body).slice(0, 300))
    assert.match(`${body.message} ${body.details}`, reason)
  }
})

test('row limits: a list with thousands of values counts as one filter', async () => {
  const { status, body } = await rows('GET', `things?select=id&id=in.(${many('1')})`)
  assert.deepEqual([status, body], [200, [{ id: 1 }]])
  const quoted = await rows('GET', `things?select=id&name=in.(${many('x1')},"a\\"b")`)
  assert.deepEqual([quoted.status, quoted.body], [200, [{ id: 1 }]])
})

test('row limits: CSV escapes column names and contains all rows', async () => {
  const csv = { accept: 'text/csv' }
  const { body } = await rows('GET', `things?select="it's \\\\ \\"so\\"":id,name&order=id`, csv)
  assert.equal(body, `"it's \\ ""so""",name\n1,x1\n2,x2\n3,\n4,`)
  assert.equal((await rows('GET', 'things?select=id&id=eq.0', csv)).body, 'id')
  assert.equal((await rows('POST', 'rpc/answer', csv, { length: 1 })).body, 'answer\n1')
})

test('row limits: Location is sent only for a single row whose key fits into a header', async () => {
  const insert = (body: unknown) => rows('POST', 'keys', { prefer: 'return=headers-only' }, body)
  const one = await insert({ name: 'a b' })
  assert.match(one.headers.get('location')!, /\/keys\?name=eq\.a%20b$/)
  const two = await insert([{ name: 'c' }, { name: 'd' }])
  assert.deepEqual([two.status, two.headers.get('location')], [201, null])
  const long = await insert({ name: 'x'.repeat(100_000) })
  assert.deepEqual([long.status, long.headers.get('location')], [201, null])
})

test('row limits: response headers and errors of a function have a maximum length', async () => {
  assert.equal((await rows('POST', 'rpc/answer', {}, { length: 1000 })).headers.get('x-long')!.length, 1000)
  const { body } = await rows('POST', 'rpc/answer', {}, { length: 5_000_000 })
  assert.equal(body.code, 'PGRST111')
  assert.equal((await rows('POST', 'rpc/raised', {}, { length: 1000 })).status, 418)
  assert.equal((await rows('POST', 'rpc/raised', {}, { length: 5_000_000 })).body.code, 'PGRST121')
})
