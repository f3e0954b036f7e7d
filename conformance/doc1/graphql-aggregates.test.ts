// GraphQL contract §4 and §8: totalCount and aggregates.
import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { fieldTypes, type GraphqlApi, graphqlProject } from '../graphql.ts'
import { type Target, target } from '../target.ts'

let it: Target
let api: GraphqlApi
before(async () => {
  it = await target()
  api = await graphqlProject(
    it,
    `
    create table public.shops (id int primary key, name text);
    create table public.sales (id int primary key, shop_id int references public.shops, pieces int, big bigint, price numeric, weight float8,
      note text, paid boolean, day date, at timestamptz, doc jsonb, secret int);
    comment on table public.sales is '@graphql({"aggregate": {"enabled": true}, "totalCount": {"enabled": true}})';
    insert into public.shops values (1, 'north'), (2, 'south'), (3, 'empty');
    insert into public.sales values
      (1, 1, 1, 9007199254740993, 1.10, 0.5, 'a', true, '2024-01-01', '2024-01-01T00:00:00Z', '{}', 1),
      (2, 1, 2, 1, 2.20, 1.5, 'b', false, '2024-02-01', '2024-02-01T00:00:00Z', '{}', 2),
      (3, 2, 4, 2, 12345678901234567890.5, 2, 'c', true, '2024-03-01', '2024-03-01T00:00:00Z', null, 3),
      (4, 2, null, null, null, null, null, null, null, null, null, null);
    create table public.plain (id int primary key);
    create table public.own (id int primary key, owner text, amount int);
    comment on table public.own is '@graphql({"aggregate": {"enabled": true}})';
    insert into public.own values (1, 'a', 10), (2, 'b', 20);
    `,
  )
  await api.rows.ddl(`
    drop policy everybody on public.own;
    create policy own on public.own to authenticated using (owner = auth.jwt() ->> 'owner');
    revoke select on public.sales from anon;
    grant select (id, shop_id, pieces, big, price, weight, note, paid, day, at, doc) on public.sales to anon`)
})
after(() => it.stop())

const aggregate = async (selection: string, args = '') =>
  (await api.data(`{ salesCollection${args} { aggregate { ${selection} } } }`)).salesCollection.aggregate

test('GraphQL contract §8: types of aggregates', async () => {
  assert.equal((await fieldTypes(api, 'salesConnection'))['totalCount'], 'Int!')
  const connection = (await fieldTypes(api, 'salesConnection'))['aggregate']!.replace('!', '')
  const fields = await fieldTypes(api, connection)
  assert.deepEqual(Object.keys(fields).sort(), ['avg', 'count', 'max', 'min', 'sum'])
  assert.equal(fields['count'], 'Int!')
  const of = (name: string) => fieldTypes(api, fields[name]!.replace('!', ''))
  const sum = await of('sum')
  assert.equal(sum['pieces'], 'BigInt')
  assert.equal(sum['price'], 'BigFloat')
  for (const name of ['note', 'paid', 'day', 'doc', 'at']) assert.ok(!(name in sum), `sum ${name}`)
  const avg = await of('avg')
  assert.equal(avg['pieces'], 'BigFloat')
  assert.equal(avg['price'], 'BigFloat')
  for (const name of ['min', 'max']) {
    const types = await of(name)
    const expected = {
      pieces: 'Int',
      big: 'BigInt',
      price: 'BigFloat',
      weight: 'Float',
      note: 'String',
      paid: 'Boolean',
      day: 'Date',
      at: 'Datetime',
    }
    for (const [column, type] of Object.entries(expected))
      assert.equal(types[column], type, `${name} ${column}`)
    assert.ok(!('doc' in types))
  }
  for (const name of ['sum', 'avg', 'min', 'max'])
    assert.ok(!('secret' in (await of(name))), `${name} secret`)
})

test('GraphQL contract §8: values of aggregates', async () => {
  assert.deepEqual(await aggregate('count sum { pieces } min { pieces note day } max { note big }'), {
    count: 4,
    sum: { pieces: '7' },
    min: { pieces: 1, note: 'a', day: '2024-01-01' },
    max: { note: 'c', big: '9007199254740993' },
  })
  const { sum, avg, min, max } = await aggregate(
    'sum { price big } avg { pieces } min { paid price at weight } max { paid }',
  )
  assert.equal(sum.price, '12345678901234567893.80')
  assert.equal(Number(sum.big), 9007199254740996)
  assert.equal(typeof sum.big, 'string')
  assert.equal(Number(avg.pieces).toFixed(4), '2.3333')
  assert.equal(typeof avg.pieces, 'string')
  assert.deepEqual(
    { ...min, at: Date.parse(min.at) },
    { paid: false, price: '1.10', weight: 0.5, at: Date.parse('2024-01-01T00:00:00Z') },
  )
  assert.deepEqual(max, { paid: true })
})

test('GraphQL contract §8: aggregates use the filter and ignore the page', async () => {
  assert.deepEqual(await aggregate('count sum { pieces }', '(first: 1, filter: { shop_id: { eq: 1 } })'), {
    count: 2,
    sum: { pieces: '3' },
  })
  assert.deepEqual(await aggregate('count sum { pieces } max { note }', '(filter: { id: { eq: 99 } })'), {
    count: 0,
    sum: { pieces: null },
    max: { note: null },
  })
  const both =
    '{ salesCollection(first: 1) { totalCount aggregate { n: count s: sum { p: pieces } __typename } edges { node { id } } } }'
  const { totalCount, aggregate: found, edges } = (await api.data(both)).salesCollection
  assert.deepEqual([totalCount, found.n, found.s, edges], [4, 4, { p: '7' }, [{ node: { id: 1 } }]])
})

test('GraphQL contract §8: aggregates of nested collections', async () => {
  const document =
    '{ shopsCollection { edges { node { name salesCollection { totalCount aggregate { count max { pieces } } } } } } }'
  assert.deepEqual(await api.nodes(document), [
    { name: 'north', salesCollection: { totalCount: 2, aggregate: { count: 2, max: { pieces: 2 } } } },
    { name: 'south', salesCollection: { totalCount: 2, aggregate: { count: 2, max: { pieces: 4 } } } },
    { name: 'empty', salesCollection: { totalCount: 0, aggregate: { count: 0, max: { pieces: null } } } },
  ])
})

test('GraphQL contract §8: aggregates need the directive', async () => {
  assert.match(await api.error('{ plainCollection { aggregate { count } } }'), /aggregate/)
  assert.ok(!('aggregate' in (await fieldTypes(api, 'plainConnection'))))
})

test('1 §4.4 aggregates and counts include only the rows the caller sees', async () => {
  const document = '{ ownCollection { totalCount aggregate { count sum { amount } } } }'
  const as = { sub: '3f2f7f0e-0d3c-4d6a-9d65-2f1f0a4a2c11', owner: 'b' }
  assert.deepEqual(await api.data(document, { as }), {
    ownCollection: { totalCount: 1, aggregate: { count: 1, sum: { amount: '20' } } },
  })
  assert.deepEqual(await api.data(document), {
    ownCollection: { totalCount: 0, aggregate: { count: 0, sum: { amount: null } } },
  })
  assert.match(await api.error('{ salesCollection { aggregate { sum { secret } } } }'), /secret/)
})
