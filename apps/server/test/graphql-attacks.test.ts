// Input that would hold up the platform, break a project or show what a role may not see.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { graphqlProject } from './graphql-project.ts'

const columns = Array.from({ length: 60 }, (_, index) => `c${index}`)
const { data, messages, owner, send, platform, project } = graphqlProject(`
  create table items (id int primary key, name text, constructor text);
  insert into items values (1, 'one', 'a'), (2, 'two', 'b'), (3, 'three', null);
  create table wide (id int primary key, parent_id int references wide, ${columns.map(name => `${name} int`).join(', ')});
  insert into wide (id, parent_id, c59) values (1, null, 1), (2, 1, 2), (3, 2, 3);
  create table hidden (id int primary key, item_id int constraint hidden_fk references items);
  revoke all on hidden from anon;
  create policy all_read on items for select using (true);
`)

const token = (value: unknown) => Buffer.from(JSON.stringify(value)).toString('base64')
const repeated = <T>(count: number, make: (index: number) => T) =>
  Array.from({ length: count }, (_, i) => make(i))

test('graphql attacks: cursors and node ids of many values are rejected', async () => {
  const many = repeated(1000, () => 1)
  const page = 'query($after: Cursor) { itemsCollection(after: $after) { totalCount edges { cursor } } }'
  for (const value of [many, [many], [[[many]]], [{ a: many }]])
    assert.match((await messages(page, { variables: { after: token(value) } }))[0]!, /cannot be decoded/)
  const node = 'query($id: ID!) { node(nodeId: $id) { nodeId } }'
  const filter = 'query($id: ID!) { itemsCollection(filter: {nodeId: {eq: $id}}) { totalCount } }'
  for (const document of [node, filter])
    assert.match(
      (await messages(document, { variables: { id: token(['public', 'items', ...many]) } }))[0]!,
      /nodeId .* is invalid/,
    )
  assert.deepEqual(await data(filter, { variables: { id: token(['public', 'items', 2]) } }), {
    itemsCollection: { totalCount: 1 },
  })
})

test('graphql attacks: an order has at most 16 terms, and all orders and filters together 1,000', async () => {
  const document =
    'query($o: [itemsOrderBy!]) { itemsCollection(orderBy: $o) { edges { cursor node { id } } } }'
  const terms = (count: number) => repeated(count, () => ({ name: 'AscNullsLast' }))
  const { itemsCollection } = await data(document, { variables: { o: terms(16) } })
  assert.deepEqual(
    itemsCollection.edges.map(({ node }: { node: { id: number } }) => node.id),
    [1, 3, 2],
  )
  assert.deepEqual(await messages(document, { variables: { o: terms(17) } }), [
    '"orderBy" of "items" has more than 16 terms',
  ])
  const fields = repeated(70, index => `a${index}: itemsCollection(orderBy: $o) { totalCount }`)
  assert.match(
    (
      await messages(`query($o: [itemsOrderBy!]) { ${fields.join(' ')} }`, { variables: { o: terms(16) } })
    )[0]!,
    /more than 1000 conditions and terms/,
  )
})

test('graphql attacks: objects of more than 50 members are written once, also inside each other', async () => {
  const level = (inner: string): string => `id ${columns.join(' ')} ${inner}`
  const { wideByPk } = await data(`{ wideByPk(id: 3) { ${level(`parent { ${level('parent { c59 }')} }`)} } }`)
  assert.deepEqual([wideByPk.c59, wideByPk.parent.c59, wideByPk.parent.parent.c59], [3, 2, 1])
  assert.deepEqual(Object.keys(wideByPk), ['id', ...columns, 'parent'])
  // Written twice, each level would double the statement.
  const deep = repeated(16, () => 0).reduce(inner => level(`parent { ${inner} }`), 'id')
  assert.equal((await data(`{ wideByPk(id: 1) { ${deep} } }`)).wideByPk.parent, null)
})

test('graphql attacks: the fields of all operations count together, and there are at most 100', async () => {
  const operations = (count: number, fields: string) =>
    repeated(count, index => `query o${index} { ${fields} }`).join(' ')
  const run = (document: string) => send({ query: document, operationName: 'o0' })
  assert.equal((await run(operations(100, '__typename'))).body.data.__typename, 'Query')
  assert.match((await run(operations(101, '__typename'))).body.errors[0].message, /more than 100 operations/)
  const fragment = `fragment f on Query { ${repeated(50, index => `a${index}: __typename`).join(' ')} }`
  assert.match(
    (await run(`${operations(30, '...f')} ${fragment}`)).body.errors[0].message,
    /more than 1000 fields and fragments/,
  )
  const chain = repeated(300, index => `fragment f${index} on Query { ...f${index + 1} }`).join(' ')
  const uses = repeated(4, () => '...f0').join(' ')
  assert.match(
    (await run(`query o0 { ${uses} } ${chain} fragment f300 on Query { __typename }`)).body.errors[0].message,
    /more than 1000 fields and fragments/,
  )
})

test('graphql attacks: names of JavaScript are ordinary names of columns and settings', async () => {
  const { itemsCollection } = await data(
    '{ itemsCollection(filter: {constructor: {eq: "b"}}, orderBy: [{constructor: AscNullsLast}]) { edges { node { id constructor } } } }',
  )
  assert.deepEqual(itemsCollection.edges, [{ node: { id: 2, constructor: 'b' } }])
  const insert = `mutation {
    insertIntoitemsCollection(objects: [{id: 11, constructor: "x"}, {id: 12}]) { records { id constructor } }
    deleteFromitemsCollection(filter: {id: {gt: 10}}, atMost: 2) { affectedCount }
  }`
  assert.deepEqual((await data(insert)).insertIntoitemsCollection.records, [
    { id: 11, constructor: 'x' },
    { id: 12, constructor: null },
  ])
  for (const name of ['__proto__', 'constructor', 'toString']) {
    await owner(`comment on table items is '@graphql({"${name}": 1})'`)
    assert.equal((await data('{ itemsCollection { totalCount } }')).itemsCollection.totalCount, 3, name)
  }
  await owner('comment on table items is null')
})

test('graphql attacks: a broken comment is reported, and the project works again without it', async () => {
  const long = '@graphql('.repeat(2000)
  for (const comment of ['@graphql({"name": 5})', '@graphql(no)', `${long})`]) {
    await owner(`comment on table items is '${comment}'`)
    assert.match((await messages('{ __typename }'))[0]!, /@graphql comment of "items"/)
  }
  for (const comment of [long, '@graphql', ')@graphql(', 'null']) {
    await owner(`comment on table items is '${comment}'`)
    assert.deepEqual(await data('{ __typename }'), { __typename: 'Query' }, comment.slice(0, 20))
  }
  await owner('comment on table items is null')
})

test('graphql attacks: a message about a comment does not name what the role cannot see', async () => {
  await owner(`comment on constraint hidden_fk on hidden is '@graphql(no)'`)
  assert.deepEqual(await data('{ __typename }', { as: 'anon' }), { __typename: 'Query' })
  assert.match((await messages('{ __typename }'))[0]!, /hidden_fk/)
  await owner(`comment on constraint hidden_fk on hidden is null;
    create type secret as enum ('a');
    alter table hidden add kind secret;
    comment on type secret is '@graphql(no)'`)
  assert.match((await messages('{ __typename }'))[0]!, /the type "secret"/)
  assert.doesNotMatch((await messages('{ __typename }', { as: 'anon' }))[0]!, /secret|hidden/)
  await owner('comment on type secret is null')
})

test('graphql attacks: a mutation without fields changes nothing', async () => {
  assert.deepEqual(await data('mutation { __typename @skip(if: true) }'), {})
})

test('graphql attacks: variables in a query string are read as carefully as those of a body', async () => {
  const search = (variables: string) =>
    platform.call(
      'GET',
      `/v1/graphql/${project.id}?${new URLSearchParams({ query: 'query($f: itemsFilter) { itemsCollection(filter: $f) { totalCount } }', variables })}`,
      { apikey: project.service_role_key },
    )
  assert.equal((await search('{"f": {"id": {"eq": 1}}}')).body.data.itemsCollection.totalCount, 1)
  for (const variables of ['{"f":', `${'{"not":'.repeat(1000)}{}${'}'.repeat(1000)}`, '{"f": "\\ud800"}']) {
    const reply = await search(variables)
    assert.equal(reply.status, 400, variables.slice(0, 20))
    assert.match(reply.body.message, /The parameter "variables" cannot be read/)
  }
})

test('graphql attacks: a message repeats only the start of a name', async () => {
  const reply = await send({ query: '{ __typename }', operationName: 'x'.repeat(100_000) })
  assert.ok(reply.body.errors[0].message.length < 200)
})
