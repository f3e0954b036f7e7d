// GraphQL contract §4: pages of a collection.
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
    create table public.nothing (id int primary key);
    create table public.rare (id int primary key);
    insert into public.rare select generate_series(1, 80);
    comment on table public.rare is '@graphql({"max_rows": 50})';
    create table public.owners (id int primary key);
    create table public.pets (id int primary key, owner_id int references public.owners);
    insert into public.owners values (1), (2);
    insert into public.pets select i, 1 + i % 2 from generate_series(1, 80) i;
    `,
  )
})
after(() => it.stop())

const ids = async (args: string, name = 'items') => (await readPage(api, name, args)).ids
const range = (from: number, to: number) => Array.from({ length: to - from + 1 }, (_, i) => from + i)

test('GraphQL contract §4: arguments and types of a collection', async () => {
  const field = (await typeOf(api, 'Query'))!.fields['itemsCollection']!
  assert.equal(field.type, 'itemsConnection!')
  assert.deepEqual(field.args, {
    first: 'Int',
    last: 'Int',
    before: 'Cursor',
    after: 'Cursor',
    offset: 'Int',
    filter: 'itemsFilter',
    orderBy: '[itemsOrderBy!]',
  })
  const connection = await fieldTypes(api, 'itemsConnection')
  assert.equal(connection['edges'], '[itemsEdge!]!')
  assert.equal(connection['pageInfo'], 'PageInfo!')
  assert.equal(connection['totalCount'] ?? 'Int!', 'Int!')
  assert.deepEqual(await fieldTypes(api, 'itemsEdge'), { cursor: 'String!', node: 'items!' })
  assert.deepEqual(await fieldTypes(api, 'PageInfo'), {
    hasNextPage: 'Boolean!',
    hasPreviousPage: 'Boolean!',
    startCursor: 'String',
    endCursor: 'String',
  })
})

test('GraphQL contract §4: a page has 30 rows unless fewer are asked for, in the order of the primary key', async () => {
  assert.deepEqual(await ids(''), range(1, 30))
  assert.deepEqual(await ids('first: null'), range(1, 30))
  assert.deepEqual(await ids('first: 3'), [1, 2, 3])
  assert.deepEqual(await ids('first: 31'), range(1, 30))
  assert.deepEqual(await ids('first: 2147483647'), range(1, 30))
  assert.deepEqual(await ids('last: 1000'), range(11, 40))
  assert.deepEqual(await ids('first: 0'), [])
})

test('GraphQL contract §4: last returns the end of the collection in normal order', async () => {
  assert.deepEqual(await ids('last: 3'), [38, 39, 40])
  assert.deepEqual(await ids(`last: 2, before: ${cursorOf(10)}`), [8, 9])
  assert.deepEqual(await ids('last: 2, orderBy: [{ id: DescNullsLast }]'), [2, 1])
})

test('GraphQL contract §4: after, before and offset', async () => {
  assert.deepEqual(await ids(`first: 2, after: ${cursorOf(5)}`), [6, 7])
  assert.deepEqual(await ids(`after: ${cursorOf(38)}`), [39, 40])
  assert.deepEqual(await ids(`after: ${cursorOf(40)}`), [])
  assert.deepEqual(await ids(`before: ${cursorOf(4)}`), [1, 2, 3])
  assert.deepEqual(await ids('first: 2, offset: 5'), [6, 7])
  assert.deepEqual(await ids(`first: 2, offset: 5, after: ${cursorOf(10)}`), [16, 17])
  assert.deepEqual(await ids('offset: 100'), [])
  assert.deepEqual(await ids('offset: 38'), [39, 40])
})

test('GraphQL contract §4: contradictory and negative arguments are errors', async () => {
  const c = cursorOf(5)
  const cases = [
    'first: 1, last: 1',
    `before: ${c}, after: ${c}`,
    `first: 1, before: ${c}`,
    `last: 1, after: ${c}`,
    'last: 1, offset: 1',
    `before: ${c}, offset: 1`,
    'first: -1',
    'last: -1',
    'offset: -1',
    'first: 1.5',
    'first: "1"',
    'last: true',
    'first: 4294967296',
  ]
  for (const args of cases) await api.error(pageOf('items', args))
  assert.match(await api.error(pageOf('items', 'first: 1, last: 1')), /first.*last|last.*first/)
  const variable = 'query($n: Int) { itemsCollection(first: $n) { edges { cursor } } }'
  await api.error(variable, { variables: { n: -1 } })
})

test('GraphQL contract §4: pageInfo', async () => {
  const c = (id: number) => Buffer.from(`[${id}]`).toString('base64')
  const info = async (name: string, args: string) => {
    const { ids: _, cursors: __, ...rest } = await readPage(api, name, args)
    return rest
  }
  assert.deepEqual(await info('items', 'first: 2'), {
    hasNextPage: true,
    hasPreviousPage: false,
    startCursor: c(1),
    endCursor: c(2),
  })
  assert.deepEqual(await info('items', ''), {
    hasNextPage: true,
    hasPreviousPage: false,
    startCursor: c(1),
    endCursor: c(30),
  })
  assert.deepEqual(await info('items', `first: 2, after: ${cursorOf(38)}`), {
    hasNextPage: false,
    hasPreviousPage: true,
    startCursor: c(39),
    endCursor: c(40),
  })
  assert.deepEqual(await info('items', 'first: 2, offset: 1'), {
    hasNextPage: true,
    hasPreviousPage: true,
    startCursor: c(2),
    endCursor: c(3),
  })
  assert.deepEqual(await info('items', 'last: 2'), {
    hasNextPage: false,
    hasPreviousPage: true,
    startCursor: c(39),
    endCursor: c(40),
  })
  assert.deepEqual(await info('items', `last: 2, before: ${cursorOf(3)}`), {
    hasNextPage: true,
    hasPreviousPage: false,
    startCursor: c(1),
    endCursor: c(2),
  })
  assert.deepEqual(await info('nothing', ''), {
    hasNextPage: false,
    hasPreviousPage: false,
    startCursor: null,
    endCursor: null,
  })
})

test('GraphQL contract §4: pageInfo does not need the edges', async () => {
  const document = '{ itemsCollection(first: 2) { pageInfo { hasNextPage endCursor } } }'
  assert.deepEqual(await api.data(document), {
    itemsCollection: { pageInfo: { hasNextPage: true, endCursor: 'WzJd' } },
  })
})

test('GraphQL contract §4: totalCount ignores the page but not the filter', async () => {
  const count = async (args: string) =>
    (await api.data(`{ itemsCollection${args} { totalCount edges { node { id } } } }`)).itemsCollection
      .totalCount
  assert.equal(await count(''), 40)
  assert.equal(await count('(first: 2)'), 40)
  assert.equal(await count(`(last: 2, before: ${cursorOf(10)})`), 40)
  assert.equal(await count('(offset: 100)'), 40)
  assert.equal(await count('(first: 1, filter: { bucket: { eq: 2 } })'), 8)
})

test('GraphQL contract §4: max_rows of a table changes the default and the maximum', async () => {
  assert.equal((await ids('', 'rare')).length, 50)
  assert.equal((await ids('first: 60', 'rare')).length, 50)
  assert.equal((await ids('first: 40', 'rare')).length, 40)
  assert.equal((await ids('last: 60', 'rare')).length, 50)
})

test('GraphQL contract §4: pages of a nested collection', async () => {
  const document = `{ ownersCollection { edges { node { id petsCollection { edges { node { id } } pageInfo { hasNextPage } }
    two: petsCollection(first: 2, after: "WzRd", orderBy: [{ id: AscNullsLast }], filter: { id: { gt: 5 } }) { edges { node { id } } }
    end: petsCollection(last: 1) { edges { node { id } } totalCount } } } } }`
  await api.error(document)
  const valid = document.replace(', orderBy: [{ id: AscNullsLast }]', '')
  const [first, second] = await api.nodes(valid)
  assert.equal(first.petsCollection.edges.length, 30)
  assert.equal(first.petsCollection.pageInfo.hasNextPage, true)
  assert.deepEqual(first.two.edges, [{ node: { id: 6 } }, { node: { id: 8 } }])
  assert.deepEqual(second.two.edges, [{ node: { id: 7 } }, { node: { id: 9 } }])
  assert.deepEqual(
    [first.end, second.end].map(({ edges, totalCount }) => [edges[0].node.id, totalCount]),
    [
      [80, 40],
      [79, 40],
    ],
  )
})
