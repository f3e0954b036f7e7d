// How the arguments of a function call find their parameters, and what the function's result becomes.
import assert from 'node:assert/strict'
import { before, test } from 'node:test'
import { prefer, rowsProject } from './rows-project.ts'

const { rows, owner } = rowsProject()

before(() =>
  owner(`
    create function keep(a text) returns text immutable language sql as $$ select a $$;
    create function total(variadic v int[]) returns int immutable language sql as
      $$ select sum(x)::int from unnest(v) x $$;
    create function padded(c char(5), b bit(4)) returns text immutable language sql as
      $$ select c || '|' || b $$;
    create function above(id bigint) returns setof things stable language sql as
      $$ select * from things t where t.id >= above.id order by t.id $$;
    create function unnamed(text) returns text immutable language sql as $$ select 'got ' || $1 $$;
    create function half_named(int, b int) returns int immutable language sql as $$ select $1 - b $$;
    create function either() returns text immutable language sql as $$ select 'none'::text $$;
    create function either(a int) returns text immutable language sql as $$ select 'named'::text $$;
    create function either(json) returns text immutable language sql as $$ select 'whole'::text $$;
    create function twice(json) returns text immutable language sql as $$ select 'json'::text $$;
    create function twice(jsonb) returns text immutable language sql as $$ select 'jsonb'::text $$;
    create function pair(a int, b json) returns json immutable language sql as
      $$ select json_build_object('a', a, 'b', b) $$;
    create function one_record() returns record immutable language sql as $$ select 1 as id, 'x'::text as name $$;
    create function records() returns setof record stable language sql as $$ select id, name from things $$;
    create type measure as (amount int, unit text);
    create domain positive_measure as measure check ((value).amount > 0);
    create function measured() returns positive_measure immutable language sql as
      $$ select row(2, 'kg')::positive_measure $$;
    create function all_measured() returns setof positive_measure immutable language sql as
      $$ select row(i, 'kg')::positive_measure from generate_series(1, 3) i $$;
    create function same(a int) returns int immutable language sql as $$ select a $$;
    create function same(a text) returns text immutable language sql as $$ select a $$;
    create function numbers() returns setof int immutable language sql as $$ select generate_series(1, 3) $$;
    create function wordy(int default 1, a int default null, "select" int default null, x int default null)
      returns table (id int, got text) immutable language sql as $$ select 1, concat_ws(',', $1, a, "select", x) $$;
    create function two_unnamed(int, text default 'z') returns text immutable language sql as $$ select $1 || $2 $$;
    create function only_json(json) returns json immutable language sql as $$ select $1 $$`),
)

const post = (name: string, body: unknown, headers: Record<string, string> = {}) =>
  rows('POST', `rpc/${name}`, { body, headers })
const get = (path: string, headers: Record<string, string> = {}) => rows('GET', `rpc/${path}`, { headers })

test('calls: of a repeated parameter the last value counts, unless it is variadic', async () => {
  assert.equal((await get('keep?a=1&a=2')).body, '2')
  assert.equal((await get('total?v=1&v=2&v=3')).body, 6)
  assert.equal((await get('total?v=4')).body, 4)
  assert.equal((await get('total?v={4,5}')).body, 9)
  const form = async (name: string, text: string) =>
    (await post(name, text, { 'content-type': 'application/x-www-form-urlencoded' })).body
  assert.equal(await form('keep', 'a=1&a=2'), '2')
  assert.equal(await form('total', 'v=1&v=2&v=3'), 6)
  assert.equal(await form('total', 'v=4'), 4)
  assert.equal(await form('total', 'v={4,5}'), 9)
})

test('calls: char(n) and bit(n) arguments are not truncated', async () => {
  assert.equal((await get('padded?c=abcde&b=1010')).body, 'abcde|1010')
  assert.equal((await post('padded', { c: 'abcde', b: '1010' })).body, 'abcde|1010')
})

test('calls: a parameter that is also a column filters the result if its value has an operator', async () => {
  const ids = async (query: string) => (await get(`above?${query}`)).body.map((row: { id: number }) => row.id)
  assert.deepEqual(await ids('id=2&id=lt.4'), [2, 3])
  assert.deepEqual(await ids('id=4'), [4, 5])
  assert.equal((await get('keep?a=eq.1')).body, 'eq.1', 'keep returns no column "a"')
})

test('calls: an argument without a name is for the first parameter, which has none', async () => {
  assert.equal((await post('unnamed', { '': 'x' })).body, 'got x')
  assert.equal((await get('unnamed?=x')).body, 'got x')
  assert.equal((await post('half_named', { '': 5, b: 2 })).body, 2 + 1)
})

test('calls: named parameters come before a parameter that takes the whole body', async () => {
  assert.equal((await post('either', { a: 1 })).body, 'named')
  assert.equal((await post('either', {})).body, 'none')
  assert.equal((await post('either', { other: 1 })).body, 'whole')
  assert.equal((await post('either', [1, 2])).body, 'none')
})

test('calls: columns names the arguments of an object, an array and a CSV text', async () => {
  const expected = { a: 1, b: { x: 1 } }
  assert.deepEqual((await post('pair', { a: 1, b: { x: 1 } })).body, expected)
  assert.deepEqual((await post('pair?columns=a,b', { a: 1, b: { x: 1 }, c: 3 })).body, expected)
  assert.deepEqual((await post('pair', [{ a: 1, b: { x: 1 } }])).body, expected)
  assert.deepEqual((await post('pair?columns=a,b', [{ a: 1, b: { x: 1 }, c: 3 }, { a: 2 }])).body, expected)
  const csv = { 'content-type': 'text/csv' }
  assert.deepEqual((await post('pair', 'a,b\n1,"{""x"":1}"', csv)).body, expected)
  assert.deepEqual((await post('pair?columns=a,b', 'a,b,c\n1,"{""x"":1}",3', csv)).body, expected)
  const form = { 'content-type': 'application/x-www-form-urlencoded' }
  assert.deepEqual((await post('pair', 'a=1&b={"x":1}', form)).body, expected)
})

test('calls: a function that returns a record answers with its columns', async () => {
  assert.deepEqual((await post('one_record', {})).body, { id: 1, name: 'x' })
  assert.deepEqual((await post('records', {})).body.slice(0, 2), [
    { id: 1, name: 'x1' },
    { id: 2, name: 'x2' },
  ])
})

test('calls: a domain over a composite type has the columns of the type', async () => {
  assert.deepEqual((await post('measured', {})).body, { amount: 2, unit: 'kg' })
  assert.deepEqual((await post('all_measured?select=amount&amount=gte.2', {})).body, [
    { amount: 2 },
    { amount: 3 },
  ])
})

test('calls: an exact count of a scalar is one, and of a set its number of values', async () => {
  const range = async (name: string) =>
    (await post(name, {}, prefer('count=exact'))).headers.get('content-range')
  assert.equal(await range('either'), '0-0/1')
  assert.equal(await range('measured'), '0-0/1')
  assert.equal(await range('numbers'), '0-2/3')
})

test('calls: overloads that cannot be told apart are PGRST203', async () => {
  for (const [name, body] of [
    ['same', { a: 1 }],
    ['twice', { x: 1 }],
  ] as const) {
    const reply = await post(name, body)
    assert.deepEqual([reply.status, reply.body.code], [400, 'PGRST203'], name)
  }
})

test('calls: a hint never proposes the call that has just failed', async () => {
  const failed = await get('only_json')
  assert.deepEqual([failed.status, failed.body.code, failed.body.hint], [404, 'PGRST202', ''])
  const misnamed = await post('pair', { a: 1, c: 2 })
  assert.equal(misnamed.body.hint, 'Perhaps you meant to call the function public.pair(a, b)')
})

test('calls: names of arguments are not mistaken for parameters of the query', async () => {
  assert.deepEqual((await post('wordy', { a: 7, '': 2, select: 8, x: 9 })).body, [{ id: 1, got: '2,7,8,9' }])
  const other = await post('wordy?select=x', { a: 7 })
  assert.deepEqual([other.status, other.body.code], [400, '42703'], 'the result has no column "x"')
  assert.deepEqual((await post('wordy?select=got', { a: 7 })).body, [{ got: '1,7' }])
})

test('calls: of several unnamed parameters the first one is given', async () => {
  assert.equal((await post('two_unnamed', { '': 5 })).body, '5z')
})

test('calls: a function with very many overloads answers soon and with a short message', async () => {
  const parameters = (index: number) =>
    Array.from(
      { length: 90 },
      (_, at) => `a${at + 1} ${(index >> at) & 1 ? 'int' : 'text'} default null`,
    ).join()
  await owner(
    Array.from(
      { length: 300 },
      (_, index) => `create function many(${parameters(index)}) returns int language sql as $$ select 1 $$`,
    ).join(';'),
  )
  const names = Array.from({ length: 1600 }, (_, at) => `unknown${at}`)
  const unknown = await post('many', Object.fromEntries(names.map(name => [name, 1])))
  assert.deepEqual([unknown.status, unknown.body.code], [404, 'PGRST202'])
  const ambiguous = await post('many', { a1: 1 })
  assert.deepEqual([ambiguous.status, ambiguous.body.code], [400, 'PGRST203'])
  assert.ok(ambiguous.body.message.length < 100_000, `${ambiguous.body.message.length}`)
  assert.match(ambiguous.body.message, /, …$/)
})

test('calls: arguments in the query string fit a function that was created or changed since the last request', async () => {
  assert.equal((await get('numbers')).status, 200)
  await owner(`create function fresh(variadic v int[]) returns int immutable language sql as
    $$ select sum(x)::int from unnest(v) x $$`)
  assert.equal((await get('fresh?v=1&v=2')).body, 3)
  await owner(`drop function fresh; create function fresh(v text) returns text immutable language sql as
    $$ select v || '!' $$`)
  assert.equal((await get('fresh?v=1&v=2')).body, '2!')
})

test('calls: a function over a long chain of domains can be called', async () => {
  const chain = Array.from(
    { length: 60 },
    (_, index) => `create domain d${index + 1} as ${index === 0 ? 'int' : `d${index}`}`,
  )
  await owner(`${chain.join(';')}; create function deep(a d60) returns d60 immutable language sql as $$ select a $$;
    create table deep_rows (id int primary key, a d60); alter table deep_rows disable row level security;
    insert into deep_rows values (1, 7)`)
  assert.equal((await get('deep?a=5')).body, 5)
  assert.deepEqual((await rows('GET', 'deep_rows?a=eq.7')).body, [{ id: 1, a: 7 }])
})

test('calls: a computed field of very many tables is offered for each of them', async () => {
  const tables = Array.from({ length: 110 }, (_, index) => `c${index}`)
  await owner(
    tables
      .map(
        name => `create table ${name} (id int primary key); alter table ${name} disable row level security;
          insert into ${name} values (1);
          create function label(${name}) returns text immutable language sql as $$ select '${name}' $$`,
      )
      .join(';'),
  )
  for (const name of ['c0', 'c99', 'c100', 'c109'])
    assert.deepEqual((await rows('GET', `${name}?select=id,label`)).body, [{ id: 1, label: name }], name)
})
