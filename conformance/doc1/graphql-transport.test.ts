// Issue: GET for queries, and automatic persisted queries.
import assert from 'node:assert/strict'
import { createHash } from 'node:crypto'
import { after, before, test } from 'node:test'
import { dataOf, type GraphqlApi, graphqlPath, graphqlProject, messageOf } from '../graphql.ts'
import { assertStatus } from '../rows.ts'
import { type Target, target } from '../target.ts'

let it: Target
let api: GraphqlApi
before(async () => {
  it = await target()
  api = await graphqlProject(
    it,
    `
    create table public.widgets (id int primary key, name text);
    insert into public.widgets values (1, 'lamp'), (2, 'desk');
    `,
  )
})
after(() => it.stop())

const byPk = 'query($id: Int!) { widgetsByPk(id: $id) { name } }'
const insert = 'mutation { insertIntowidgetsCollection(objects: [{ id: 9 }]) { affectedCount } }'
const shapes = ['native', 'alias'] as const
const hashOf = (query: string) => createHash('sha256').update(query).digest('hex')
const persisted = (query: string) => ({ persistedQuery: { version: 1, sha256Hash: hashOf(query) } })

test('Issue: GET runs a query with variables and operationName, on both paths', async () => {
  for (const shape of shapes) {
    const lamp = { widgetsByPk: { name: 'lamp' } }
    assert.deepEqual(dataOf(await api.get({ query: byPk, variables: { id: 1 } }, { shape })), lamp)
    const two = 'query A { widgetsByPk(id: 1) { name } } query B { __typename }'
    assert.deepEqual(dataOf(await api.get({ query: two, operationName: 'A' }, { shape })), lamp)
  }
})

test('Issue: errors of a GET are 200 with errors', async () => {
  for (const shape of shapes) {
    messageOf(await api.get({}, { shape }))
    messageOf(await api.get({ query: '{' }, { shape }))
    messageOf(await api.get({ query: '{ wrong }' }, { shape }))
    messageOf(await api.get({ query: '{ __typename }', variables: '[]' }, { shape }))
  }
})

test('Issue: GET without a credential is 401', async () => {
  for (const shape of shapes) {
    const path = `${graphqlPath(api.rows.project, shape)}?query=${encodeURIComponent('{ __typename }')}`
    assertStatus(await it.call('GET', path), 401)
    assertStatus(await it.call('GET', path, { apikey: 'wrong' }), 401)
  }
})

test('Issue: a mutation by GET is 405 and changes nothing', async () => {
  for (const shape of shapes) {
    assert.equal((await api.get({ query: insert }, { shape })).status, 405)
    const mixed = `query A { __typename } ${insert.replace('mutation', 'mutation B')}`
    assert.equal((await api.get({ query: mixed, operationName: 'B' }, { shape })).status, 405)
    assert.deepEqual(dataOf(await api.get({ query: mixed, operationName: 'A' }, { shape })), {
      __typename: 'Query',
    })
  }
  assert.deepEqual(await api.rows.read('widgets?id=eq.9'), [])
})

test('Issue: a persisted query is unknown until it is sent with its hash', async () => {
  const query = '{ widgetsCollection { edges { node { name } } } }'
  const extensions = persisted(query)
  assert.match(messageOf(await api.post({ extensions })), /^PersistedQueryNotFound$/)
  const data = { widgetsCollection: { edges: [{ node: { name: 'lamp' } }, { node: { name: 'desk' } }] } }
  assert.deepEqual(dataOf(await api.post({ query, extensions })), data)
  for (const shape of shapes) {
    assert.deepEqual(dataOf(await api.post({ extensions }, { shape })), data)
    assert.deepEqual(dataOf(await api.get({ extensions }, { shape })), data)
  }
})

test('Issue: a persisted query takes variables, and a persisted mutation by GET is 405', async () => {
  dataOf(await api.post({ query: byPk, variables: { id: 1 }, extensions: persisted(byPk) }))
  assert.deepEqual(dataOf(await api.post({ extensions: persisted(byPk), variables: { id: 2 } })), {
    widgetsByPk: { name: 'desk' },
  })
  const update =
    'mutation { updatewidgetsCollection(set: { name: "lamp" }, filter: { id: { eq: 1 } }) { affectedCount } }'
  const extensions = persisted(update)
  dataOf(await api.post({ query: update, extensions }))
  assert.equal((await api.get({ extensions })).status, 405)
  assert.deepEqual(dataOf(await api.post({ extensions })), { updatewidgetsCollection: { affectedCount: 1 } })
})

test('Issue: a hash that does not match its query is an error and is not kept', async () => {
  const query = '{ a: __typename }'
  const extensions = persisted('{ b: __typename }')
  messageOf(await api.post({ query, extensions }))
  assert.match(messageOf(await api.post({ extensions })), /PersistedQueryNotFound/)
  for (const persistedQuery of [{}, { version: 1 }, { version: 1, sha256Hash: 5 }, 'text'])
    messageOf(await api.post({ extensions: { persistedQuery } }), JSON.stringify(persistedQuery))
  messageOf(await api.post({ extensions: { persistedQuery: { version: 2, sha256Hash: hashOf(query) } } }))
})

test('Issue: persisted queries belong to one project', async () => {
  const other = await graphqlProject(it, 'create table public.things (id int primary key)')
  const query = '{ mine: __typename }'
  dataOf(await api.post({ query, extensions: persisted(query) }))
  assert.match(messageOf(await other.post({ extensions: persisted(query) })), /PersistedQueryNotFound/)
})

test('Issue: a persisted query runs as the caller who sends the hash', async () => {
  await api.rows.ddl(`
    create table public.secrets (id int primary key);
    insert into public.secrets values (1);
    create policy own on public.secrets to authenticated using (true)`)
  const query = '{ secretsCollection { edges { node { id } } } }'
  const extensions = persisted(query)
  const rowsOf = async (as: 'anon' | 'service_role' | { sub: string }) =>
    dataOf(await api.post({ extensions }, { as })).secretsCollection.edges.length
  dataOf(await api.post({ query, extensions }, { as: 'service_role' }))
  assert.equal(await rowsOf('anon'), 0)
  assert.equal(await rowsOf({ sub: '3f2f7f0e-0d3c-4d6a-9d65-2f1f0a4a2c11' }), 1)
  assert.equal(await rowsOf('service_role'), 1)
})
