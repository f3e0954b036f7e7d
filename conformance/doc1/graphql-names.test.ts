// GraphQL contract §3: names of types, fields and foreign-key fields, without and with inflection.
import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { fieldTypes, type GraphqlApi, graphqlProject, typeOf } from '../graphql.ts'
import { type Target, target } from '../target.ts'

const tables = `
  create type public.post_state as enum ('draft', 'Live_now');
  create table public.authors (id int primary key, full_name text);
  create table public.blog_post (id int primary key, author_id int references public.authors, "editorId" int, state public.post_state, written_at date);
  create table public."Gadget" (id int primary key, "authorId" int references public.authors, "MixedCase" int);
  create table public.profiles (id int primary key, author_id int unique references public.authors, motto text);
  create table public.flights (carrier text, number int, city text, primary key (carrier, number));
  create table public.seats (id int primary key, carrier text, number int, foreign key (carrier, number) references public.flights);
  create table public.notes (id int primary key, writer int references public.authors);
  create function public.count_posts() returns int language sql stable as $$ select count(*)::int from public.blog_post $$;
  create function public."Shout_it"(words text) returns text language sql stable as $$ select upper(words) $$;
  create function public._display_name(rec public.authors) returns text language sql stable as $$ select '<' || rec.full_name || '>' $$;
  insert into public.authors values (1, 'Ada'), (2, 'Alan');
  insert into public.blog_post values (1, 1, 1, 'draft', '2024-01-01'), (2, 2, 1, 'Live_now', null);
  insert into public."Gadget" values (1, 2, 5);
  insert into public.profiles values (1, 1, 'onward');
  insert into public.flights values ('PL', 1, 'Rome');
  insert into public.seats values (1, 'PL', 1), (2, null, 1);
  insert into public.notes values (1, 2);
`
let it: Target
let api: GraphqlApi
let inflected: GraphqlApi
before(async () => {
  it = await target()
  api = await graphqlProject(it, tables)
  inflected = await graphqlProject(
    it,
    `${tables}; comment on schema public is '@graphql({"inflect_names": true})'`,
  )
})
after(() => it.stop())

async function hasFields(of: GraphqlApi, type: string, expected: Record<string, string>): Promise<void> {
  const fields = await fieldTypes(of, type)
  for (const [name, written] of Object.entries(expected))
    assert.equal(fields[name], written, `${type}.${name}`)
}
const helpers = [
  'Connection',
  'Edge',
  'Filter',
  'OrderBy',
  'InsertInput',
  'UpdateInput',
  'InsertResponse',
  'UpdateResponse',
  'DeleteResponse',
]

test('GraphQL contract §3: without inflection the table name is used as it is', async () => {
  await hasFields(api, 'Query', {
    blog_postCollection: 'blog_postConnection!',
    blog_postByPk: 'blog_post',
    gadgetCollection: 'GadgetConnection!',
    gadgetByPk: 'Gadget',
    count_posts: 'Int',
    shout_it: 'String',
    node: 'Node',
  })
  await hasFields(api, 'Mutation', {
    insertIntoblog_postCollection: 'blog_postInsertResponse',
    updateblog_postCollection: 'blog_postUpdateResponse!',
    deleteFromblog_postCollection: 'blog_postDeleteResponse!',
    insertIntoGadgetCollection: 'GadgetInsertResponse',
    updateGadgetCollection: 'GadgetUpdateResponse!',
    deleteFromGadgetCollection: 'GadgetDeleteResponse!',
  })
  for (const helper of helpers)
    for (const base of ['blog_post', 'Gadget']) assert.ok(await typeOf(api, base + helper), base + helper)
})

test('GraphQL contract §3: without inflection columns and enums keep their names', async () => {
  await hasFields(api, 'blog_post', {
    id: 'Int!',
    author_id: 'Int',
    editorId: 'Int',
    state: 'post_state',
    written_at: 'Date',
  })
  await hasFields(api, 'Gadget', { MixedCase: 'Int', authorId: 'Int' })
  assert.deepEqual((await typeOf(api, 'post_state'))?.enumValues, ['draft', 'Live_now'])
})

test('GraphQL contract §3: a to-one field has the referenced table’s name, and the column’s name without _id', async () => {
  await hasFields(api, 'blog_post', { authors: 'authors', author: 'authors' })
  await hasFields(api, 'notes', { authors: 'authors' })
  await hasFields(api, 'Gadget', { author: 'authors' })
  const document =
    '{ blog_postByPk(id: 1) { authors { full_name } author { id } } gadgetByPk(id: 1) { author { id } } notesByPk(id: 1) { authors { id } } }'
  assert.deepEqual(await api.data(document), {
    blog_postByPk: { authors: { full_name: 'Ada' }, author: { id: 1 } },
    gadgetByPk: { author: { id: 2 } },
    notesByPk: { authors: { id: 2 } },
  })
})

test('GraphQL contract §3: to-many fields, one-to-one fields and composite keys', async () => {
  await hasFields(api, 'authors', {
    blog_postCollection: 'blog_postConnection',
    gadgetCollection: 'GadgetConnection',
    notesCollection: 'notesConnection',
    profiles: 'profiles',
  })
  assert.ok(!('profilesCollection' in (await fieldTypes(api, 'authors'))))
  await hasFields(api, 'profiles', { authors: 'authors', author: 'authors' })
  await hasFields(api, 'seats', { flights: 'flights' })
  await hasFields(api, 'flights', { seatsCollection: 'seatsConnection' })
  const field = (await typeOf(api, 'authors'))!.fields['blog_postCollection']!
  assert.deepEqual(Object.keys(field.args).sort(), [
    'after',
    'before',
    'filter',
    'first',
    'last',
    'offset',
    'orderBy',
  ])
  const document = `{
    ada: authorsByPk(id: 1) { profiles { motto authors { id } } blog_postCollection { edges { node { id } } } }
    alan: authorsByPk(id: 2) { profiles { motto } }
    flightsByPk(carrier: "PL", number: 1) { city seatsCollection { edges { node { id flights { city } } } } }
    seatsByPk(id: 2) { flights { city } }
  }`
  assert.deepEqual(await api.data(document), {
    ada: {
      profiles: { motto: 'onward', authors: { id: 1 } },
      blog_postCollection: { edges: [{ node: { id: 1 } }] },
    },
    alan: { profiles: null },
    flightsByPk: {
      city: 'Rome',
      seatsCollection: { edges: [{ node: { id: 1, flights: { city: 'Rome' } } }] },
    },
    seatsByPk: { flights: null },
  })
})

test('GraphQL contract §3: computed fields lose one leading underscore', async () => {
  assert.deepEqual(await api.data('{ authorsByPk(id: 1) { display_name } }'), {
    authorsByPk: { display_name: '<Ada>' },
  })
  assert.deepEqual(await api.data('{ count_posts shout_it(words: "a") }'), { count_posts: 2, shout_it: 'A' })
})

test('GraphQL contract §3: inflect_names changes tables, columns, enums and functions', async () => {
  await hasFields(inflected, 'Query', {
    blogPostCollection: 'BlogPostConnection!',
    blogPostByPk: 'BlogPost',
    authorsCollection: 'AuthorsConnection!',
    gadgetCollection: 'GadgetConnection!',
    countPosts: 'Int',
  })
  await hasFields(inflected, 'Mutation', {
    insertIntoBlogPostCollection: 'BlogPostInsertResponse',
    updateBlogPostCollection: 'BlogPostUpdateResponse!',
    deleteFromBlogPostCollection: 'BlogPostDeleteResponse!',
  })
  await hasFields(inflected, 'BlogPost', {
    id: 'Int!',
    authorId: 'Int',
    editorId: 'Int',
    state: 'PostState',
    writtenAt: 'Date',
  })
  assert.deepEqual((await typeOf(inflected, 'PostState'))?.enumValues, ['draft', 'Live_now'])
  for (const helper of helpers) assert.ok(await typeOf(inflected, `BlogPost${helper}`), helper)
  for (const type of ['BlogPostFilter', 'BlogPostOrderBy', 'BlogPostInsertInput', 'BlogPostUpdateInput'])
    assert.ok('writtenAt' in (await fieldTypes(inflected, type)), type)
})

test('GraphQL contract §3: inflect_names changes foreign-key and computed fields', async () => {
  await hasFields(inflected, 'BlogPost', { author: 'Authors' })
  await hasFields(inflected, 'Notes', { authors: 'Authors' })
  await hasFields(inflected, 'Gadget', { author: 'Authors' })
  await hasFields(inflected, 'Authors', {
    blogPostCollection: 'BlogPostConnection',
    profiles: 'Profiles',
    displayName: 'String',
  })
  await hasFields(inflected, 'Seats', { flights: 'Flights' })
  const document = `{ blogPostCollection(filter: { writtenAt: { is: NULL }, authorId: { eq: 2 } }, orderBy: [{ writtenAt: AscNullsLast }]) {
    edges { node { id author { fullName displayName blogPostCollection { edges { node { id } } } } } } } }`
  assert.deepEqual(await inflected.nodes(document), [
    {
      id: 2,
      author: {
        fullName: 'Alan',
        displayName: '<Alan>',
        blogPostCollection: { edges: [{ node: { id: 2 } }] },
      },
    },
  ])
})

test('GraphQL contract §3: inflected names in mutations', async () => {
  const document = `mutation {
    insertIntoBlogPostCollection(objects: [{ id: 9, authorId: 1, writtenAt: "2024-05-05", state: Live_now }]) { records { id writtenAt author { fullName } state } }
    updateBlogPostCollection(set: { writtenAt: null }, filter: { id: { eq: 9 } }) { records { writtenAt } }
    deleteFromBlogPostCollection(filter: { id: { eq: 9 } }) { affectedCount }
  }`
  assert.deepEqual(await inflected.data(document), {
    insertIntoBlogPostCollection: {
      records: [{ id: 9, writtenAt: '2024-05-05', author: { fullName: 'Ada' }, state: 'Live_now' }],
    },
    updateBlogPostCollection: { records: [{ writtenAt: null }] },
    deleteFromBlogPostCollection: { affectedCount: 1 },
  })
})
