// REST contract §2 and §3: Content-Location, Location, the type of a HEAD, and the path that SQL sees.
import assert from 'node:assert/strict'
import { after, before, beforeEach, test } from 'node:test'
import { type RowsApi, rootOf, rowsProject } from '../rows.ts'
import { type Target, target } from '../target.ts'

let it: Target
let rows: RowsApi
before(async () => {
  it = await target()
  rows = await rowsProject(
    it,
    `
    create table public.items (id int primary key, name text);
    create table public.pairs (a int, b text, primary key (a, b));
    create table public."odd names" (id int primary key);
    create table public.plain (name text);
    create view public.item_view as select name, id as item_id from public.items;
    create view public.pair_view as select b as second, a as first from public.pairs;
    create view public.half_view as select a from public.pairs;
    create view public.trigger_view as select id, name || '!' as name from public.items;
    create function public.insert_item() returns trigger language plpgsql as $$ begin
      insert into public.items values (new.id, new.name); return new; end $$;
    create trigger insert_item instead of insert on public.trigger_view
      for each row execute function public.insert_item();
    create view public.blind_view as select id, name || '?' as name from public.items;
    create function public.ignore_item() returns trigger language plpgsql as $$ begin return new; end $$;
    create trigger ignore_item instead of insert on public.blind_view
      for each row execute function public.ignore_item();
    create table public.seen (id int primary key, path text default current_setting('request.path', true));
    create function public.path() returns text language sql stable as $$ select current_setting('request.path', true) $$;
    create function public.nothing() returns void language sql stable as $$ select $$;
    `,
  )
})
beforeEach(() =>
  rows.sql(`truncate public.items, public.pairs, public.seen; insert into public.items values (1, 'a')`),
)
after(() => it.stop())

/** Sends the query exactly as written. */
const raw = (method: string, path: string) =>
  it.call(method, `${rootOf(rows.project)}/${path}`, { apikey: rows.project.anon_key })

test('REST contract §3: Content-Location has the path below the API and the parameters in order', async () => {
  const cases: [string, string][] = [
    ['items', '/items'],
    ['items?', '/items'],
    ['items?id=eq.1', '/items?id=eq.1'],
    ['items?select=id,name&id=eq.1', '/items?id=eq.1&select=id%2Cname'],
    ['items?order=id&limit=1&id=gte.1&id=lt.9', '/items?id=gte.1&id=lt.9&limit=1&order=id'],
    ['items?name=eq.a+b', '/items?name=eq.a%20b'],
    ['items?name=eq.%C3%BC', '/items?name=eq.%C3%BC'],
    ["items?id=in.(1,2)&name=neq.!'*", '/items?id=in.%281%2C2%29&name=neq.%21%27%2A'],
    ['odd%20names', '/odd%20names'],
  ]
  for (const [path, location] of cases)
    for (const method of ['GET', 'HEAD']) {
      const { status, headers, text } = await raw(method, path)
      assert.equal(status, 200, `${path}: ${text}`)
      assert.equal(headers.get('content-location'), location, `${method} ${path}`)
    }
  const alias = await rows.get('items?id=eq.1', { shape: 'alias' })
  assert.equal(alias.headers.get('content-location'), '/items?id=eq.1')
})

test('REST contract §3: only reads of tables and views have a Content-Location, and only a short one', async () => {
  assert.equal((await rows.get('rpc/path')).headers.get('content-location'), null)
  assert.equal((await rows.post('plain', { name: 'x' })).headers.get('content-location'), null)
  const long = await rows.get(`items?id=in.(${Array.from({ length: 1500 }, (_, i) => i).join()})`)
  assert.equal(long.status, 200)
  assert.equal(long.headers.get('content-location'), null)
})

test('REST contract §3: Location names the inserted row of a table', async () => {
  const prefer = 'return=headers-only'
  const locations: [string, Record<string, unknown>, string | null][] = [
    ['items', { id: 2 }, '/items?id=eq.2'],
    ['pairs', { a: 1, b: 'x y&z' }, '/pairs?a=eq.1&b=eq.x%20y%26z'],
    ['plain', { name: 'x' }, null],
  ]
  for (const [path, body, location] of locations)
    for (const shape of ['native', 'alias'] as const) {
      const reply = await rows.post(path, body, { prefer, shape })
      assert.deepEqual([reply.status, reply.headers.get('location')], [201, location], reply.text)
      await rows.sql('truncate public.items, public.pairs')
    }
})

test('REST contract §3: Location names the inserted row of a view by the key of its table', async () => {
  const prefer = 'return=headers-only'
  const locations: [string, Record<string, unknown>, string][] = [
    ['item_view', { item_id: 3, name: 'c' }, '/item_view?item_id=eq.3'],
    ['pair_view', { second: 'x', first: 1 }, '/pair_view?first=eq.1&second=eq.x'],
    ['trigger_view', { id: 4, name: 'd' }, '/trigger_view?id=eq.4'],
    ['blind_view', { name: 'e' }, '/blind_view?id=is.null'],
  ]
  for (const [path, body, location] of locations) {
    const reply = await rows.post(path, body, { prefer })
    assert.deepEqual([reply.status, reply.headers.get('location')], [201, location], reply.text)
  }
  await rows.sql('alter table public.pairs alter b set default $$z$$')
  const half = await rows.post('half_view', { a: 5 }, { prefer })
  assert.deepEqual([half.status, half.headers.get('location')], [201, null], half.text)
})

test('REST contract §3: HEAD has the Content-Type of the GET', async () => {
  const accepts = ['application/json', 'text/csv', 'application/vnd.pgrst.object+json', '*/*']
  for (const path of ['items?id=eq.1', 'item_view?limit=1', 'rpc/path'])
    for (const accept of path.startsWith('rpc') ? ['application/json'] : accepts) {
      const [get, head] = [
        await rows.get(path, { headers: { accept } }),
        await rows.head(path, { headers: { accept } }),
      ]
      assert.deepEqual([get.status, head.status], [200, 200], `${path} ${accept}`)
      assert.ok(get.headers.get('content-type'))
      assert.equal(head.headers.get('content-type'), get.headers.get('content-type'), `${path} ${accept}`)
    }
  assert.equal((await rows.head('rpc/nothing')).headers.get('content-type'), null)
})

test('1 §5 request.path is the path below the API, on both paths', async () => {
  for (const shape of ['native', 'alias'] as const) {
    assert.equal(await rows.read('rpc/path', { shape }), '/rpc/path')
    assert.equal((await rows.post('rpc/path', {}, { shape })).body, '/rpc/path')
    const prefer = 'return=representation'
    const { body } = await rows.post('seen?select=path', { id: shape.length }, { prefer, shape })
    assert.deepEqual(body, [{ path: '/seen' }])
  }
})
