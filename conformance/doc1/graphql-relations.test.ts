// GraphQL contract §3 and §4: nested rows, several foreign keys to one table, nodes by id and by key.
import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { fieldTypes, type GraphqlApi, graphqlProject, typeOf } from '../graphql.ts'
import { type Target, target } from '../target.ts'

let it: Target
let api: GraphqlApi
before(async () => {
  it = await target()
  api = await graphqlProject(
    it,
    `
    create table public.addresses (id int primary key, street text);
    create table public.orders (id int primary key, item text,
      billing_id int references public.addresses, shipping_id int references public.addresses);
    insert into public.addresses values (1, 'Main'), (2, 'Side'), (3, 'Empty');
    insert into public.orders values (1, 'lamp', 1, 2), (2, 'desk', 2, 2), (3, 'chair', null, 1);

    create table public.staff (id int primary key, name text, manager_id int references public.staff);
    insert into public.staff values (1, 'Top', null), (2, 'Mid', 1), (3, 'Low', 2), (4, 'Low too', 2);

    create table public.pairs (a int, "B" text, note text, primary key (a, "B"));
    insert into public.pairs values (1, 'x, "y"', 'one'), (2, 'ü', 'two');
    create table public.keys (id uuid primary key, big bigint unique);
    insert into public.keys values ('00000000-0000-4000-8000-000000000001', 9007199254740993);
    create table public.bigs (id bigint primary key, note text);
    insert into public.bigs values (9007199254740993, 'big');

    create table public.tags (id int primary key, label text);
    create table public.order_tags (order_id int references public.orders, tag_id int references public.tags, primary key (order_id, tag_id));
    insert into public.tags values (1, 'red'), (2, 'blue');
    insert into public.order_tags values (1, 1), (1, 2), (2, 1);

    create table public.events (id int, day date, order_id int references public.orders, primary key (id, day)) partition by range (day);
    create table public.events_2020 partition of public.events for values from ('2020-01-01') to ('2021-01-01');
    insert into public.events values (1, '2020-05-05', 2);
    `,
  )
})
after(() => it.stop())

const base64 = (text: string) => Buffer.from(text).toString('base64')

test('Issue: two foreign keys to one table have fields named after their columns', async () => {
  const orders = await fieldTypes(api, 'orders')
  assert.equal(orders['billing'], 'addresses')
  assert.equal(orders['shipping'], 'addresses')
  assert.ok(!('addresses' in orders))
  const addresses = await fieldTypes(api, 'addresses')
  assert.equal(addresses['ordersCollectionBy_billing_id'], 'ordersConnection')
  assert.equal(addresses['ordersCollectionBy_shipping_id'], 'ordersConnection')
  assert.ok(!('ordersCollection' in addresses))
  const document = `{
    ordersByPk(id: 1) { billing { street } shipping { street } }
    lonely: ordersByPk(id: 3) { billing { street } shipping { street } }
    addressesByPk(id: 2) {
      ordersCollectionBy_billing_id { edges { node { id } } }
      ordersCollectionBy_shipping_id { edges { node { id } } totalCount }
    }
  }`
  assert.deepEqual(await api.data(document), {
    ordersByPk: { billing: { street: 'Main' }, shipping: { street: 'Side' } },
    lonely: { billing: null, shipping: { street: 'Main' } },
    addressesByPk: {
      ordersCollectionBy_billing_id: { edges: [{ node: { id: 2 } }] },
      ordersCollectionBy_shipping_id: { edges: [{ node: { id: 1 } }, { node: { id: 2 } }], totalCount: 2 },
    },
  })
})

test('GraphQL contract §3: a table that references itself', async () => {
  const document = `{ staffCollection(filter: { id: { in: [1, 3] } }) { edges { node {
    name manager { name manager { name manager { name } } } staff { id } staffCollection { edges { node { id } } } } } } }`
  assert.deepEqual(await api.nodes(document), [
    { name: 'Top', manager: null, staff: null, staffCollection: { edges: [{ node: { id: 2 } }] } },
    {
      name: 'Low',
      manager: { name: 'Mid', manager: { name: 'Top', manager: null } },
      staff: { id: 2 },
      staffCollection: { edges: [] },
    },
  ])
})

test('GraphQL contract §4: relations nest, with filters and order at each level', async () => {
  const document = `{ ordersCollection(orderBy: [{ item: AscNullsLast }]) { edges { node {
    item order_tagsCollection(orderBy: [{ tag_id: DescNullsLast }], filter: { tag_id: { lte: 2 } }, first: 1) {
      totalCount edges { node { tags { label order_tagsCollection { edges { node { orders { item } } } } } } } } } } } }`
  const red = {
    label: 'red',
    order_tagsCollection: {
      edges: [{ node: { orders: { item: 'lamp' } } }, { node: { orders: { item: 'desk' } } }],
    },
  }
  const blue = { label: 'blue', order_tagsCollection: { edges: [{ node: { orders: { item: 'lamp' } } }] } }
  assert.deepEqual(await api.nodes(document), [
    { item: 'chair', order_tagsCollection: { totalCount: 0, edges: [] } },
    { item: 'desk', order_tagsCollection: { totalCount: 1, edges: [{ node: { tags: red } }] } },
    { item: 'lamp', order_tagsCollection: { totalCount: 2, edges: [{ node: { tags: blue } }] } },
  ])
})

test('GraphQL contract §4: partitioned tables are tables', async () => {
  const document =
    '{ eventsCollection { edges { node { id day orders { item } } } } ordersByPk(id: 2) { eventsCollection { edges { node { id } } } } }'
  assert.deepEqual(await api.data(document), {
    eventsCollection: { edges: [{ node: { id: 1, day: '2020-05-05', orders: { item: 'desk' } } }] },
    ordersByPk: { eventsCollection: { edges: [{ node: { id: 1 } }] } },
  })
})

test('GraphQL contract §4: ByPk takes every column of the key and returns the row or null', async () => {
  const { fields } = (await typeOf(api, 'Query'))!
  assert.deepEqual(fields['pairsByPk']?.args, { a: 'Int!', B: 'String!' })
  assert.equal(fields['pairsByPk']?.type, 'pairs')
  assert.deepEqual(fields['keysByPk']?.args, { id: 'UUID!' })
  const document = `{
    pairsByPk(a: 2, B: "ü") { note } none: pairsByPk(a: 2, B: "x") { note }
    keysByPk(id: "00000000-0000-4000-8000-000000000001") { big }
    bigsByPk(id: "9007199254740993") { note } again: bigsByPk(id: 9007199254740993) { id }
  }`
  assert.deepEqual(await api.data(document), {
    pairsByPk: { note: 'two' },
    none: null,
    keysByPk: { big: '9007199254740993' },
    bigsByPk: { note: 'big' },
    again: { id: '9007199254740993' },
  })
  assert.match(await api.error('{ pairsByPk(a: 2) { note } }'), /B/)
  await api.error('{ pairsByPk(a: 2, B: null) { note } }')
  await api.error('{ keysByPk(id: "text") { big } }')
})

test('GraphQL contract §4: nodeId is base64 of schema, table and key', async () => {
  const document =
    '{ pairsCollection { edges { node { nodeId } } } ordersByPk(id: 1) { nodeId } bigsCollection { edges { node { nodeId } } } }'
  const { pairsCollection, ordersByPk, bigsCollection } = await api.data(document)
  assert.equal(ordersByPk.nodeId, base64('["public", "orders", 1]'))
  assert.deepEqual(
    pairsCollection.edges.map(({ node }: any) => Buffer.from(node.nodeId, 'base64').toString()),
    ['["public", "pairs", 1, "x, \\"y\\""]', '["public", "pairs", 2, "ü"]'],
  )
  const big = await api.data('query($id: ID!) { node(nodeId: $id) { ... on bigs { id } } }', {
    variables: { id: bigsCollection.edges[0].node.nodeId },
  })
  assert.deepEqual(big, { node: { id: '9007199254740993' } })
  assert.equal((await fieldTypes(api, 'orders'))['nodeId'], 'ID!')
  assert.deepEqual(await fieldTypes(api, 'Node'), { nodeId: 'ID!' })
})

test('GraphQL contract §4: node finds every row by its nodeId', async () => {
  const document = `query($id: ID!) { node(nodeId: $id) { nodeId __typename
    ... on orders { item billing { street } order_tagsCollection(first: 1) { edges { node { tag_id } } } } ... on pairs { note } } }`
  const find = async (id: string) => (await api.data(document, { variables: { id } })).node
  const order = base64('["public", "orders", 1]')
  assert.deepEqual(await find(order), {
    nodeId: order,
    __typename: 'orders',
    item: 'lamp',
    billing: { street: 'Main' },
    order_tagsCollection: { edges: [{ node: { tag_id: 1 } }] },
  })
  assert.equal((await find(base64('["public", "pairs", 1, "x, \\"y\\""]'))).note, 'one')
  assert.equal((await find(base64('["public","orders",2]'))).item, 'desk')
  assert.equal(await find(base64('["public", "orders", 99]')), null)
})

test('GraphQL contract §10: an invalid nodeId is an error', async () => {
  const invalid = [
    '',
    '%',
    'text',
    base64('{}'),
    base64('["public"]'),
    base64('["public", "orders"]'),
    base64('["public", "orders", "text"]'),
  ]
  for (const id of invalid) {
    const reply = await api.ask('query($id: ID!) { node(nodeId: $id) { nodeId } }', { variables: { id } })
    assert.equal(reply.status, 200, `${id} ${reply.text}`)
    assert.ok(reply.body.errors?.[0].message, `${Buffer.from(id, 'base64')} ${reply.text}`)
    assert.equal(reply.body.data, null)
  }
  await api.error('{ node { nodeId } }')
})

test('GraphQL contract §10: a nodeId of the wrong shape is an error', async () => {
  for (const id of ['[1, 2, 3]', '["public", "orders", 1, 2]', '["public", "pairs", 1, "x", 3]'])
    await api.error(`{ node(nodeId: "${base64(id)}") { nodeId } }`)
})
