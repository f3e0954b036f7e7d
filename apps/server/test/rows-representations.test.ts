// Casts between a domain and json or text: how values of the domain are shown, filtered and written.
import assert from 'node:assert/strict'
import { before, test } from 'node:test'
import { prefer, rowsProject } from './rows-project.ts'

const { rows, owner } = rowsProject()

before(() =>
  owner(`
    create domain color as int check (value between 0 and 16777215);
    create table palettes (id int primary key, name text);
    create table swatches (id int primary key, palette int references palettes, shade color);
    create function color_json(color) returns json immutable language sql as
      $$ select to_json('#' || lpad(to_hex($1), 6, '0')) $$;
    create function color_text(color) returns text immutable language sql as
      $$ select '#' || lpad(to_hex($1), 6, '0') $$;
    create function color_of(text) returns color immutable language sql as
      $$ select ('x' || lpad(ltrim($1, '#'), 8, '0'))::bit(32)::int::color $$;
    create function color_of(json) returns color immutable language sql as $$ select color_of($1 #>> '{}') $$;
    create cast (color as json) with function color_json(color) as implicit;
    create cast (color as text) with function color_text(color) as implicit;
    create cast (text as color) with function color_of(text) as implicit;
    create cast (json as color) with function color_of(json) as implicit;
    create function shades() returns setof swatches stable language sql as $$ select * from swatches $$;
    insert into palettes values (1, 'warm');
    insert into swatches values (1, 1, 255), (2, 1, 65280)`),
)

const get = async (path: string, headers = {}) => {
  const { status, body } = await rows('GET', path, { headers })
  assert.equal(status, 200, `${path}: ${JSON.stringify(body)}`)
  return body
}

test('representations: values are shown as the cast to json returns them, also in embedded and returned rows', async () => {
  assert.deepEqual(await get('swatches?select=shade&order=id'), [{ shade: '#0000ff' }, { shade: '#00ff00' }])
  assert.deepEqual(await get('swatches?id=eq.1'), [{ id: 1, palette: 1, shade: '#0000ff' }])
  assert.deepEqual(await get('palettes?select=swatches(shade)&swatches.order=id&swatches.limit=1'), [
    { swatches: [{ shade: '#0000ff' }] },
  ])
  assert.deepEqual(await get('rpc/shades?select=shade&id=eq.2'), [{ shade: '#00ff00' }])
  assert.deepEqual(await get('swatches?select=shade::int&id=eq.1'), [{ shade: 255 }])
})

test('representations: values are grouped beside an aggregate', async () => {
  assert.deepEqual(await get('swatches?select=shade,id.max()&order=shade'), [
    { shade: '#0000ff', max: 1 },
    { shade: '#00ff00', max: 2 },
  ])
})

test('representations: values of a spread relation are grouped beside an aggregate', async () => {
  await owner(
    'create table uses (id int primary key, swatch int references swatches); insert into uses values (1, 2), (2, 2)',
  )
  assert.deepEqual(await get('uses?select=...swatches(shade),id.count()'), [{ shade: '#00ff00', count: 2 }])
})

test('representations: a CSV text has the cast to text', async () => {
  assert.equal(await get('swatches?select=id,shade&id=eq.1', { accept: 'text/csv' }), 'id,shade\n1,#0000ff')
})

test('representations: values of filters are read by the cast from text', async () => {
  const ids = async (filter: string) =>
    (await get(`swatches?select=id&order=id&${filter}`)).map(({ id }: { id: number }) => id)
  assert.deepEqual(await ids('shade=eq.%2300ff00'), [2])
  assert.deepEqual(await ids('shade=in.(%230000ff,%2300ff00)'), [1, 2])
  assert.deepEqual(await ids('shade=not.eq.%2300ff00'), [1])
  assert.deepEqual(await ids('shade=eq(any).{%230000ff}'), [1])
  assert.deepEqual(await ids('shade=is.null'), [])
})

test('representations: bodies are read by the cast from json, and CSV and forms by the cast from text', async () => {
  const headers = prefer('return=representation')
  const inserted = await rows('POST', 'swatches', { body: { id: 3, shade: '#ff0000' }, headers })
  assert.deepEqual(inserted.body, [{ id: 3, palette: null, shade: '#ff0000' }])
  const patched = await rows('PATCH', 'swatches?id=eq.3&select=shade', {
    body: { shade: '#000001' },
    headers,
  })
  assert.deepEqual(patched.body, [{ shade: '#000001' }])
  const csv = await rows('POST', 'swatches?select=shade', {
    body: 'id,shade\n4,#000002',
    headers: { ...headers, 'content-type': 'text/csv' },
  })
  assert.deepEqual(csv.body, [{ shade: '#000002' }])
  assert.deepEqual(await get('swatches?select=shade::int&id=gt.2&order=id'), [{ shade: 1 }, { shade: 2 }])
})

test('representations: without casts the value itself is used', async () => {
  await owner('drop cast (color as json); drop cast (text as color); drop cast (json as color)')
  assert.deepEqual(await get('swatches?select=shade&shade=eq.255'), [{ shade: 255 }])
  assert.equal((await rows('POST', 'swatches', { body: { id: 9, shade: 7 } })).status, 201)
})
