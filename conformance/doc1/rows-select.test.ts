// 1 §4.2 and REST contract §4 "select": columns, aliases, casts, JSON paths, computed fields and aggregates.
import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { assertRefused, assertStatus, type RowsApi, rowsProject } from '../rows.ts'
import { type Target, target } from '../target.ts'

let it: Target
let rows: RowsApi
before(async () => {
  it = await target()
  rows = await rowsProject(
    it,
    `
    create type public.place as (lat int, lon int, names text[]);
    create table public.films (
      id int primary key, title text, year int, price numeric, meta jsonb, plain json, tags text[], place public.place
    );
    insert into public.films values
      (1, 'Metropolis', 1927, 9.50, '{"tier":"gold","n":1,"stats":{"count":12},"list":[{"k":"v"},2]}', '{"b": 1, "a": 2}',
        '{old,silent}', row(1, 2, '{x,y}')),
      (2, 'Alien', 1979, 3.25, '{"tier":"tin","n":2}', null, '{space}', null),
      (3, 'Aliens', 1986, 3.25, null, null, '{}', null);
    create function public.label(public.films) returns text language sql stable as $$ select $1.title || ' (' || $1.year || ')' $$;
    create function public.age_in(film public.films, at int) returns int language sql stable as $$ select at - film.year $$;

    create table public.sales (id int primary key, shop text, film_id int references public.films, amount int, cost numeric);
    insert into public.sales values (1, 'north', 1, 10, 1.5), (2, 'north', 2, 20, 2.5), (3, 'south', 2, 5, null), (4, 'west', null, 7, 4);

    create table public."Tägliche Werte" ("a b" int, "größe" int, "q""q" int, "x-y" int, "c.d" int, "select" int, "Upper" int);
    insert into public."Tägliche Werte" values (1, 2, 3, 4, 5, 6, 7);

    create table public.precise (id int primary key, big bigint, exact numeric, half real, at timestamptz, nothing text, flag bool, raw bytea);
    insert into public.precise values
      (1, 9007199254740993, 12345678901234567890.123456789, 0.5, '2020-01-02 03:04:05+00', null, true, '\\xdeadbeef');
    `,
  )
})
after(() => it.stop())

const film = (select: string) => rows.read(`films?select=${select}&id=eq.1`).then(([first]: any) => first)

function returnsColumns(what: string, cases: Record<string, unknown>): void {
  for (const [select, row] of Object.entries(cases))
    test(`1 §4.2 ${what}: ${select}`, async () => assert.deepEqual(await film(select), row))
}

returnsColumns('columns', {
  id: { id: 1 },
  'id,title': { id: 1, title: 'Metropolis' },
  'title,id': { title: 'Metropolis', id: 1 },
  'id, title , year': { id: 1, title: 'Metropolis', year: 1927 },
  '"id","title"': { id: 1, title: 'Metropolis' },
})

test('1 §4.2 without select, and with *, all columns are returned', async () => {
  const [whole] = await rows.read('films?id=eq.1')
  assert.deepEqual(Object.keys(whole), ['id', 'title', 'year', 'price', 'meta', 'plain', 'tags', 'place'])
  assert.deepEqual(whole.tags, ['old', 'silent'])
  assert.deepEqual(whole.place, { lat: 1, lon: 2, names: ['x', 'y'] })
  assert.deepEqual(await film('*'), whole)
  assert.deepEqual(await film('*,again:title'), { ...whole, again: 'Metropolis' })
})

returnsColumns('aliases', {
  'name:title': { name: 'Metropolis' },
  'a:id,b:id': { a: 1, b: 1 },
  '"two words":title': { 'two words': 'Metropolis' },
  'two words:title': { 'two words': 'Metropolis' },
  'größe:id': { größe: 1 },
  '"a,b":id': { 'a,b': 1 },
})

returnsColumns('casts', {
  'id::text': { id: '1' },
  'n:id::text': { n: '1' },
  'price::int': { price: 10 },
  'id::numeric,year::text': { id: 1, year: '1927' },
  'id::double precision': { id: 1 },
  'meta->>n::int': { n: 1 },
  'n2:meta->n::int': { n2: 1 },
})

returnsColumns('JSON paths, named after their last key', {
  'meta->>tier': { tier: 'gold' },
  'meta->tier': { tier: 'gold' },
  'meta->n': { n: 1 },
  'meta->>n': { n: '1' },
  'meta->stats': { stats: { count: 12 } },
  'meta->stats->count': { count: 12 },
  'meta->stats->>count': { count: '12' },
  'meta->nothing->more': { more: null },
  'meta->list->0->>k': { k: 'v' },
  'first:meta->list->1': { first: 2 },
  'first:meta->list->>1': { first: '2' },
  'first:tags->0': { first: 'old' },
  'place->lat': { lat: 1 },
  'name:place->names->>1': { name: 'y' },
  'plain->a': { a: 2 },
})

test('1 §4.2 a JSON path that ends in an index needs an alias', async () => {
  for (const select of ['tags->0', 'meta->list->1', 'meta->list->>1', 'id,tags->0'])
    assertStatus(await rows.get(`films?select=${select}`), 400)
})

test('REST contract §5: an unknown column returns 42703, and the hint names the most similar one', async () => {
  const reply = await rows.get('films?select=id,titel')
  assertRefused(reply, 400, '42703', { hint: /Perhaps you meant.*title/ })
  assertRefused(await rows.get('films?select=titel->a'), 400, '42703')
})

test('REST contract §5: an invalid select returns 400', async () => {
  for (const select of [
    'id,,title',
    'id,',
    ',id',
    'id(',
    'id)',
    'id::',
    ':id',
    '"id',
    'sales(',
    'sales(id',
    '...id',
    'a:b:c',
  ])
    assertRefused(await rows.get(`films?select=${select}`), 400, 'PGRST100')
})

test('REST contract §4: a cast to an unknown type, or to something that is not a type, returns 400', async () => {
  for (const cast of ['id::notatype', 'id::int;drop table films', "id::text'", 'id::int)'])
    assertStatus(await rows.get(`films?select=${cast}`), 400)
  assertStatus(await rows.get('films?select=title::int'), 400)
  assert.equal((await rows.read('films?select=id')).length, 3)
})

test('REST contract §4: names can contain spaces, quotes, dots, hyphens and any letter', async () => {
  const selects = {
    'a b': { 'a b': 1 },
    '"a b"': { 'a b': 1 },
    größe: { größe: 2 },
    '"q\\"q"': { 'q"q': 3 },
    'x-y': { 'x-y': 4 },
    '"c.d"': { 'c.d': 5 },
    '"select"': { select: 6 },
    Upper: { Upper: 7 },
    'n:"c.d"::text': { n: '5' },
  }
  for (const [select, row] of Object.entries(selects))
    assert.deepEqual(await rows.read(`Tägliche Werte?select=${select}`), [row], select)
  assertRefused(await rows.get('Tägliche Werte?select=upper'), 400, '42703')
})

test('REST contract §4: a computed field is returned only when selected, and can filter and order', async () => {
  assert.deepEqual(await film('id,label'), { id: 1, label: 'Metropolis (1927)' })
  assert.deepEqual(await film('l:label'), { l: 'Metropolis (1927)' })
  assert.ok(!('label' in (await film('*'))))
  assert.deepEqual(await rows.read('films?select=id&label=like.*(1986)'), [{ id: 3 }])
  assert.deepEqual(await rows.read('films?select=id&order=label.desc'), [{ id: 1 }, { id: 3 }, { id: 2 }])
  assertRefused(await rows.get('films?select=age_in'), 400, '42703')
})

test('REST contract §4: count and count() count the rows', async () => {
  assert.deepEqual(await rows.read('films?select=count'), [{ count: 3 }])
  assert.deepEqual(await rows.read('films?select=count()'), [{ count: 3 }])
  assert.deepEqual(await rows.read('films?select=n:count()&year=gt.1950'), [{ n: 2 }])
  assert.deepEqual(await rows.read('films?select=count&id=gt.100'), [{ count: 0 }])
})

const sales = (select: string, query = '') => rows.read(`sales?select=${select}${query}`)

test('REST contract §4: an aggregate is named after its function unless it has an alias', async () => {
  assert.deepEqual(await sales('amount.sum()'), [{ sum: 42 }])
  assert.deepEqual(await sales('amount.avg()'), [{ avg: 10.5 }])
  assert.deepEqual(await sales('amount.max(),least:amount.min()'), [{ max: 20, least: 5 }])
  assert.deepEqual(await sales('cost.count()'), [{ count: 3 }])
  assert.deepEqual(await sales('total:amount.sum()', '&shop=eq.north'), [{ total: 30 }])
})

test('REST contract §4: columns without an aggregate are the grouping keys', async () => {
  assert.deepEqual(await sales('shop,amount.sum()', '&order=shop'), [
    { shop: 'north', sum: 30 },
    { shop: 'south', sum: 5 },
    { shop: 'west', sum: 7 },
  ])
  assert.deepEqual(await sales('where:shop,count()', '&order=shop'), [
    { where: 'north', count: 2 },
    { where: 'south', count: 1 },
    { where: 'west', count: 1 },
  ])
})

test('REST contract §4: casts before and after an aggregate', async () => {
  assert.deepEqual(await sales('amount.sum()::text'), [{ sum: '42' }])
  assert.deepEqual(await sales('cost.avg()::int'), [{ avg: 3 }])
  assert.deepEqual(await sales('amount::text.max()'), [{ max: '7' }])
  assert.deepEqual(await rows.read('films?select=top:meta->>n::int.max()'), [{ top: 2 }])
})

test('REST contract §4: aggregates and counts of embedded rows', async () => {
  const counted = await rows.read('films?select=id,sales(count)&order=id')
  assert.deepEqual(counted, [
    { id: 1, sales: [{ count: 1 }] },
    { id: 2, sales: [{ count: 2 }] },
    { id: 3, sales: [{ count: 0 }] },
  ])
  assert.deepEqual(await rows.read('films?select=id,sales(n:count())&id=eq.2'), [
    { id: 2, sales: [{ n: 2 }] },
  ])
  const summed = await rows.read('films?select=id,sales(amount.sum())&id=lt.3&order=id')
  assert.deepEqual(summed, [
    { id: 1, sales: [{ sum: 10 }] },
    { id: 2, sales: [{ sum: 25 }] },
  ])
  const byShop = await rows.read('films?select=id,sales(shop,amount.sum())&id=eq.2&sales.order=shop')
  assert.deepEqual(byShop[0].sales, [
    { shop: 'north', sum: 20 },
    { shop: 'south', sum: 5 },
  ])
})

test('REST contract §4: only five aggregates exist', async () => {
  for (const select of [
    'amount.string_agg()',
    'amount.stddev()',
    'amount.pg_sleep()',
    'amount.sum(',
    'amount.sum(1)',
  ])
    assertStatus(await rows.get(`sales?select=${select}`), 400)
})

test('1 §2.1 values are returned as Postgres writes them, with every digit', async () => {
  const { text } = await rows.get('precise')
  assert.match(text, /"big":\s*9007199254740993\b/)
  assert.match(text, /"exact":\s*12345678901234567890\.123456789\b/)
  const [{ big: _, exact: __, at, ...rest }] = JSON.parse(text)
  assert.deepEqual(rest, { id: 1, half: 0.5, nothing: null, flag: true, raw: '\\xdeadbeef' })
  assert.equal(new Date(at).toISOString(), '2020-01-02T03:04:05.000Z')
})

test('security: functions of the project that are named like built-in ones do not change results', async () => {
  await rows.ddl(`
    create table public.plain (id int primary key, word text); insert into public.plain values (1, 'x');
    create policy everybody on public.plain using (true) with check (true);
    create function public.to_json(public.plain) returns json language sql immutable as $$ select '"mine"'::json $$;
    create function public.to_jsonb(public.plain) returns jsonb language sql immutable as $$ select '"mine"'::jsonb $$;
    create function public.row_to_json(public.plain) returns json language sql immutable as $$ select '"mine"'::json $$;
    create function public.to_json(text) returns json language sql immutable as $$ select '"mine"'::json $$;
    create function public.count(int) returns int language sql immutable as $$ select 77 $$;
    create function public.word(public.plain) returns text language sql immutable as $$ select 'mine' $$;`)
  assert.deepEqual(await rows.read('plain'), [{ id: 1, word: 'x' }])
  assert.deepEqual(await rows.read('plain?select=word'), [{ word: 'x' }])
  assert.deepEqual(await rows.read('plain?select=id.count()'), [{ count: 1 }])
  const reply = await rows.post('plain', { id: 2, word: 'y' }, { prefer: 'return=representation' })
  assert.deepEqual(reply.body, [{ id: 2, word: 'y' }], reply.text)
})

test('1 §4.1 an unknown table returns 404', async () => {
  assertRefused(await rows.get('film'), 404, 'PGRST205', { hint: /Perhaps you meant.*films/ })
})

test('1 §9 the native and the alias path select the same way', async () => {
  for (const shape of ['native', 'alias'] as const)
    assert.deepEqual(await rows.read('films?select=t:title,meta->>tier&id=lt.3&order=id', { shape }), [
      { t: 'Metropolis', tier: 'gold' },
      { t: 'Alien', tier: 'tin' },
    ])
})

test('security: no part of a select reaches Postgres as SQL', async () => {
  for (const select of [
    'id"; drop table films; --',
    'id) from films; drop table films; --',
    'x":id',
    "x';drop table films;--:id",
    "id->>a'); drop table films; --",
    '"id\\"; drop table films; --"',
  ]) {
    const reply = await rows.get(`films?select=${select}`)
    assert.ok(reply.status < 500, `${select}: ${reply.status} ${reply.text}`)
  }
  assert.equal((await rows.read('films?select=id')).length, 3)
})
