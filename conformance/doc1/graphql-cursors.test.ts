// GraphQL contract §4: cursors and order of a collection.
import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { fieldTypes, type GraphqlApi, graphqlProject, typeOf } from '../graphql.ts'
import { cursorOf, pageOf, readPage } from '../graphql-pages.ts'
import { type Target, target } from '../target.ts'

let it: Target
let api: GraphqlApi
before(async () => {
  it = await target()
  api = await graphqlProject(
    it,
    `
    create table public.items (id int primary key, bucket int, label text, data jsonb, tags text[]);
    insert into public.items select i, i % 5, 'item ' || i, '{}', '{}' from generate_series(1, 40) i;
    create table public.scores (id int primary key, points int, name text);
    insert into public.scores values (1, null, 'b'), (2, 5, 'a'), (3, 1, 'b'), (4, null, 'a'), (5, 5, 'b'), (6, 3, null), (7, 1, 'a');
    create table public.pairs (a int, b text, note text, primary key (a, b));
    insert into public.pairs values (1, 'x', 'one'), (1, 'y', 'two'), (2, 'x', 'three');
    create table public.stamps (id uuid primary key, at timestamptz, amount numeric, big bigint, ratio float8, ok boolean);
    insert into public.stamps select gen_random_uuid(), '2024-01-01T00:00:00.123456Z'::timestamptz + (i % 4) * interval '1 microsecond',
      (i % 3) + 0.12345678901234567890, 9007199254740993 + (i % 3), 0.1 * (i % 4), i % 2 = 0 from generate_series(1, 12) i;
    `,
  )
})
after(() => it.stop())

const ids = async (args: string, name = 'items') => (await readPage(api, name, args)).ids
const range = (from: number, to: number) => Array.from({ length: to - from + 1 }, (_, i) => from + i)

test('GraphQL contract §4: a cursor is base64 of the JSON array of the order and the primary key', async () => {
  const { cursors } = await readPage(api, 'items', 'first: 1')
  assert.deepEqual(cursors, ['WzFd'])
  const decoded = async (args: string) =>
    JSON.parse(Buffer.from((await readPage(api, 'scores', args)).cursors[0]!, 'base64').toString())
  assert.deepEqual(await decoded('first: 1, orderBy: [{ points: AscNullsFirst }, { name: AscNullsLast }]'), [
    null,
    'a',
    4,
  ])
  const pairs = await api.data('{ pairsCollection(first: 1) { edges { cursor } } }')
  assert.deepEqual(JSON.parse(Buffer.from(pairs.pairsCollection.edges[0].cursor, 'base64').toString()), [
    1,
    'x',
  ])
})

test('GraphQL contract §10: an invalid cursor is an error', async () => {
  const base64 = (text: string) => JSON.stringify(Buffer.from(text).toString('base64'))
  const cases = [
    '"%"',
    '""',
    '"wrong"',
    base64('{}'),
    base64('['),
    base64('5'),
    cursorOf(),
    cursorOf(1, 2),
    cursorOf('text'),
    cursorOf({}),
  ]
  for (const text of cases) {
    await api.error(pageOf('items', `after: ${text}`))
    await api.error(pageOf('items', `before: ${text}`))
  }
  await api.error(pageOf('items', `orderBy: [{ label: AscNullsLast }], after: ${cursorOf(5)}`))
})

test('GraphQL contract §4: the four orders, with the primary key as tie-break', async () => {
  const scores = (order: string) => ids(`orderBy: ${order}`, 'scores')
  assert.deepEqual(await scores('[{ points: AscNullsFirst }]'), [1, 4, 3, 7, 6, 2, 5])
  assert.deepEqual(await scores('[{ points: AscNullsLast }]'), [3, 7, 6, 2, 5, 1, 4])
  assert.deepEqual(await scores('[{ points: DescNullsFirst }]'), [1, 4, 2, 5, 6, 3, 7])
  assert.deepEqual(await scores('[{ points: DescNullsLast }]'), [2, 5, 6, 3, 7, 1, 4])
  assert.deepEqual(
    await scores('[{ points: DescNullsLast }, { name: DescNullsLast }]'),
    [5, 2, 6, 3, 7, 1, 4],
  )
  assert.deepEqual(await scores('{ points: AscNullsLast }'), [3, 7, 6, 2, 5, 1, 4])
  assert.deepEqual(await scores('[{ points: DescNullsLast }, { id: DescNullsLast }]'), [5, 2, 6, 7, 3, 4, 1])
  assert.deepEqual(await scores('[]'), range(1, 7))
  assert.deepEqual(await scores('null'), range(1, 7))
  assert.deepEqual((await typeOf(api, 'OrderByDirection'))?.enumValues.sort(), [
    'AscNullsFirst',
    'AscNullsLast',
    'DescNullsFirst',
    'DescNullsLast',
  ])
})

test('GraphQL contract §4: an element of orderBy has one column, which must be orderable', async () => {
  await api.error(pageOf('scores', 'orderBy: [{ points: AscNullsLast, name: AscNullsLast }]'))
  await api.error('query($o: [scoresOrderBy!]) { scoresCollection(orderBy: $o) { edges { cursor } } }', {
    variables: { o: [{ points: 'AscNullsLast', name: 'AscNullsLast' }] },
  })
  await api.error(pageOf('scores', 'orderBy: [{ points: Ascending }]'))
  assert.match(await api.error(pageOf('scores', 'orderBy: [{ wrong: AscNullsLast }]')), /wrong/)
  for (const column of ['data', 'tags'])
    assert.match(
      await api.error(pageOf('items', `orderBy: [{ ${column}: AscNullsLast }]`)),
      new RegExp(column),
    )
  const orderable = Object.keys(await fieldTypes(api, 'itemsOrderBy'))
  for (const column of ['id', 'bucket', 'label']) assert.ok(orderable.includes(column), column)
})

async function walk(
  name: string,
  order: string,
  direction: 'forward' | 'backward',
  size: number,
): Promise<any[]> {
  const found: any[] = []
  for (let at: string | null = null, i = 0; i < 50; i++) {
    const place: string =
      at === null ? '' : direction === 'forward' ? `, after: "${at}"` : `, before: "${at}"`
    const count = direction === 'forward' ? `first: ${size}` : `last: ${size}`
    const reply = await readPage(api, name, `${count}${place}, orderBy: ${order}`)
    if (direction === 'forward') found.push(...reply.ids)
    else found.unshift(...reply.ids)
    at = direction === 'forward' ? reply.endCursor : reply.startCursor
    if (!(direction === 'forward' ? reply.hasNextPage : reply.hasPreviousPage)) break
  }
  return found
}

test('GraphQL contract §4: the selected fields of pageInfo do not change the order of the edges', async () => {
  const fields = ['hasNextPage', 'hasPreviousPage', 'startCursor', 'endCursor']
  for (const selection of [
    ...fields,
    fields.join(' '),
    'startCursor hasNextPage',
    'endCursor hasPreviousPage',
  ])
    for (const args of [
      'first: 3',
      'last: 3',
      'first: 3, orderBy: [{ points: DescNullsLast }]',
      'offset: 2',
    ]) {
      const { ids: expected, ...info } = await readPage(api, 'scores', args)
      const { scoresCollection } = await api.data(
        `{ scoresCollection(${args}) { edges { node { id } } pageInfo { ${selection} } } }`,
      )
      const found = scoresCollection.edges.map(({ node }: any) => node.id)
      assert.deepEqual(found, expected, `${args} ${selection}`)
      for (const [name, value] of Object.entries(scoresCollection.pageInfo))
        assert.equal(value, info[name as keyof typeof info], `${args} ${name}`)
    }
})

test('GraphQL contract §4: cursors visit every row once, with nulls and equal values, in both directions', async () => {
  for (const a of ['AscNullsFirst', 'AscNullsLast', 'DescNullsFirst', 'DescNullsLast'])
    for (const b of ['AscNullsFirst', 'DescNullsLast']) {
      const order = `[{ points: ${a} }, { name: ${b} }]`
      const all = await ids(`orderBy: ${order}`, 'scores')
      assert.equal(all.length, 7)
      for (const direction of ['forward', 'backward'] as const)
        assert.deepEqual(await walk('scores', order, direction, 2), all, `${order} ${direction}`)
    }
})

test('GraphQL contract §4: cursors keep the full precision of values', async () => {
  for (const column of ['at', 'amount', 'big', 'ratio', 'ok', 'id']) {
    const order = `[{ ${column}: DescNullsLast }]`
    const all = await ids(`orderBy: ${order}`, 'stamps')
    assert.equal(all.length, 12)
    for (const direction of ['forward', 'backward'] as const)
      assert.deepEqual(await walk('stamps', order, direction, 5), all, `${column} ${direction}`)
  }
})
