// GraphQL contract §7: directives in comments.
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
    create type public.level as enum ('low-level', 'high', '2nd');
    comment on type public.level is '@graphql({"name": "Grade", "mappings": {"low-level": "LOW_LEVEL", "2nd": "SECOND"}})';
    create table public.authors (id int primary key, full_name text, grade public.level);
    comment on table public.authors is 'People. @graphql({"name": "Writer", "description": "Who writes"})';
    comment on column public.authors.full_name is '@graphql({"name": "fullName", "description": "First and last"})';
    create table public.posts (id int primary key, author_id int, title text);
    alter table public.posts add constraint written_by foreign key (author_id) references public.authors;
    comment on constraint written_by on public.posts is '@graphql({"foreign_name": "writer", "local_name": "works"})';
    comment on table public.posts is 'A comment without a directive';
    create table public.profiles (id int primary key, author_id int unique);
    alter table public.profiles add constraint profile_of foreign key (author_id) references public.authors;
    comment on constraint profile_of on public.profiles is '@graphql({"foreign_name": "person", "local_name": "profile"})';
    insert into public.authors values (1, 'Ada', 'low-level'), (2, 'Alan', 'high'), (3, 'Grace', '2nd');
    insert into public.posts values (1, 1, 'one'), (2, 1, 'two');
    insert into public.profiles values (1, 2);

    create view public.post_list with (security_invoker) as select id as key, author_id as by_author, title from public.posts;
    comment on view public.post_list is '@graphql({"primary_key_columns": ["key"], "foreign_keys": [{"local_name": "entries", "local_columns": ["by_author"],
      "foreign_schema": "public", "foreign_table": "authors", "foreign_columns": ["id"], "foreign_name": "creator"}]})';
    create function public.total_posts() returns int language sql stable as $$ select 2 $$;
    comment on function public.total_posts is '@graphql({"name": "postTotal", "description": "How many"})';
    create function public._short(rec public.posts) returns text language sql stable as $$ select left(rec.title, 1) $$;
    comment on function public._short is '@graphql({"name": "initial"})';
    create table public.few (id int primary key);
    insert into public.few select generate_series(1, 10);
    comment on table public.few is '@graphql({"max_rows": 3, "totalCount": {"enabled": true}})';
    `,
  )
})
after(() => it.stop())

test('GraphQL contract §7: name and description of a table', async () => {
  const query = await fieldTypes(api, 'Query')
  assert.equal(query['writerCollection'], 'WriterConnection!')
  assert.equal(query['writerByPk'], 'Writer')
  assert.ok(!('authorsCollection' in query))
  assert.ok('insertIntoWriterCollection' in (await fieldTypes(api, 'Mutation')))
  assert.equal((await typeOf(api, 'Writer'))?.description, 'Who writes')
  assert.equal(await typeOf(api, 'authors'), null)
})

test('GraphQL contract §7: name and description of a column', async () => {
  const { fields } = (await typeOf(api, 'Writer'))!
  assert.equal(fields['fullName']?.description, 'First and last')
  assert.ok(!fields['full_name'])
  const document = `{ writerCollection(filter: { fullName: { like: "A%" } }, orderBy: [{ fullName: DescNullsLast }]) { edges { node { fullName nodeId } } } }`
  const nodeId = (id: number) => Buffer.from(`["public", "authors", ${id}]`).toString('base64')
  assert.deepEqual(await api.nodes(document), [
    { fullName: 'Alan', nodeId: nodeId(2) },
    { fullName: 'Ada', nodeId: nodeId(1) },
  ])
  assert.deepEqual(
    await api.data(
      `mutation { updateWriterCollection(set: { fullName: "Ada" }, filter: { fullName: { eq: "Ada" } }) { records { fullName } } }`,
    ),
    { updateWriterCollection: { records: [{ fullName: 'Ada' }] } },
  )
})

test('GraphQL contract §7: foreign_name and local_name of a constraint', async () => {
  const document = `{
    postsByPk(id: 1) { writer { id works { edges { node { id } } } } }
    writerByPk(id: 2) { profile { id person { fullName } } works(first: 1) { totalCount } }
  }`
  assert.deepEqual(await api.data(document), {
    postsByPk: { writer: { id: 1, works: { edges: [{ node: { id: 1 } }, { node: { id: 2 } }] } } },
    writerByPk: { profile: { id: 1, person: { fullName: 'Alan' } }, works: { totalCount: 0 } },
  })
  const writer = await fieldTypes(api, 'Writer')
  assert.ok(!('postsCollection' in writer) && !('profiles' in writer))
})

test('GraphQL contract §7: name and mappings of an enum', async () => {
  assert.deepEqual((await typeOf(api, 'Grade'))?.enumValues, ['LOW_LEVEL', 'high', 'SECOND'])
  const document = '{ writerCollection { edges { node { grade } } } }'
  assert.deepEqual(await api.nodes(document), [
    { grade: 'LOW_LEVEL' },
    { grade: 'high' },
    { grade: 'SECOND' },
  ])
  const filtered =
    '{ writerCollection(filter: { grade: { in: [LOW_LEVEL, SECOND] } }) { edges { node { id } } } }'
  assert.deepEqual(await api.nodes(filtered), [{ id: 1 }, { id: 3 }])
  const byVariable =
    'query($grade: Grade!) { writerCollection(filter: { grade: { neq: $grade } }) { edges { node { id } } } }'
  assert.deepEqual(await api.nodes(byVariable, { variables: { grade: 'LOW_LEVEL' } }), [{ id: 2 }, { id: 3 }])
  const insert =
    'mutation { insertIntoWriterCollection(objects: [{ id: 9, grade: LOW_LEVEL }]) { records { grade } } deleteFromWriterCollection(filter: { id: { eq: 9 } }) { records { grade } } }'
  assert.deepEqual(await api.data(insert), {
    insertIntoWriterCollection: { records: [{ grade: 'LOW_LEVEL' }] },
    deleteFromWriterCollection: { records: [{ grade: 'LOW_LEVEL' }] },
  })
})

test('GraphQL contract §7: a view with a primary key and foreign keys', async () => {
  const document = `{
    post_listByPk(key: 2) { nodeId title creator { fullName } }
    writerByPk(id: 1) { entries(first: 1) { edges { cursor node { title } } pageInfo { hasNextPage } } }
  }`
  assert.deepEqual(await api.data(document), {
    post_listByPk: {
      nodeId: Buffer.from('["public", "post_list", 2]').toString('base64'),
      title: 'two',
      creator: { fullName: 'Ada' },
    },
    writerByPk: {
      entries: { edges: [{ cursor: 'WzFd', node: { title: 'one' } }], pageInfo: { hasNextPage: true } },
    },
  })
})

test('GraphQL contract §7: name and description of a function', async () => {
  assert.equal((await typeOf(api, 'Query'))?.fields['postTotal']?.description, 'How many')
  assert.deepEqual(await api.data('{ postTotal postsByPk(id: 1) { initial } }'), {
    postTotal: 2,
    postsByPk: { initial: 'o' },
  })
})

test('GraphQL contract §7: max_rows of a table and of the schema', async () => {
  const count = async (of: GraphqlApi, args: string) =>
    (await of.nodes(`{ fewCollection${args} { edges { node { id } } } }`)).length
  assert.equal(await count(api, ''), 3)
  assert.equal(await count(api, '(first: 5)'), 3)
  const other = await graphqlProject(
    it,
    `create table public.few (id int primary key); insert into public.few select generate_series(1, 10);
     create table public.many (id int primary key); insert into public.many select generate_series(1, 50);
     comment on schema public is '@graphql({"max_rows": 5})';
     comment on table public.many is '@graphql({"max_rows": 40})'`,
  )
  assert.equal(await count(other, ''), 5)
  assert.equal(await count(other, '(first: 8)'), 5)
  assert.equal((await other.nodes('{ manyCollection { edges { node { id } } } }')).length, 40)
})

test('Issue: the standard introspection works whatever the introspection directive says', async () => {
  const other = await graphqlProject(
    it,
    `create table public.few (id int primary key); comment on schema public is '@graphql({"introspection": false})'`,
  )
  const { __schema } = await other.data('{ __schema { queryType { name } } }')
  assert.equal(__schema.queryType.name, 'Query')
})

test('GraphQL contract §7: malformed JSON in a directive is an error of every query, until it is mended', async () => {
  const other = await graphqlProject(
    it,
    'create table public.few (id int primary key, note text); create table public.fine (id int primary key)',
  )
  const broken = [
    `comment on table public.few is '@graphql({"name": })'`,
    `comment on column public.few.note is '@graphql({name: "x"})'`,
    `comment on schema public is '@graphql({"inflect_names": tru})'`,
  ]
  for (const comment of broken) {
    await other.rows.sql(comment)
    for (const query of [
      '{ fineCollection { edges { node { id } } } }',
      '{ fewCollection { edges { node { id } } } }',
    ])
      for (const as of ['anon', 'service_role'] as const) await other.error(query, { as })
    await other.rows.sql(comment.replace(/is '.*'/, 'is null'))
    await other.data('{ fineCollection { edges { node { id } } } }')
  }
})

test('1 §4.4 a malformed directive does not name a table that the caller may not see', async () => {
  const other = await graphqlProject(
    it,
    `create table public.unseen (id int primary key); revoke all on public.unseen from anon;
     create table public.fine (id int primary key); comment on table public.unseen is '@graphql({"name": })'`,
  )
  assert.doesNotMatch(await other.error('{ fineCollection { edges { node { id } } } }'), /unseen/)
})
