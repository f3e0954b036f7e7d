// A schema with more tables than the platform plans itself: threads do it.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { buildClientSchema, getIntrospectionQuery } from 'graphql'
import { graphqlProject } from './graphql-project.ts'

const { data, messages, owner, send } = graphqlProject(
  Array.from(
    { length: 60 },
    (_, index) => `create table t${index} (id int primary key, name text,
      previous_id int ${index > 0 ? `references t${index - 1}` : ''});
      alter table t${index} disable row level security;
      insert into t${index} select i, 'row ' || i, ${index > 0 ? 'i' : 'null'} from generate_series(1, 3) i;`,
  ).join('\n'),
)

test('graphql, large schema: queries, mutations and errors are as in a small one', async () => {
  const query = 'query($id: Int!) { t40ByPk(id: $id) { name t39 { name t40Collection { totalCount } } } }'
  for (const id of [1, 2])
    assert.deepEqual((await data(query, { variables: { id } })).t40ByPk, {
      name: `row ${id}`,
      t39: { name: `row ${id}`, t40Collection: { totalCount: 1 } },
    })
  const { insertIntot0Collection } = await data(
    'mutation { insertIntot0Collection(objects: [{id: 4, name: "new"}]) { records { id name } } }',
  )
  assert.deepEqual(insertIntot0Collection.records, [{ id: 4, name: 'new' }])
  assert.match((await messages('{ t99Collection { totalCount } }'))[0]!, /"t99Collection" on type "Query"/)
  assert.match((await messages(query, { variables: { id: 'x' } }))[0]!, /\$id/)
})

test('graphql, large schema: the standard introspection query describes every table', async () => {
  const introspected = await data(getIntrospectionQuery())
  const schema = buildClientSchema(introspected)
  for (const name of ['t0', 't59Connection', 't30Filter', 't7InsertInput'])
    assert.ok(schema.getType(name), name)
  assert.deepEqual(await data(getIntrospectionQuery()), introspected)
})

test('graphql, large schema: a changed schema is seen by the next request', async () => {
  const read = () => data('{ t0Collection(first: 1) { edges { node { added } } } }')
  assert.match((await messages('{ t0Collection { edges { node { added } } } }'))[0]!, /"added"/)
  await owner(`alter table t0 add added text default 'x'`)
  assert.deepEqual((await read()).t0Collection.edges, [{ node: { added: 'x' } }])
})

test('graphql, large schema: many requests at once', async () => {
  const replies = await Promise.all(
    Array.from({ length: 60 }, (_, index) => send({ query: `{ t${index}Collection { totalCount } }` })),
  )
  assert.deepEqual(
    replies.map(({ body }, index) => body.data?.[`t${index}Collection`].totalCount),
    replies.map((_, index) => (index === 0 ? 4 : 3)),
  )
})
