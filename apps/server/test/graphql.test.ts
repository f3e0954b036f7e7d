import assert from 'node:assert/strict'
import { test } from 'node:test'
import { blog, graphqlProject } from './graphql-project.ts'

const { data, messages, owner, send } = graphqlProject(`${blog};
  create function total_posts() returns bigint stable language sql as $$ select count(*) from posts $$;
  create function add(a int, b int default 2) returns int immutable language sql as $$ select a + b $$;
  create function live_posts() returns setof posts stable language sql as $$ select * from posts where state = 'live' $$;
  create function first_author() returns authors stable language sql as $$ select * from authors where id = 1 $$;
  create function no_author() returns authors stable language sql as $$ select * from authors where false $$;
  create function rename_author(id int, name text) returns authors language sql as
    $$ update authors set name = rename_author.name where authors.id = rename_author.id returning * $$;
  create function _initial(authors) returns text stable language sql as $$ select left($1.name, 1) $$;
  create function _best(authors) returns setof posts rows 1 stable language sql as
    $$ select * from posts where author_id = $1.id order by score desc nulls last limit 1 $$;
  create function _live(authors) returns setof posts stable language sql as
    $$ select * from posts where author_id = $1.id and state = 'live' $$;
  comment on table posts is '@graphql({"aggregate": {"enabled": true}})';
  create view live as select id, title from posts where state = 'live';
  comment on view live is '@graphql({"primary_key_columns": ["id"]})'`)

const titles = (connection: any): string[] => connection.edges.map((edge: any) => edge.node.title)

test('graphql: a collection has edges with nodes, in the order of the key, and 30 of them', async () => {
  const { postsCollection } = await data('{ postsCollection { edges { node { id title } } totalCount } }')
  assert.equal(postsCollection.edges.length, 30)
  assert.deepEqual(postsCollection.edges[0], { node: { id: '1', title: 'post 1' } })
  assert.equal(postsCollection.totalCount, 40)
})

test('graphql: foreign keys lead in both directions, by the name of the table and of the column', async () => {
  const { postsByPk } = await data(
    '{ postsByPk(id: 2) { authors { name } author { name postsCollection(first: 1) { edges { node { title } } } } } }',
  )
  assert.deepEqual(postsByPk, {
    authors: { name: 'Ada' },
    author: { name: 'Ada', postsCollection: { edges: [{ node: { title: 'post 2' } }] } },
  })
  assert.equal((await data('{ postsByPk(id: 999) { id } }')).postsByPk, null)
})

test('graphql: pages by cursor go forth and back, with nulls and ties in the order', async () => {
  const page = (rest: string) =>
    data(`{ p: postsCollection(orderBy: [{state: DescNullsLast}, {score: AscNullsFirst}], ${rest}) {
      edges { cursor node { title } } pageInfo { hasNextPage hasPreviousPage startCursor endCursor } } }`)
  await owner(`update posts set score = null where id in (4, 6)`)
  const seen: string[] = []
  let after = ''
  for (;;) {
    const { p } = await page(`first: 7${after && `, after: "${after}"`}`)
    seen.push(...titles(p))
    assert.equal(p.pageInfo.hasPreviousPage, after !== '')
    assert.equal(p.pageInfo.startCursor, p.edges[0].cursor)
    after = p.pageInfo.endCursor
    if (!p.pageInfo.hasNextPage) break
  }
  const { p: whole } = await page('first: 30')
  assert.equal(new Set(seen).size, 40)
  assert.deepEqual(seen.slice(0, 30), titles(whole))
  const back: string[] = []
  let before = ''
  for (;;) {
    const { p } = await page(`last: 9${before && `, before: "${before}"`}`)
    back.unshift(...titles(p))
    assert.equal(p.pageInfo.hasNextPage, before !== '')
    before = p.pageInfo.startCursor
    if (!p.pageInfo.hasPreviousPage) break
  }
  assert.deepEqual(back, seen)
})

test('graphql: cursors and node ids keep numbers that JavaScript rounds', async () => {
  await owner(`create table big (id bigint primary key, n numeric); alter table big disable row level security;
    insert into big select 9007199254740990 + i, 0.1234567890123456789 + i / 1e19 from generate_series(1, 6) i`)
  const seen: string[] = []
  let after: string | null = null
  for (;;) {
    const { bigCollection }: any = await data(
      `query($after: Cursor) { bigCollection(first: 1, after: $after, orderBy: {n: AscNullsLast}) {
        edges { node { id nodeId } } pageInfo { endCursor hasNextPage } } }`,
      { variables: { after } },
    )
    const { id, nodeId } = bigCollection.edges[0].node
    seen.push(id)
    assert.equal((await data(`{ node(nodeId: "${nodeId}") { ... on big { id } } }`)).node.id, id)
    after = bigCollection.pageInfo.endCursor
    if (!bigCollection.pageInfo.hasNextPage) break
  }
  assert.equal(new Set(seen).size, 6)
})

test('graphql: filters', async () => {
  const count = async (filter: string) =>
    (await data(`{ postsCollection(filter: ${filter}) { totalCount } }`)).postsCollection.totalCount
  assert.equal(await count('{id: {in: [1, 2, 3]}}'), 3)
  assert.equal(await count('{id: {in: []}}'), 0)
  assert.equal(await count('{title: {startsWith: "post 1"}}'), 11)
  assert.equal(await count('{title: {ilike: "POST 3%"}, state: {eq: live}}'), 5)
  assert.equal(await count('{or: [{id: {eq: 1}}, {id: {eq: "2"}, state: {eq: draft}}]}'), 1)
  assert.equal(await count('{not: {id: {gt: 5}}}'), 5)
  assert.equal(await count('{tags: {contains: ["t7"]}}'), 1)
  assert.equal(await count('{body: {is: NOT_NULL}}'), 0)
  assert.equal(await count('{and: [], or: [], not: {}}'), 40)
  assert.equal(await count('{id: {eq: null}}'), 0)
  assert.equal(await count('{authors: {name: {eq: "Bob"}}}'), 20)
  assert.equal(await count('{commentsCollection: {some: {body: {eq: "first"}}}}'), 3)
  assert.equal(await count('{commentsCollection: {none: {}}}'), 37)
})

test('graphql: variables, defaults, fragments and directives', async () => {
  const query = `query Q($f: postsFilter, $n: Int = 2, $more: Boolean!) {
    postsCollection(filter: $f, first: $n) { ...Page } }
    fragment Page on postsConnection { edges { node { title id @include(if: $more) ... on posts @skip(if: $more) { state } } } }`
  const run = async (variables: Record<string, unknown>) =>
    (await data(query, { variables })).postsCollection.edges.map((edge: any) => edge.node)
  assert.deepEqual(await run({ f: { id: { gt: 38 } }, more: true }), [
    { title: 'post 39', id: '39' },
    { title: 'post 40', id: '40' },
  ])
  assert.deepEqual(await run({ f: { id: { gt: 39 } }, more: false }), [{ title: 'post 40', state: 'live' }])
  assert.deepEqual((await run({ more: false, n: 1 })).length, 1)
  assert.deepEqual((await run({ more: false, n: null })).length, 30)
  assert.match((await messages(query, { variables: {} }))[0]!, /\$more/)
})

test('graphql: node ids', async () => {
  const { postsByPk } = await data('{ postsByPk(id: 5) { nodeId } }')
  const { nodeId } = postsByPk
  assert.equal(Buffer.from(nodeId, 'base64').toString(), '["public", "posts", 5]')
  const query = 'query($id: ID!) { node(nodeId: $id) { nodeId __typename ... on posts { title } } }'
  assert.deepEqual((await data(query, { variables: { id: nodeId } })).node, {
    nodeId,
    __typename: 'posts',
    title: 'post 5',
  })
  const other = Buffer.from('["public", "authors", 1]').toString('base64')
  assert.deepEqual((await data(query, { variables: { id: other } })).node, {
    nodeId: other,
    __typename: 'authors',
  })
  const none = Buffer.from('["public", "nothing", 1]').toString('base64')
  assert.equal((await data(query, { variables: { id: none } })).node, null)
  assert.match((await messages(query, { variables: { id: 'x' } }))[0]!, /nodeId "x" is invalid/)
  const { postsCollection } = await data(
    `{ postsCollection(filter: {nodeId: {eq: "${nodeId}"}}) { edges { node { id } } } }`,
  )
  assert.deepEqual(postsCollection.edges, [{ node: { id: '5' } }])
})

test('graphql: functions are fields of the query, or of the mutation if they are volatile', async () => {
  assert.deepEqual(
    await data(
      '{ total_posts add(a: 1) sum: add(a: 1, b: 5) live_posts(first: 1) { totalCount edges { node { title } } } first_author { name initial best { title } live(first: 1) { totalCount } } no_author { name } }',
    ),
    {
      total_posts: '40',
      add: 3,
      sum: 6,
      live_posts: { totalCount: 20, edges: [{ node: { title: 'post 2' } }] },
      first_author: { name: 'Ada', initial: 'A', best: { title: 'post 40' }, live: { totalCount: 20 } },
      no_author: null,
    },
  )
  const { rename_author } = await data('mutation { rename_author(id: 3, name: "Cyd") { name initial } }')
  assert.deepEqual(rename_author, { name: 'Cyd', initial: 'C' })
})

test('graphql: aggregates', async () => {
  const { postsCollection } = await data(
    '{ postsCollection(filter: {id: {lte: 3}}) { aggregate { count sum { id score } avg { score } min { title } max { created_at } } } }',
  )
  assert.deepEqual(postsCollection.aggregate, {
    count: 3,
    sum: { id: '6', score: '9.0' },
    avg: { score: '3.0000000000000000' },
    min: { title: 'post 1' },
    max: { created_at: '2026-01-01T00:00:00+00:00' },
  })
})

test('graphql: mutations run in the order of the document, in one transaction', async () => {
  const inserted = await data(
    `mutation($o: [authorsInsertInput!]!) {
      insertIntoauthorsCollection(objects: $o) { affectedCount records { name } }
      updateauthorsCollection(set: {name: "Later"}, filter: {name: {eq: "New"}}) { affectedCount records { name } }
      deleteFromauthorsCollection(filter: {name: {eq: "Later"}}) { affectedCount records { name postsCollection { totalCount } } } }`,
    { variables: { o: [{ name: 'New' }, { name: 'Other', email: 'o@x.test' }] } },
  )
  assert.deepEqual(inserted, {
    insertIntoauthorsCollection: { affectedCount: 2, records: [{ name: 'New' }, { name: 'Other' }] },
    updateauthorsCollection: { affectedCount: 1, records: [{ name: 'Later' }] },
    deleteFromauthorsCollection: {
      affectedCount: 1,
      records: [{ name: 'Later', postsCollection: { totalCount: 0 } }],
    },
  })
  const failed = await messages(`mutation {
    a: insertIntoauthorsCollection(objects: [{name: "Kept?"}]) { affectedCount }
    b: insertIntoauthorsCollection(objects: {name: "Twin", email: "ada@x.test"}) { affectedCount } }`)
  assert.match(failed[0]!, /duplicate key value violates unique constraint "authors_email_key"/)
  assert.equal(
    (await data('{ authorsCollection(filter: {name: {eq: "Kept?"}}) { totalCount } }')).authorsCollection
      .totalCount,
    0,
  )
})

test('graphql: atMost limits the rows of a mutation, and nothing changes if there are more', async () => {
  for (const mutation of [
    'updatepostsCollection(set: {body: "x"}) { affectedCount }',
    'updatepostsCollection(set: {body: "x"}, filter: {id: {lte: 3}}, atMost: 2) { affectedCount }',
    'deleteFromcommentsCollection { affectedCount }',
    'deleteFromcommentsCollection(filter: {body: {eq: "first"}}, atMost: 0) { affectedCount }',
  ])
    assert.match((await messages(`mutation { ${mutation} }`))[0]!, /too many records/, mutation)
  const { postsCollection } = await data('{ postsCollection(filter: {body: {is: NOT_NULL}}) { totalCount } }')
  assert.equal(postsCollection.totalCount, 0)
})

test('graphql: an insert with onConflict updates or keeps the existing row', async () => {
  const upsert = (action: string) =>
    data(`mutation { insertIntoauthorsCollection(objects: [{name: "Ada 2", email: "ada@x.test"}],
      onConflict: {columns: [email], action: ${action}}) { affectedCount records { id name } } }`)
  assert.deepEqual((await upsert('NOTHING')).insertIntoauthorsCollection, { affectedCount: 0, records: [] })
  assert.deepEqual((await upsert('UPDATE')).insertIntoauthorsCollection, {
    affectedCount: 1,
    records: [{ id: 1, name: 'Ada 2' }],
  })
})

test('graphql: a view with a declared key is a collection', async () => {
  const { liveCollection } = await data(
    '{ liveCollection(first: 1) { edges { node { id title } } totalCount } }',
  )
  assert.deepEqual(liveCollection, { edges: [{ node: { id: '2', title: 'post 2' } }], totalCount: 20 })
})

test('graphql: a changed schema is seen by the next request', async () => {
  assert.match(
    (await messages('{ authorsCollection { edges { node { nick } } } }'))[0]!,
    /"nick" on type "authors"/,
  )
  await owner('alter table authors add nick text')
  assert.equal(
    (await data('{ authorsCollection(first: 1) { edges { node { nick } } } }')).authorsCollection.edges[0]
      .node.nick,
    null,
  )
  await owner(`comment on column authors.nick is '@graphql({"name": "nickname"})'`)
  assert.equal(
    (await data('{ authorsCollection(first: 1) { edges { node { nickname } } } }')).authorsCollection.edges[0]
      .node.nickname,
    null,
  )
})

test('graphql: each role has its own schema', async () => {
  await owner(
    `revoke all on comments from anon; revoke all on authors from anon; grant select (id, name) on authors to anon`,
  )
  const types = async (as: 'anon' | 'service_role') =>
    (await data('{ __schema { types { name fields { name } } } }', { as })).__schema.types
  const named = async (as: 'anon' | 'service_role', name: string) =>
    (await types(as)).find((type: any) => type.name === name)?.fields.map((field: any) => field.name)
  assert.equal(await named('anon', 'comments'), undefined)
  assert.deepEqual((await named('anon', 'authors')).slice(0, 3), ['nodeId', 'id', 'name'])
  assert.ok((await named('service_role', 'authors')).includes('email'))
  assert.match(
    (await messages('{ authorsCollection(filter: {email: {eq: "x"}}) { totalCount } }', { as: 'anon' }))[0]!,
    /email/,
  )
})

test('graphql: errors of the request', async () => {
  for (const [body, pattern] of [
    [[{ query: '{ a }' }], /[Bb]atch/],
    [{}, /"query" is missing/],
    [{ query: 1 }, /"query" must be a string/],
    [{ query: '{ a }', variables: [] }, /"variables" must be an object/],
    [{ query: '{' }, /Syntax Error/],
    [{ query: 'subscription { x }' }, /[Ss]ubscription/],
    [{ query: 'query A { __typename } query B { __typename }' }, /operationName/],
    [{ query: 'query A { __typename }', operationName: 'C' }, /no operation "C"/],
    [{ query: '{ postsCollection(first: 1, last: 1) { totalCount } }' }, /"first" and "last"/],
    [{ query: '{ postsCollection(first: -1) { totalCount } }' }, /negative/],
    [{ query: '{ postsCollection(after: "x") { edges { cursor } } }' }, /cursor "x" cannot be decoded/],
    [
      { query: `{ ${Array.from({ length: 200 }, (_, index) => `a${index}: __typename`).join(' ')} }` },
      /aliases/,
    ],
    [{ query: `${'{ a '.repeat(50)}${'}'.repeat(50)}` }, /too deep/],
    [{ query: '{ ...A } fragment A on Query { ...B } fragment B on Query { ...A }' }, /uses itself/],
  ] as const) {
    const reply = await send(body)
    assert.equal(reply.status, 200)
    assert.match(reply.body.errors[0].message, pattern, JSON.stringify(body).slice(0, 100))
  }
})
