// GraphQL contract §1: operations, fragments, aliases, variables, @skip and @include.
import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { type GraphqlApi, graphqlProject } from '../graphql.ts'
import { type Target, target } from '../target.ts'

let it: Target
let api: GraphqlApi
before(async () => {
  it = await target()
  api = await graphqlProject(
    it,
    `
    create table public.authors (id int primary key, name text not null);
    create table public.posts (id int primary key, author_id int references public.authors, title text);
    insert into public.authors values (1, 'Ada'), (2, 'Alan');
    insert into public.posts values (1, 1, 'one'), (2, 1, 'two'), (3, 2, 'three');
    `,
  )
})
after(() => it.stop())

const nodeId = (...parts: unknown[]) =>
  Buffer.from(`[${parts.map(part => JSON.stringify(part)).join(', ')}]`).toString('base64')

test('GraphQL contract §1: operationName selects one of several operations', async () => {
  const document = 'query A { authorsByPk(id: 1) { name } } query B { authorsByPk(id: 2) { name } }'
  assert.deepEqual(await api.data(document, { operationName: 'A' }), { authorsByPk: { name: 'Ada' } })
  assert.deepEqual(await api.data(document, { operationName: 'B' }), { authorsByPk: { name: 'Alan' } })
  await api.error(document)
  await api.error(document, { operationName: null })
  assert.match(await api.error(document, { operationName: 'C' }), /C/)
})

test('GraphQL contract §1: a single operation needs no operationName, and an unknown name is an error', async () => {
  const ada = { authorsByPk: { name: 'Ada' } }
  assert.deepEqual(await api.data('query A { authorsByPk(id: 1) { name } }'), ada)
  assert.deepEqual(await api.data('query A { authorsByPk(id: 1) { name } }', { operationName: 'A' }), ada)
  await api.error('query A { authorsByPk(id: 1) { name } }', { operationName: 'B' })
  await api.error('{ authorsByPk(id: 1) { name } }', { operationName: 'B' })
})

test('GraphQL contract §1: duplicate names and an anonymous operation beside a named one are errors', async () => {
  const operationName = 'A'
  await api.error('query A { __typename } query A { __typename }', { operationName })
  await api.error('query A { __typename } mutation A { __typename }', { operationName })
  await api.error('query A { __typename } { __typename }', { operationName })
  await api.error('query A { __typename } { __typename }')
  await api.error('{ __typename } { __typename }')
})

test('GraphQL contract §1: subscriptions are an error', async () => {
  assert.match(await api.error('subscription { __typename }'), /subscription/i)
  await api.error('subscription S { postsCollection { edges { cursor } } }', { operationName: 'S' })
})

test('GraphQL contract §1: named and inline fragments', async () => {
  const document = `
    query { a: authorsByPk(id: 1) { ...Person } b: authorsByPk(id: 2) { ...Person ... { id } ... on authors { id } } }
    fragment Person on authors { name ...Works }
    fragment Works on authors { postsCollection { ...Titles } }
    fragment Titles on postsConnection { edges { node { title } } }`
  const works = (...titles: string[]) => ({ edges: titles.map(title => ({ node: { title } })) })
  assert.deepEqual(await api.data(document), {
    a: { name: 'Ada', postsCollection: works('one', 'two') },
    b: { name: 'Alan', postsCollection: works('three'), id: 2 },
  })
})

test('GraphQL contract §1: fields of the same name merge', async () => {
  const document = `
    { authorsByPk(id: 2) { postsCollection { edges { node { id } } } ...More postsCollection { pageInfo { hasNextPage } } } }
    fragment More on authors { postsCollection { edges { node { title id } cursor } } }`
  assert.deepEqual(await api.data(document), {
    authorsByPk: {
      postsCollection: {
        edges: [{ node: { id: 3, title: 'three' }, cursor: 'WzNd' }],
        pageInfo: { hasNextPage: false },
      },
    },
  })
  await api.error('{ authorsByPk(id: 1) { a: id a: name } }')
  await api.error('{ authorsByPk(id: 1) { id } authorsByPk(id: 2) { id } }')
})

test('GraphQL contract §1: fragments on the interface Node', async () => {
  const document = `query($id: ID!) { node(nodeId: $id) {
    __typename nodeId ... on posts { title } ... on authors { name } ...N } }
    fragment N on Node { again: nodeId }`
  const post = nodeId('public', 'posts', 3)
  assert.deepEqual(await api.data(document, { variables: { id: post } }), {
    node: { __typename: 'posts', nodeId: post, title: 'three', again: post },
  })
  const author = nodeId('public', 'authors', 1)
  assert.deepEqual(await api.data(document, { variables: { id: author } }), {
    node: { __typename: 'authors', nodeId: author, name: 'Ada', again: author },
  })
})

test('GraphQL contract §1: cyclic, unknown and impossible fragments are errors', async () => {
  await api.error(
    '{ authorsByPk(id: 1) { ...A } } fragment A on authors { ...B } fragment B on authors { ...A }',
  )
  await api.error('{ authorsByPk(id: 1) { ...A } } fragment A on authors { ...A }')
  assert.match(await api.error('{ authorsByPk(id: 1) { ...Missing } }'), /Missing/)
  await api.error('{ authorsByPk(id: 1) { ... on posts { title } } }')
  await api.error('{ authorsByPk(id: 1) { ...A } } fragment A on wrong { id }')
})

test('GraphQL contract §1: aliases at every level, and __typename', async () => {
  const document = `{
    root: __typename
    people: authorsCollection(first: 1) {
      kind: __typename
      list: edges { kind: __typename row: node { kind: __typename key: id again: id works: postsCollection(first: 1) { __typename } } }
      page: pageInfo { kind: __typename more: hasNextPage }
    }
  }`
  const row = { kind: 'authors', key: 1, again: 1, works: { __typename: 'postsConnection' } }
  assert.deepEqual(await api.data(document), {
    root: 'Query',
    people: {
      kind: 'authorsConnection',
      list: [{ kind: 'authorsEdge', row }],
      page: { kind: 'PageInfo', more: true },
    },
  })
})

test('GraphQL contract §1: __typename of mutations and their responses', async () => {
  const document = `mutation {
    __typename
    a: insertIntopostsCollection(objects: [{ id: 10, title: "x" }]) { __typename records { __typename } }
    b: updatepostsCollection(set: { title: "y" }, filter: { id: { eq: 10 } }) { __typename }
    c: deleteFrompostsCollection(filter: { id: { eq: 10 } }) { __typename }
  }`
  assert.deepEqual(await api.data(document), {
    __typename: 'Mutation',
    a: { __typename: 'postsInsertResponse', records: [{ __typename: 'posts' }] },
    b: { __typename: 'postsUpdateResponse' },
    c: { __typename: 'postsDeleteResponse' },
  })
})

test('GraphQL contract §1: @skip and @include, with literals and variables', async () => {
  const cases: [string, unknown, Record<string, unknown>][] = [
    ['{ authorsByPk(id: 1) { id name @skip(if: true) } }', undefined, { id: 1 }],
    ['{ authorsByPk(id: 1) { id name @skip(if: false) } }', undefined, { id: 1, name: 'Ada' }],
    ['{ authorsByPk(id: 1) { id name @include(if: false) } }', undefined, { id: 1 }],
    ['{ authorsByPk(id: 1) { id name @include(if: true) @skip(if: true) } }', undefined, { id: 1 }],
    ['{ authorsByPk(id: 1) { id name @include(if: false) @skip(if: false) } }', undefined, { id: 1 }],
    [
      '{ authorsByPk(id: 1) { id name @include(if: true) @skip(if: false) } }',
      undefined,
      { id: 1, name: 'Ada' },
    ],
    ['{ authorsByPk(id: 1) { id ... @include(if: false) { name } } }', undefined, { id: 1 }],
    [
      '{ authorsByPk(id: 1) { id ...N @skip(if: true) } } fragment N on authors { name }',
      undefined,
      { id: 1 },
    ],
    [
      'query($on: Boolean!) { authorsByPk(id: 1) { id name @include(if: $on) } }',
      { on: true },
      { id: 1, name: 'Ada' },
    ],
    ['query($on: Boolean!) { authorsByPk(id: 1) { id name @include(if: $on) } }', { on: false }, { id: 1 }],
    ['query($on: Boolean = false) { authorsByPk(id: 1) { id name @include(if: $on) } }', {}, { id: 1 }],
    [
      'query($off: Boolean = true) { authorsByPk(id: 1) { id name @skip(if: $off) } }',
      { off: false },
      { id: 1, name: 'Ada' },
    ],
  ]
  for (const [document, variables, expected] of cases)
    assert.deepEqual(await api.data(document, { variables }), { authorsByPk: expected }, document)
  assert.deepEqual(await api.data('{ __typename authorsByPk(id: 1) @skip(if: true) { id } }'), {
    __typename: 'Query',
  })
  await api.error('{ __typename @skip }')
  await api.error('{ __typename @skip(if: 5) }')
})

test('GraphQL contract §1: a skipped mutation does not run', async () => {
  const document = `mutation($write: Boolean!) {
    __typename
    insertIntopostsCollection(objects: [{ id: 20 }]) @include(if: $write) { affectedCount }
  }`
  assert.deepEqual(await api.data(document, { variables: { write: false } }), { __typename: 'Mutation' })
  assert.deepEqual(await api.rows.read('posts?id=eq.20'), [])
})

test('GraphQL contract §1: variables and their defaults', async () => {
  const document = `query($first: Int = 1, $filter: postsFilter, $order: [postsOrderBy!]) {
    postsCollection(first: $first, filter: $filter, orderBy: $order) { edges { node { id } } } }`
  const ids = async (variables?: unknown) => (await api.nodes(document, { variables })).map(({ id }) => id)
  assert.deepEqual(await ids(), [1])
  assert.deepEqual(await ids({ first: 2 }), [1, 2])
  assert.deepEqual(await ids({ first: 3, filter: { author_id: { eq: 1 } } }), [1, 2])
  assert.deepEqual(await ids({ first: 3, order: [{ id: 'DescNullsLast' }] }), [3, 2, 1])
  assert.deepEqual(await ids({ first: 3, order: { id: 'DescNullsLast' } }), [3, 2, 1])
  assert.deepEqual(await ids({ first: null }), [1, 2, 3])
  assert.deepEqual(await ids({ first: 1, unused: true }), [1])
})

test('GraphQL contract §1: variables inside arguments, and missing ones count as absent', async () => {
  const document = `query($title: String, $id: Int) {
    postsCollection(filter: { title: { eq: $title }, id: { gt: $id } }) { edges { node { id } } } }`
  assert.deepEqual(await api.nodes(document, { variables: { title: 'two', id: 1 } }), [{ id: 2 }])
  assert.deepEqual(await api.nodes(document, { variables: { id: 1 } }), [{ id: 2 }, { id: 3 }])
  assert.deepEqual((await api.nodes(document)).length, 3)
  assert.deepEqual((await api.nodes(document, { variables: null })).length, 3)
})

test('GraphQL contract §10: variables of the wrong type, undeclared or of an unknown type are errors', async () => {
  const document = 'query($id: Int!) { postsByPk(id: $id) { title } }'
  for (const id of ['1', 1.5, true, [1], {}, 2 ** 40])
    assert.match(await api.error(document, { variables: { id } }), /\bid\b/)
  assert.match(await api.error(document, { variables: {} }), /\bid\b/)
  assert.match(await api.error(document), /\bid\b/)
  assert.match(await api.error('{ postsByPk(id: $missing) { title } }'), /missing/)
  assert.match(await api.error('query($id: Wrong!) { postsByPk(id: $id) { title } }'), /Wrong/)
  await api.error('query($id: String!) { postsByPk(id: $id) { title } }', { variables: { id: '1' } })
})
