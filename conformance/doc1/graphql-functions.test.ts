// GraphQL contract §4: functions as fields of Query and Mutation, and computed fields.
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
    create type public.mood as enum ('sad', 'happy');
    create table public.authors (id int primary key, name text);
    create table public.posts (id int primary key, author_id int references public.authors, title text);
    insert into public.authors values (1, 'Ada'), (2, 'Alan');
    insert into public.posts select i, 1 + i % 2, 'post ' || i from generate_series(1, 40) i;
    create table public.log (id int generated always as identity primary key, line text);

    create function public.add(a int, b int default 10) returns int language sql immutable as $$ select a + b $$;
    create function public.big() returns bigint language sql stable as $$ select 9007199254740993 $$;
    create function public.labels() returns text[] language sql stable as $$ select array['a', 'b'] $$;
    create function public.sum_of(list int[]) returns int language sql stable as $$ select sum(v)::int from unnest(list) v $$;
    create function public.opposite(of public.mood) returns public.mood language sql stable as $$ select case of when 'sad' then 'happy' else 'sad' end::public.mood $$;
    create function public.find_author(key int) returns public.authors language sql stable as $$ select * from public.authors where id = key $$;
    create function public.all_posts(min int default 0) returns setof public.posts language sql stable as $$ select * from public.posts where id > min $$;
    create function public.write_log(line text) returns int language sql volatile as $$ insert into public.log (line) values (line) returning 7 $$;
    create function public.add_author(key int, name text) returns public.authors language sql volatile as $$ insert into public.authors values (key, name) returning * $$;
    create function public.doc(given jsonb) returns jsonb language sql stable as $$ select given $$;
    create function public.whoami() returns text language sql stable as $$ select current_user::text $$;

    create function public.twice(a int) returns int language sql stable as $$ select 1 $$;
    create function public.twice(a text) returns int language sql stable as $$ select 2 $$;
    create function public.nothing() returns void language sql volatile as $$ select $$;
    create function public.on_change() returns trigger language plpgsql as $$ begin return new; end $$;
    create function public.loose() returns record language sql stable as $$ select 1, 2 $$;
    create function public.for_service() returns int language sql stable as $$ select 1 $$;
    revoke execute on function public.for_service from public, anon, authenticated;
    grant execute on function public.for_service to service_role;

    create function public._initial(rec public.authors) returns text language sql stable as $$ select left(rec.name, 1) $$;
    create function public._latest(rec public.authors) returns setof public.posts language sql stable as $$ select * from public.posts where author_id = rec.id $$;
    create function public._newest(rec public.authors) returns setof public.posts rows 1 language sql stable as $$ select * from public.posts where author_id = rec.id order by id desc limit 1 $$;
    create function public._hidden_from_anon(rec public.authors) returns int language sql stable as $$ select 1 $$;
    revoke execute on function public._hidden_from_anon from public, anon; grant execute on function public._hidden_from_anon to service_role;
    `,
  )
})
after(() => it.stop())

test('GraphQL contract §4: stable and immutable functions are queries, volatile ones are mutations', async () => {
  const query = await typeOf(api, 'Query')
  const mutation = await typeOf(api, 'Mutation')
  for (const name of ['add', 'big', 'labels', 'find_author', 'all_posts', 'opposite']) {
    assert.ok(query?.fields[name], name)
    assert.ok(!mutation?.fields[name], name)
  }
  for (const name of ['write_log', 'add_author']) {
    assert.ok(mutation?.fields[name], name)
    assert.ok(!query?.fields[name], name)
  }
  await api.error('{ write_log(line: "x") }')
})

test('GraphQL contract §4: arguments are non-null unless they have a default', async () => {
  const { fields } = (await typeOf(api, 'Query'))!
  assert.deepEqual(fields['add']?.args, { a: 'Int!', b: 'Int' })
  assert.deepEqual(await api.data('{ add(a: 1) two: add(a: 1, b: 2) }'), { add: 11, two: 3 })
  assert.deepEqual(
    await api.data('query($a: Int!, $b: Int) { add(a: $a, b: $b) }', { variables: { a: 5 } }),
    { add: 15 },
  )
  assert.match(await api.error('{ add(b: 1) }'), /\ba\b/)
  await api.error('{ add(a: "1") }')
  assert.match(await api.error('{ add(a: 1, c: 2) }'), /\bc\b/)
})

test('GraphQL contract §4: functions return scalars, lists and enums', async () => {
  const document = '{ big labels sum_of(list: [1, 2, 3]) opposite(of: sad) }'
  assert.deepEqual(await api.data(document), {
    big: '9007199254740993',
    labels: ['a', 'b'],
    sum_of: 6,
    opposite: 'happy',
  })
  const { fields } = (await typeOf(api, 'Query'))!
  assert.equal(fields['labels']?.type, '[String]')
  const whoami = async (as: 'anon' | 'service_role') => (await api.data('{ whoami }', { as })).whoami
  assert.notEqual(await whoami('anon'), await whoami('service_role'))
})

test('GraphQL contract §5: JSON is a string in both directions', async () => {
  const { doc } = await api.data('query($given: JSON!) { doc(given: $given) }', {
    variables: { given: '{"a": [1, null]}' },
  })
  assert.deepEqual(JSON.parse(doc), { a: [1, null] })
})

test('GraphQL contract §4: a function returns a node', async () => {
  const document =
    '{ find_author(key: 1) { nodeId name initial postsCollection(first: 1) { edges { node { id } } } } none: find_author(key: 9) { name } }'
  assert.deepEqual(await api.data(document), {
    find_author: {
      nodeId: Buffer.from('["public", "authors", 1]').toString('base64'),
      name: 'Ada',
      initial: 'A',
      postsCollection: { edges: [{ node: { id: 2 } }] },
    },
    none: null,
  })
})

test('GraphQL contract §4: a function that returns rows of a table is a connection', async () => {
  const field = (await typeOf(api, 'Query'))!.fields['all_posts']!
  assert.match(field.type, /^postsConnection!?$/)
  for (const name of ['min', 'first', 'last', 'before', 'after', 'offset', 'filter', 'orderBy'])
    assert.ok(name in field.args, name)
  const document = `{ all_posts(min: 10, first: 2, filter: { author_id: { eq: 1 } }, orderBy: [{ id: DescNullsLast }]) {
    totalCount edges { node { id authors { name } } } pageInfo { hasNextPage } } }`
  assert.deepEqual(await api.data(document), {
    all_posts: {
      totalCount: 15,
      edges: [{ node: { id: 40, authors: { name: 'Ada' } } }, { node: { id: 38, authors: { name: 'Ada' } } }],
      pageInfo: { hasNextPage: true },
    },
  })
  assert.equal((await api.nodes('{ all_posts { edges { node { id } } } }')).length, 30)
})

test('GraphQL contract §4: volatile functions run as mutations, in document order and in one transaction', async () => {
  const document =
    'mutation { a: write_log(line: "one") b: write_log(line: "two") add_author(key: 3, name: "Grace") { id name initial } }'
  assert.deepEqual(await api.data(document), {
    a: 7,
    b: 7,
    add_author: { id: 3, name: 'Grace', initial: 'G' },
  })
  assert.deepEqual(await api.rows.read('log?select=line&order=id'), [{ line: 'one' }, { line: 'two' }])
  await api.error('mutation { write_log(line: "three") add_author(key: 3, name: "Again") { id } }')
  assert.equal((await api.rows.read('log')).length, 2)
})

test('GraphQL contract §4: overloads, triggers, void functions and records are hidden', async () => {
  const fields = { ...(await fieldTypes(api, 'Query')), ...(await fieldTypes(api, 'Mutation')) }
  for (const name of [
    'twice',
    'nothing',
    'on_change',
    'loose',
    'for_service',
    'exec_sql',
    '_initial',
    'initial',
    '_latest',
  ])
    assert.ok(!(name in fields), name)
  const service = {
    ...(await fieldTypes(api, 'Query', 'service_role')),
    ...(await fieldTypes(api, 'Mutation', 'service_role')),
  }
  assert.ok('for_service' in service)
})

test('GraphQL contract §4: computed fields', async () => {
  const types = await fieldTypes(api, 'authors')
  assert.equal(types['initial'], 'String')
  assert.match(types['latest']!, /^postsConnection!?$/)
  assert.equal(types['newest'], 'posts')
  assert.ok(!('hidden_from_anon' in types))
  assert.ok('hidden_from_anon' in (await fieldTypes(api, 'authors', 'service_role')))
  const document =
    '{ authorsByPk(id: 2) { initial newest { id title } latest(first: 2, filter: { id: { gt: 3 } }) { edges { node { id } } totalCount } } }'
  assert.deepEqual(await api.data(document), {
    authorsByPk: {
      initial: 'A',
      newest: { id: 39, title: 'post 39' },
      latest: { edges: [{ node: { id: 5 } }, { node: { id: 7 } }], totalCount: 18 },
    },
  })
})
