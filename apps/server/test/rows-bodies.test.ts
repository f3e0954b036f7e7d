// Large and hostile bodies sent to the row API: limits and permissions are checked before the body is parsed, and an
// accepted body is stored completely.
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
    create table things (id bigint primary key, name text, n int default 7);
    alter table things disable row level security;
    create table closed (id int, name text); alter table closed disable row level security;
    revoke all on closed from anon; grant select on closed to anon;
    create table guarded (id int, name text);
    create table inbox (name text);
    create function redirect() returns trigger language plpgsql security definer as
      $$ begin insert into things (id, name) values (1000000, length(new.name)::text); return null; end $$;
    create trigger redirect before insert on inbox for each row execute function redirect();
    create function size(name text) returns int language sql as 'select length($1)';
    create function bytes(bytea) returns int language sql as 'select length($1)';
    create function secret(name text) returns int language sql as 'select 1';
    revoke execute on function secret from public, anon`)
})
after(() => platform?.stop())

interface Extras {
  body?: unknown
  headers?: Record<string, string>
  as?: 'anon' | 'service_role'
}
const rows = (method: string, path: string, { body, headers = {}, as = 'anon' }: Extras = {}) =>
  platform.call(method, `/v1/rest/${project.id}/${path}`, {
    apikey: as === 'anon' ? project.anon_key : project.service_role_key,
    body,
    headers,
  })

async function owner(text: string): Promise<Reply> {
  const reply = await rows('POST', 'rpc/exec_sql', { body: { sql: text }, as: 'service_role' })
  assert.equal(reply.status, 200, JSON.stringify(reply.body))
  return reply
}
const statusAndCode = ({ status, body }: Reply) => [status, body.code ?? body.error?.code]
const csv = { 'content-type': 'text/csv' }
const form = { 'content-type': 'application/x-www-form-urlencoded' }
const large = 'x'.repeat(100_000)
/** Invalid JSON, so that a request which parses it fails with PGRST102. */
const broken = `[{"id":1,"name":"${large}"`

test('row bodies: CSV has the same limits as JSON', async () => {
  for (const lines of [600_000, 9_000_000])
    assert.deepEqual(
      statusAndCode(await rows('POST', 'things', { body: `name\n${'\n'.repeat(lines)}`, headers: csv })),
      [413, 'body_too_large'],
    )
  const wide = Array.from({ length: 2000 }, (_, index) => `c${index}`).join()
  assert.deepEqual(statusAndCode(await rows('POST', 'things', { body: `${wide}\n`, headers: csv })), [
    400,
    'PGRST102',
  ])
})

test('row bodies: a form with more than 1664 fields is rejected, for rows and functions', async () => {
  const fields = Array.from({ length: 400_000 }, (_, index) => `f${index}=1`).join('&')
  for (const path of ['things', 'rpc/size']) {
    const { status, body } = await rows('POST', path, { body: fields, headers: form })
    assert.deepEqual([status, body.code], [400, 'PGRST102'])
    assert.match(body.message, /more than 1664 fields/)
  }
})

test('row bodies: JSON with more than 500,000 values is 413, for rows and functions', async () => {
  const body = `[${'{"id":1},'.repeat(300_000).slice(0, -1)}]`
  for (const path of ['things', 'rpc/size'])
    assert.deepEqual(statusAndCode(await rows('POST', path, { body })), [413, 'body_too_large'])
})

test('row bodies: a large body is parsed only after target and permissions were checked', async () => {
  const post = async (path: string, headers = {}) =>
    statusAndCode(await rows('POST', path, { body: broken, headers }))
  assert.deepEqual(await post('thinks'), [404, 'PGRST205'])
  assert.deepEqual(await post('closed'), [403, '42501'])
  assert.deepEqual(await post('guarded'), [403, '42501'])
  assert.deepEqual(await post('things?columns=id,nome'), [400, 'PGRST204'])
  assert.deepEqual(await post('things', { 'content-type': 'text/html' }), [415, 'unsupported_media_type'])
  assert.deepEqual(await post('rpc/nobody'), [404, 'PGRST202'])
  assert.deepEqual(await post('rpc/secret'), [403, '42501'])
  assert.deepEqual(await post('things'), [400, 'PGRST102'])
  assert.deepEqual(await post('rpc/size'), [400, 'PGRST102'])
  const patch = async (path: string) => statusAndCode(await rows('PATCH', path, { body: broken }))
  assert.deepEqual(await patch('closed?id=eq.1'), [403, '42501'])
  assert.deepEqual(await patch('things?nome=eq.1'), [400, '42703'])
  assert.deepEqual(await patch('things'), [400, 'PGRST100'])
  const put = async (path: string) => statusAndCode(await rows('PUT', path, { body: broken }))
  assert.deepEqual(await put('closed?id=eq.1'), [405, 'PGRST105'])
  assert.deepEqual(await put('things?name=eq.1'), [405, 'PGRST105'])
  assert.deepEqual(await put('things?id=eq.1&limit=1'), [400, 'PGRST114'])
})

test('row bodies: a large body without permission gets the same error as a small one', async () => {
  for (const table of ['closed', 'guarded']) {
    const small = await rows('POST', table, { body: { id: 1, name: 'x' } })
    const big = await rows('POST', table, { body: { id: 1, name: large } })
    assert.deepEqual([big.status, big.body], [small.status, small.body])
  }
})

test('row bodies: a changed grant or policy applies to the next large body', async () => {
  const post = async (table: string) => (await rows('POST', table, { body: { id: 5, name: large } })).status
  await owner('grant insert (id) on closed to anon')
  assert.equal(await post('closed'), 403, 'name is not granted')
  await owner('grant insert (id, name) on closed to anon')
  assert.equal(await post('closed'), 201)
  await owner('revoke all on closed from anon; grant select on closed to anon')
  assert.equal(await post('closed'), 403)
  await owner('create policy all_in on guarded for insert to anon with check (true)')
  assert.equal(await post('guarded'), 201)
  await owner('drop policy all_in on guarded')
  assert.equal(await post('guarded'), 403)
  await owner('create table later (id int, name text); alter table later disable row level security')
  assert.equal(await post('later'), 201)
})

test('row bodies: a trigger that redirects rows works with large ones', async () => {
  const { status, body } = await rows('POST', 'inbox', { body: { name: large } })
  assert.equal(status, 201, JSON.stringify(body))
  const { body: stored } = await rows('GET', 'things?id=eq.1000000&select=name')
  assert.deepEqual(stored, [{ name: String(large.length) }])
})

test('row bodies: large valid bodies are stored completely', async () => {
  const count = 30_000
  const all = Array.from({ length: count }, (_, index) => ({ id: index, name: `ü "${index}"` }))
  const stored = async () => {
    const { headers } = await rows('GET', 'things?select=id&limit=1&n=eq.7', {
      headers: { prefer: 'count=exact' },
    })
    const { body } = await rows('GET', `things?id=eq.${count - 1}&select=name`)
    await owner('truncate things')
    return [headers.get('content-range'), body]
  }
  const expected = [`0-0/${count}`, [{ name: `ü "${count - 1}"` }]]
  await owner('truncate things')
  assert.equal((await rows('POST', 'things', { body: all })).status, 201)
  assert.deepEqual(await stored(), expected)
  const lines = all.map(({ id, name }) => `${id},"${name.replaceAll('"', '""')}"\r\n`)
  const { status, body } = await rows('POST', 'things', {
    body: `id,name\r\n${lines.join('')}`,
    headers: csv,
  })
  assert.equal(status, 201, JSON.stringify(body))
  assert.deepEqual(await stored(), expected)
  const sparse = all.map(each => (each.id % 2 === 0 ? { ...each, n: 7 } : each))
  const headers = { prefer: 'missing=default' }
  assert.equal((await rows('POST', 'things?columns=id,name,n', { body: sparse, headers })).status, 201)
  assert.deepEqual(await stored(), expected)
  assert.equal((await rows('POST', 'things', { body: sparse })).body.message, 'All object keys must match')
})

test('row bodies: one large value works in every body format', async () => {
  const length = 3_000_000
  const text = 'ü'.repeat(length)
  const size = async (body: unknown, headers = {}) => (await rows('POST', 'rpc/size', { body, headers })).body
  assert.equal(await size({ name: text }), length)
  assert.equal(await size(`{"name":"${'\\u00fc'.repeat(1_000_000)}"}`), 1_000_000)
  assert.equal(await size(`name=${'%C3%BC'.repeat(1_000_000)}`, form), 1_000_000)
  const octets = { 'content-type': 'application/octet-stream' }
  const sent = await rows('POST', 'rpc/bytes', { body: 'x'.repeat(5_000_001), headers: octets })
  assert.equal(sent.body, 5_000_001)
  const put = (id: number) =>
    rows('PUT', `things?id=eq.${id}`, { body: `[ {"name":"${large}","id" : 9007199254740993 } ]` })
  assert.deepEqual(statusAndCode(await put(5)), [400, 'PGRST115'])
  const path = 'things?id=eq.9007199254740993'
  assert.equal((await rows('PUT', path, { body: `{"name":"${large}","id":9007199254740993}` })).status, 201)
  assert.equal((await rows('PUT', path, { body: `id=9007199254740993&name=x`, headers: form })).status, 204)
})

test('row bodies: exec_sql accepts megabytes of SQL with any character', async () => {
  const { body } = await owner(`select length('${'😀 '.repeat(700_000)}') as length, '\\ "' as odd`)
  assert.deepEqual(body, [{ length: 1_400_000, odd: '\\ "' }])
  for (const odd of [{ sql: 5 }, { sql: { a: 'b' } }, [], 5, { other: 'x' }])
    assert.equal((await rows('POST', 'rpc/exec_sql', { body: odd, as: 'service_role' })).status, 400)
})

test('row bodies: a byte order mark before JSON is ignored', async () => {
  const { status, body } = await rows('POST', 'things', { body: '\uFEFF{"id":77}' })
  assert.equal(status, 201, JSON.stringify(body))
})
