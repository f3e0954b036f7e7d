// Functions and aggregates that return a domain with the name of a media type.
import assert from 'node:assert/strict'
import { before, test } from 'node:test'
import { prefer, rowsProject } from './rows-project.ts'

const { platform, project, rows, owner } = rowsProject()

before(() =>
  owner(`
    create domain "image/png" as bytea;
    create domain "text/html" as text;
    create domain "text/csv" as text;
    create domain "application/vnd.list" as text;
    create domain "*/*" as bytea;

    create function logo() returns "image/png" immutable language sql as $$ select '\\x89504e47ff00'::bytea $$;
    create function page(name text) returns "text/html" immutable language sql as
      $$ select '<h1>' || name || '</h1>' $$;
    create function anything() returns "*/*" language plpgsql as $$ begin
      perform set_config('response.headers', '[{"Content-Type": "application/x-own"}]', true);
      return 'own'::bytea;
    end $$;

    create function list_step(state text, next things) returns "application/vnd.list" immutable language sql as
      $$ select state || next.name || ';' $$;
    create aggregate list_all(things) (sfunc = list_step, stype = "application/vnd.list", initcond = '');

    create table reports (id int primary key, name text);
    alter table reports disable row level security;
    insert into reports values (1, 'a'), (2, 'b');
    create function csv_step(state text, next reports) returns "text/csv" immutable language sql as
      $$ select state || next.id || '=' || next.name || E'\\n' $$;
    create function csv_end(state "text/csv") returns "text/csv" language plpgsql as $$ begin
      perform set_config('response.headers', '[{"Content-Disposition": "attachment"}]', true);
      return 'own' || E'\\n' || state;
    end $$;
    create aggregate csv_all(reports) (sfunc = csv_step, stype = "text/csv", initcond = '', finalfunc = csv_end);
    create domain "application/x-ids" as text;
    create table odd (id int primary key, t0 int, r int);
    alter table odd disable row level security;
    insert into odd values (1, 2, 3);
    create function ids_step(state text, next odd) returns "application/x-ids" immutable language sql as
      $$ select state || next.id || next.t0 || next.r $$;
    create aggregate ids_all(odd) (sfunc = ids_step, stype = "application/x-ids", initcond = '');
    create function all_odd() returns setof odd stable language sql as $$ select * from odd $$;
    create domain "application/x-any" as text;
    create function any_step(state text, next anyelement) returns "application/x-any" immutable language sql as
      $$ select state || to_json(next)::text $$;
    create aggregate any_all(anyelement) (sfunc = any_step, stype = "application/x-any", initcond = '');
    create function all_reports() returns setof reports stable language sql as $$ select * from reports $$`),
)

async function get(path: string, accept: string) {
  const reply = await fetch(`${platform.url}/v1/rest/${project.id}/${path}`, {
    headers: { apikey: project.service_role_key, accept },
  })
  return {
    status: reply.status,
    type: reply.headers.get('content-type'),
    headers: reply.headers,
    body: Buffer.from(await reply.arrayBuffer()),
  }
}

test('media types: a function answers with the bytes or the text of its media type', async () => {
  const image = await get('rpc/logo', 'image/png')
  assert.deepEqual([image.status, image.type, image.body.toString('hex')], [200, 'image/png', '89504e47ff00'])
  const page = await get('rpc/page?name=x', 'text/html, */*;q=0.1')
  assert.deepEqual([page.type, page.body.toString()], ['text/html; charset=utf-8', '<h1>x</h1>'])
  const json = await get('rpc/page?name=x', 'application/json')
  assert.deepEqual([json.type, json.body.toString()], ['application/json; charset=utf-8', '"<h1>x</h1>"'])
  assert.equal((await get('rpc/page?name=x', 'image/png')).status, 406)
})

test('media types: a function of any media type answers every request, and may name the type', async () => {
  for (const accept of ['*/*', 'text/plain', 'image/gif']) {
    const { type, body } = await get('rpc/anything', accept)
    assert.deepEqual([type, body.toString()], ['application/x-own', 'own'], accept)
  }
})

test('media types: an aggregate over the rows of a table serves the table and functions that return its rows', async () => {
  const list = await get('things?id=gt.1&order=id.desc&limit=2', 'application/vnd.list')
  assert.deepEqual([list.status, list.type, list.body.toString()], [200, 'application/vnd.list', 'x5;x4;'])
  assert.equal(list.headers.get('content-range'), '0-1/*')
  assert.equal((await get('reports', 'application/vnd.list')).status, 406)
  assert.equal((await get('things?select=name', 'application/vnd.list')).status, 406, 'not all columns')
})

test('media types: an aggregate replaces a built-in media type, and may set headers', async () => {
  for (const path of ['reports?order=id', 'rpc/all_reports?order=id']) {
    const { type, headers, body } = await get(path, 'text/csv')
    assert.deepEqual([type, body.toString()], ['text/csv; charset=utf-8', 'own\n1=a\n2=b\n'], path)
    assert.equal(headers.get('content-disposition'), 'attachment')
  }
  assert.equal((await get('things?select=id&id=eq.1', 'text/csv')).body.toString(), 'id\n1')
})

test('media types: an aggregate gets whole rows, whatever their columns are named', async () => {
  for (const path of ['odd', 'rpc/all_odd'])
    assert.equal((await get(path, 'application/x-ids')).body.toString(), '123', path)
  assert.equal((await get('odd', 'application/x-any')).body.toString(), '{"id":1,"t0":2,"r":3}')
  assert.equal((await get('odd?select=r:id,x:t0', 'application/x-any')).body.toString(), '{"r":1,"x":2}')
})

test('media types: a browser does not run what a project answers, unless its function says so', async () => {
  for (const path of ['rpc/page?name=x', 'rpc/anything']) {
    const { headers } = await get(path, 'text/html')
    assert.equal(headers.get('content-security-policy'), 'sandbox', path)
    assert.equal(headers.get('x-content-type-options'), 'nosniff', path)
  }
  await owner(`create function live() returns "text/html" language plpgsql as $$ begin
    perform set_config('response.headers', '[{"Content-Security-Policy": "default-src https:"}]', true);
    return '<p>'; end $$`)
  assert.equal(
    (await get('rpc/live', 'text/html')).headers.get('content-security-policy'),
    'default-src https:',
  )
})

test('media types: a write answers with the media type of its table', async () => {
  const headers = { accept: 'text/csv', ...prefer('return=representation') }
  const reply = await rows('POST', 'reports', { body: { id: 3, name: 'c' }, headers })
  assert.deepEqual([reply.status, reply.body], [201, 'own\n3=c\n'])
})

test('media types: a domain, an aggregate or a function that is dropped is no longer used', async () => {
  assert.equal((await get('things', 'application/vnd.list')).status, 200)
  await owner('drop aggregate list_all(things)')
  const { status, body } = await get('things', 'application/vnd.list')
  assert.deepEqual([status, JSON.parse(body.toString()).code], [406, 'PGRST107'])
})
