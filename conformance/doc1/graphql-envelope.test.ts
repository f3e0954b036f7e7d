// 1 §4.4 and GraphQL contract §1: paths, statuses and the envelope.
import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { dataOf, type GraphqlApi, graphqlPath, graphqlProject, messageOf } from '../graphql.ts'
import { createProject, nowSeconds, someId, unlimited, userJwt } from '../people.ts'
import { assertStatus } from '../rows.ts'
import { type Target, target } from '../target.ts'
import { sendBytes } from '../wire.ts'

let it: Target
let api: GraphqlApi
before(async () => {
  it = await target()
  api = await graphqlProject(
    it,
    `
    create table public.widgets (id int primary key, name text not null unique, size int check (size > 0));
    insert into public.widgets values (1, 'lamp', 3), (2, 'desk', 8);
    create function public.broken() returns int language sql stable as $$ select 1 / 0 $$;
    create function public.slow() returns text language plpgsql stable as $$ begin raise exception 'out of paper'; end $$;
    `,
  )
})
after(() => it.stop())

const names = '{ widgetsCollection { edges { node { name } } } }'
const shapes = ['native', 'alias'] as const

test('1 §4.4 a table is a collection with edges, nodes and pageInfo, on both paths', async () => {
  for (const shape of shapes) {
    const reply = await api.ask(
      '{ widgetsCollection(filter: { name: { eq: "desk" } }) { edges { node { id name } } pageInfo { hasNextPage } } }',
      { shape },
    )
    assert.deepEqual(dataOf(reply), {
      widgetsCollection: {
        edges: [{ node: { id: 2, name: 'desk' } }],
        pageInfo: { hasNextPage: false },
      },
    })
  }
})

test('GraphQL contract §1: a success has only data, in the order of the document', async () => {
  const reply = await api.ask('{ b: widgetsByPk(id: 2) { size id } __typename a: widgetsByPk(id: 9) { id } }')
  const expected = '{"data":{"b":{"size":8,"id":2},"__typename":"Query","a":null}}'
  assert.equal(JSON.stringify(reply.body), expected)
})

test('GraphQL contract §1: every error in a document is 200 with data null and errors', async () => {
  const documents = [
    '{',
    'nonsense',
    '',
    '   ',
    '# only a comment',
    '{ widgetsCollection { edges { node { wrong } } } }',
    '{ wrong }',
    '{ }',
    '{ widgetsCollection { } }',
    '{ widgetsCollection }',
    '{ widgetsCollection(wrong: 1) { edges { cursor } } }',
    '{ widgetsCollection(filter: { name: { eq: 5 } }) { edges { cursor } } }',
    '{ __typename @wrong }',
    'subscription { widgetsCollection { edges { cursor } } }',
    'fragment F on widgets { id }',
    'type Extra { id: Int }',
    `{ __typename } extend type Query { a: Int }`,
    '{ widgetsByPk { id } }',
  ]
  for (const document of documents)
    for (const shape of shapes) messageOf(await api.ask(document, { shape }), document)
})

test('GraphQL contract §1: an SQL error has no partial data', async () => {
  assert.match(await api.error(`{ widgetsByPk(id: 1) { id } broken }`), /division by zero/)
  assert.match(await api.error(`{ slow }`), /out of paper/)
  const duplicate =
    'mutation { insertIntowidgetsCollection(objects: [{ id: 3, name: "lamp" }]) { affectedCount } }'
  assert.match(await api.error(duplicate), /duplicate key value violates unique constraint/)
  assert.match(
    await api.error('mutation { updatewidgetsCollection(set: { size: -1 }, atMost: 5) { affectedCount } }'),
    /violates check constraint/,
  )
})

test('GraphQL contract §10: messages name the field, type, argument or variable', async () => {
  const cases: [string, ...RegExp[]][] = [
    ['{ widgetsCollection { edges { node { wrong } } } }', /wrong/, /widgets/],
    ['{ wrongCollection { edges { cursor } } }', /wrongCollection/, /Query/],
    ['{ widgetsCollection(wrong: 1) { edges { cursor } } }', /wrong/],
    ['{ widgetsCollection(filter: { wrong: { eq: 1 } }) { edges { cursor } } }', /wrong/, /widgetsFilter/],
    ['{ widgetsCollection(filter: { id: { like: "a" } }) { edges { cursor } } }', /like/, /IntFilter/],
    ['{ widgetsByPk { name } }', /id/],
    ['{ node(nodeId: "wrong") { nodeId } }', /nodeId/i],
    ['{ widgetsCollection(after: "wrong") { edges { cursor } } }', /cursor|after/i],
  ]
  for (const [document, ...patterns] of cases) {
    const message = await api.error(document)
    for (const pattern of patterns) assert.match(message, pattern, document)
  }
  const document = 'query($id: Int!) { widgetsByPk(id: $id) { name } }'
  assert.match(await api.error(document, { variables: { id: 'one' } }), /id/)
})

test('Issue: a body that is not JSON is 400', async () => {
  for (const shape of shapes)
    for (const body of ['', '{', names, '{"query": }', "{'query': '{ __typename }'}"]) {
      const reply = await api.post(body, { shape })
      assert.equal(reply.status, 400, `${body}: ${reply.status} ${reply.text}`)
    }
})

test('Issue: a batch, a missing query and members of the wrong type are 200 with errors', async () => {
  const query = '{ __typename }'
  const bodies: unknown[] = [
    [{ query }],
    [{ query }, { query }],
    [],
    {},
    'null',
    '5',
    '"text"',
    'true',
    { query: null },
    { query: '' },
    { query: 5 },
    { query: [query] },
    { query: { query } },
    { variables: {} },
    { query, variables: [] },
    { query, variables: 'text' },
    { query, variables: 5 },
    { query, operationName: 5 },
    { query, operationName: {} },
    { query, extensions: [] },
    { query, extensions: 'text' },
  ]
  for (const body of bodies) messageOf(await api.post(body), JSON.stringify(body))
  const nulls = { query, variables: null, operationName: null, extensions: null }
  assert.deepEqual(dataOf(await api.post(nulls)), { __typename: 'Query' })
})

test('Issue: an oversized body is 413', async () => {
  const { project } = api.rows
  for (const shape of shapes) {
    const head = `POST ${graphqlPath(project, shape)} HTTP/1.1\r\nHost: localhost\r\napikey: ${project.anon_key}`
    const sizes = `Content-Type: application/json\r\nContent-Length: ${1024 ** 3}`
    const reply = await sendBytes(it.url, `${head}\r\n${sizes}\r\n\r\n{"query":"`)
    assert.equal(reply.status, 413, `${reply.status} ${reply.text.slice(0, 300)}`)
  }
})

test('1 §4.4 a missing or invalid credential is 401 with the body of REST, before the document is read', async () => {
  const { project } = api.rows
  const other = await createProject(it, { quotas: unlimited })
  const expired = userJwt(project, { exp: nowSeconds() - 10 })
  for (const shape of shapes)
    for (const body of [{ query: names }, { query: '{' }, '{', '[]']) {
      const call = (options: { apikey?: string; token?: string }, id = project.id) =>
        it.call('POST', graphqlPath({ id }, shape), { ...options, body })
      const replies = [
        await call({}),
        await call({}, someId),
        await call({ apikey: 'wrong' }),
        await call({ apikey: other.anon_key }),
        await call({ apikey: project.anon_key, token: expired }),
        await call({ apikey: project.anon_key, token: 'x' }),
      ]
      for (const reply of replies) assertStatus(reply, 401)
    }
})

test('GraphQL contract §10: a suspended project is 403', async () => {
  const idle = await createProject(it, { quotas: unlimited })
  const call = (shape: 'native' | 'alias') =>
    it.call('POST', graphqlPath(idle, shape), { apikey: idle.anon_key, body: { query: '{ __typename }' } })
  assert.equal((await it.manage('POST', `/projects/${idle.id}/suspend`)).status, 200)
  for (const shape of shapes) assert.equal((await call(shape)).status, 403)
})

test('GraphQL contract §10: a caller over its rate limit is 429', async () => {
  const busy = await createProject(it, { quotas: { ...unlimited, rate_limit_anon: 1 } })
  const statuses = new Set<number>()
  for (let i = 0; i < 40 && !statuses.has(429); i++) {
    const body = { query: '{ __typename }' }
    statuses.add((await it.call('POST', graphqlPath(busy), { apikey: busy.anon_key, body })).status)
  }
  assert.ok(statuses.has(429), [...statuses].join())
})
