// REST contract §3: OPTIONS on tables, views and functions, and the CORS preflight.
import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { someId } from '../people.ts'
import { assertRefused, type RowsApi, rootOf, rowsProject } from '../rows.ts'
import { type Target, target } from '../target.ts'
import { assertDataError, type Reply } from '../wire.ts'

let it: Target
let rows: RowsApi
before(async () => {
  it = await target()
  rows = await rowsProject(
    it,
    `
    create table public.items (id int primary key, name text);
    create table public.notes (body text);
    create table public.parts (id int, part int, primary key (id, part)) partition by range (id);
    create view public.item_names as select id, name from public.items;
    create view public.bare_names as select name from public.items;
    create view public.counted as select count(*) from public.items;
    create view public.written as select id, upper(name) as name from public.items group by id, name;
    create function public.write_it() returns trigger language plpgsql as $$ begin return new; end $$;
    create trigger insert_it instead of insert on public.written for each row execute function public.write_it();
    create view public.all_written as select id, upper(name) as name from public.items group by id, name;
    create trigger write_it instead of insert or update or delete on public.all_written
      for each row execute function public.write_it();
    create materialized view public.kept as select id from public.items;
    grant select on public.kept to anon;
    create function public.now_then() returns int language sql stable as 'select 1';
    create function public.always() returns int language sql immutable as 'select 1';
    create function public.roll() returns int language sql volatile as 'select 1';
    create function public.both(a int) returns int language sql volatile as 'select 1';
    create function public.both(a text) returns int language sql stable as 'select 1';
    `,
    { fields: { settings: { exposed_schemas: ['public', 'api'] } } },
  )
  await rows.ddl('create schema api; create table api.only_here (id int)')
})
after(() => it.stop())

const allOf = (reply: Reply) => [reply.status, reply.headers.get('allow'), reply.text]

const everything = 'OPTIONS,GET,HEAD,POST,PUT,PATCH,DELETE'
const withoutPut = 'OPTIONS,GET,HEAD,POST,PATCH,DELETE'
const methods: Record<string, string> = {
  items: everything,
  notes: withoutPut,
  parts: everything,
  item_names: everything,
  bare_names: withoutPut,
  counted: 'OPTIONS,GET,HEAD',
  kept: 'OPTIONS,GET,HEAD',
  written: 'OPTIONS,GET,HEAD,POST',
  'rpc/now_then': 'OPTIONS,GET,HEAD,POST',
  'rpc/always': 'OPTIONS,GET,HEAD,POST',
  'rpc/roll': 'OPTIONS,POST',
  'rpc/both': 'OPTIONS,GET,HEAD,POST',
  'rpc/exec_sql': 'OPTIONS,POST',
  '': 'OPTIONS,GET,HEAD',
}
for (const [path, allow] of Object.entries(methods))
  test(`REST contract §3: OPTIONS on "${path}" allows ${allow}`, async () => {
    for (const as of ['anon', 'service_role'] as const)
      for (const shape of ['native', 'alias'] as const)
        assert.deepEqual(allOf(await rows.ask('OPTIONS', path, { as, shape })), [200, allow, ''])
  })

test('REST contract §3: a view with all INSTEAD OF triggers allows every write', async () => {
  const { status, headers } = await rows.ask('OPTIONS', 'all_written')
  assert.equal(status, 200)
  for (const method of ['POST', 'PATCH', 'DELETE']) assert.ok(headers.get('allow')?.includes(method), method)
})

test('REST contract §3: OPTIONS on an unknown table or function is 404', async () => {
  assertRefused(await rows.ask('OPTIONS', 'nothing'), 404, 'PGRST205')
  assertRefused(await rows.ask('OPTIONS', 'rpc/nothing'), 404, 'PGRST202')
})

test('REST contract §3: Accept-Profile selects the schema of OPTIONS', async () => {
  assert.equal((await rows.ask('OPTIONS', 'only_here')).status, 404)
  const headers = { 'accept-profile': 'api' }
  assert.equal((await rows.ask('OPTIONS', 'only_here', { headers })).headers.get('allow'), withoutPut)
})

test('REST contract §3: OPTIONS follows a change of the schema', async () => {
  await rows.sql('create table public.later (a int)')
  assert.equal((await rows.ask('OPTIONS', 'later')).headers.get('allow'), withoutPut)
  await rows.sql('alter table public.later add primary key (a)')
  assert.equal((await rows.ask('OPTIONS', 'later')).headers.get('allow'), everything)
  await rows.sql('drop table public.later')
  assert.equal((await rows.ask('OPTIONS', 'later')).status, 404)
})

test('REST contract §3: OPTIONS needs a key, except as a preflight', async () => {
  assertDataError(await it.call('OPTIONS', `${rootOf(rows.project)}/items`), 'PGRST302')
  const answers = [
    await it.call('OPTIONS', `${rootOf(rows.project)}/items`, { apikey: 'wrong' }),
    await it.call('OPTIONS', `${rootOf(rows.project)}/nothing`, { apikey: 'wrong' }),
    await it.call('OPTIONS', `${rootOf({ id: someId })}/items`, { apikey: rows.project.anon_key }),
  ]
  for (const reply of answers) {
    assertDataError(reply, 'unauthorized')
    assert.equal(reply.text, answers[0]!.text)
  }
})

const listOf = (reply: Reply, name: string) =>
  (reply.headers.get(name) ?? '').split(',').map(each => each.trim())
const preflight = (path: string, requested?: string) =>
  it.call('OPTIONS', path, {
    headers: {
      origin: 'https://app.example.test',
      'access-control-request-method': 'GET',
      ...(requested !== undefined && { 'access-control-request-headers': requested }),
    },
  })

test('1 §7 a preflight on every service allows the headers that the browser asks for', async () => {
  const { id } = rows.project
  const paths = [
    `/v1/rest/${id}/items`,
    `/v1/${id}/rest/v1/rpc/roll`,
    `/v1/${id}/auth/v1/token`,
    `/v1/${id}/storage/v1/object/a/b`,
    `/v1/${id}/storage/v1/upload/resumable`,
    `/v1/${id}/realtime/v1/api/broadcast`,
    `/v1/queue/${id}/send`,
    `/v1/cache/${id}/get/a`,
    `/v1/cron/${id}/jobs`,
    `/v1/whoami/${id}`,
    `/v1/rest/${someId}/items`,
  ]
  for (const path of paths) {
    const reply = await preflight(path, 'authorization,X-My-App,  x-tenant,apikey')
    assert.equal(reply.status, 204, path)
    const allowed = listOf(reply, 'access-control-allow-headers')
    for (const name of ['authorization', 'apikey', 'x-my-app', 'x-tenant', 'prefer'])
      assert.equal(allowed.filter(each => each === name).length, 1, `${path}: ${name}`)
    assert.ok(Number(reply.headers.get('access-control-max-age')) > 0)
    assert.match(reply.headers.get('vary') ?? '', /access-control-request-headers/i)
  }
})

test('1 §7 a preflight returns only names of headers, and as many as a list may have', async () => {
  const path = `/v1/whoami/${rows.project.id}`
  const base = listOf(await preflight(path), 'access-control-allow-headers')
  const odd = await preflight(path, 'x-good, b@d, "x", x y, <script>, , x-good, ü')
  assert.deepEqual(listOf(odd, 'access-control-allow-headers'), [...base, 'x-good'])
  const many = Array.from({ length: 300 }, (_, i) => `x-${i}`).join()
  const added = listOf(await preflight(path, many), 'access-control-allow-headers').length - base.length
  assert.ok(added > 50 && added <= 100, `${added}`)
  const long = await preflight(path, `x-${'a'.repeat(6000)}`)
  assert.deepEqual(listOf(long, 'access-control-allow-headers'), base)
})

test('3 §7 the management API answers no preflight', async () => {
  const reply = await preflight('/api/v1/projects', 'authorization')
  assert.equal(reply.headers.get('access-control-allow-origin'), null)
  assert.equal(reply.headers.get('access-control-allow-headers'), null)
})
