// 1 §4.4 and GraphQL contract §2: which tables, columns and mutations a role has, and row-level security.
import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { fieldTypes, type GraphqlApi, graphqlProject, typeOf } from '../graphql.ts'
import type { Caller } from '../rows.ts'
import { type Target, target } from '../target.ts'

const ada = '3f2f7f0e-0d3c-4d6a-9d65-2f1f0a4a2c11'
const alan = '3f2f7f0e-0d3c-4d6a-9d65-2f1f0a4a2c12'
let it: Target
let api: GraphqlApi
before(async () => {
  it = await target()
  api = await graphqlProject(
    it,
    `
    create table public.notes (id int primary key, owner uuid default auth.uid(), body text);
    insert into public.notes values (1, '${ada}', 'a'), (2, '${ada}', 'b'), (3, '${alan}', 'c');
    create policy own on public.notes to authenticated using (owner = auth.uid()) with check (owner = auth.uid());
    create table public.replies (id int primary key, note_id int references public.notes);
    insert into public.replies values (1, 1), (2, 3), (3, 3);
    create policy everybody on public.replies using (true) with check (true);

    create table public.people (id int primary key, name text, salary int);
    insert into public.people values (1, 'Ada', 100), (2, 'Alan', 50);
    create policy everybody on public.people using (true) with check (true);
    revoke all on public.people from anon, authenticated;
    grant select (id, name), insert (id, name), update (name) on public.people to anon;

    create table public.readable (id int primary key, note text);
    create policy everybody on public.readable using (true) with check (true);
    revoke all on public.readable from anon; grant select on public.readable to anon;
    create table public.insertable (id int primary key, note text);
    create policy everybody on public.insertable using (true) with check (true);
    revoke all on public.insertable from anon; grant select, insert on public.insertable to anon;
    create table public.closed (id int primary key);
    revoke all on public.closed from anon, authenticated;

    create table public.keyless (id int);
    create table public."bad-name" (id int primary key);
    create table public."1st" (id int primary key);
    create table public.odd (id int primary key, "bad column" int, "2nd" int, fine int);
    create policy everybody on public.odd using (true);
    insert into public.odd values (1, 2, 3, 4);
    create type public.point3 as (x int, y int, z int);
    create table public.shapes (id int primary key, at public.point3, name text);
    create policy everybody on public.shapes using (true);
    insert into public.shapes values (1, (1, 2, 3), 'dot');
    create view public.plain_view with (security_invoker) as select * from public.readable;
    create materialized view public.summary as select 1 as id, 2 as total;
    comment on materialized view public.summary is '@graphql({"primary_key_columns": ["id"]})';
    grant select on public.summary to anon;
    create schema private;
    create table private.secrets (id int primary key);
    `,
    { isOpen: false },
  )
})
after(() => it.stop())

const user = (sub: string): Caller => ({ sub })
const ids = async (query: string, as: Caller) => (await api.nodes(query, { as })).map(({ id }) => id)
const notes = '{ notesCollection { edges { node { id } } } }'

test('1 §4.4 a caller sees the rows that REST shows', async () => {
  for (const as of ['anon', 'service_role', user(ada), user(alan)] as Caller[]) {
    const expected = (await api.rows.read('notes?select=id&order=id', { as })).map(({ id }: any) => id)
    assert.deepEqual(await ids(notes, as), expected)
    const { notesCollection } = await api.data('{ notesCollection { totalCount } }', { as })
    assert.equal(notesCollection.totalCount, expected.length)
  }
  assert.deepEqual(await ids(notes, user(ada)), [1, 2])
  assert.deepEqual(await ids(notes, 'anon'), [])
})

test('1 §4.4 policies apply to nodes, nested rows and filters', async () => {
  const as = user(ada)
  const nodeId = Buffer.from('["public", "notes", 3]').toString('base64')
  const document = `{ notesByPk(id: 3) { body } node(nodeId: "${nodeId}") { nodeId }
    repliesCollection { edges { node { id notes { id } } } } }`
  assert.deepEqual(await api.data(document, { as }), {
    notesByPk: null,
    node: null,
    repliesCollection: {
      edges: [
        { node: { id: 1, notes: { id: 1 } } },
        { node: { id: 2, notes: null } },
        { node: { id: 3, notes: null } },
      ],
    },
  })
})

test('1 §4.4 policies apply to mutations', async () => {
  const as = user(ada)
  const insert = `mutation { insertIntonotesCollection(objects: [{ id: 9, owner: "${alan}" }]) { affectedCount } }`
  assert.match(await api.error(insert, { as }), /row-level security/)
  const update =
    'mutation { updatenotesCollection(set: { body: "z" }, filter: { id: { eq: 3 } }) { affectedCount records { id } } }'
  assert.deepEqual(await api.data(update, { as }), {
    updatenotesCollection: { affectedCount: 0, records: [] },
  })
  const remove = 'mutation { deleteFromnotesCollection(filter: { id: { eq: 3 } }) { affectedCount } }'
  assert.deepEqual(await api.data(remove, { as }), { deleteFromnotesCollection: { affectedCount: 0 } })
  const own =
    'mutation { insertIntonotesCollection(objects: [{ id: 8 }]) { records { owner } } deleteFromnotesCollection(filter: { id: { eq: 8 } }) { affectedCount } }'
  assert.deepEqual(await api.data(own, { as }), {
    insertIntonotesCollection: { records: [{ owner: ada }] },
    deleteFromnotesCollection: { affectedCount: 1 },
  })
})

test('GraphQL contract §2: tables without a primary key, privilege or valid name are absent', async () => {
  for (const as of ['anon', 'service_role'] as const) {
    const query = Object.keys(await fieldTypes(api, 'Query', as))
    for (const name of ['keyless', 'bad-name', 'bad_name', '1st', 'plain_view', 'secrets'])
      assert.ok(!query.includes(`${name}Collection`), `${as} ${name}`)
    for (const name of ['readable', 'odd', 'shapes', 'summary'])
      assert.ok(query.includes(`${name}Collection`), `${as} ${name}`)
    assert.equal(query.includes('closedCollection'), as === 'service_role')
    assert.equal((await typeOf(api, 'closed', as)) !== null, as === 'service_role')
  }
  assert.match(await api.error('{ closedCollection { edges { cursor } } }'), /closedCollection/)
})

test('GraphQL contract §2: columns with an invalid name or a composite type are omitted', async () => {
  const odd = Object.keys(await fieldTypes(api, 'odd'))
  assert.ok(odd.includes('fine') && !odd.some(name => /bad|2nd/.test(name)), odd.join())
  assert.deepEqual(await api.data('{ oddByPk(id: 1) { fine } }'), { oddByPk: { fine: 4 } })
  assert.ok(!('at' in (await fieldTypes(api, 'shapes'))))
  assert.deepEqual(
    await api.data('{ shapesByPk(id: 1) { name } summaryCollection { edges { node { total } } } }'),
    {
      shapesByPk: { name: 'dot' },
      summaryCollection: { edges: [{ node: { total: 2 } }] },
    },
  )
})

test('GraphQL contract §2: columns without privilege are absent for the role', async () => {
  for (const type of ['people', 'peopleFilter', 'peopleOrderBy', 'peopleInsertInput', 'peopleUpdateInput']) {
    assert.ok(!('salary' in (await fieldTypes(api, type))), `anon ${type}`)
    assert.ok('salary' in (await fieldTypes(api, type, 'service_role')), `service_role ${type}`)
  }
  assert.deepEqual(await api.nodes('{ peopleCollection { edges { node { id name } } } }'), [
    { id: 1, name: 'Ada' },
    { id: 2, name: 'Alan' },
  ])
  assert.match(await api.error('{ peopleCollection { edges { node { salary } } } }'), /salary/)
  assert.match(
    await api.error('{ peopleCollection(orderBy: [{ salary: AscNullsLast }]) { edges { node { id } } } }'),
    /salary/,
  )
  assert.match(
    await api.error('{ peopleCollection(filter: { salary: { gt: 60 } }) { edges { node { id } } } }'),
    /salary/,
  )
  const updatable = Object.keys(await fieldTypes(api, 'peopleUpdateInput'))
  assert.deepEqual(updatable, ['name'])
  assert.match(
    await api.error('{ peopleCollection { edges { cursor } } }', { as: user(ada) }),
    /peopleCollection/,
  )
})

test('GraphQL contract §2: mutations on columns with privilege work', async () => {
  const document = `mutation { insertIntopeopleCollection(objects: [{ id: 7, name: "G" }]) { affectedCount records { id name } }
    updatepeopleCollection(set: { name: "H" }, filter: { id: { eq: 7 } }) { records { name } } }`
  assert.deepEqual(await api.data(document), {
    insertIntopeopleCollection: { affectedCount: 1, records: [{ id: 7, name: 'G' }] },
    updatepeopleCollection: { records: [{ name: 'H' }] },
  })
  await api.rows.sql('delete from public.people where id = 7')
})

test('GraphQL contract §2: mutations appear only with the privilege', async () => {
  const mutations = Object.keys(await fieldTypes(api, 'Mutation'))
  const expected: Record<string, boolean> = {
    insertIntoreadableCollection: false,
    updatereadableCollection: false,
    deleteFromreadableCollection: false,
    insertIntoinsertableCollection: true,
    updateinsertableCollection: false,
    deleteFrominsertableCollection: false,
    insertIntopeopleCollection: true,
    updatepeopleCollection: true,
    deleteFrompeopleCollection: false,
    insertIntosummaryCollection: false,
    updatesummaryCollection: false,
    deleteFromsummaryCollection: false,
  }
  for (const [name, isThere] of Object.entries(expected))
    assert.equal(mutations.includes(name), isThere, name)
  assert.match(
    await api.error('mutation { deleteFrompeopleCollection { affectedCount } }'),
    /deleteFrompeopleCollection/,
  )
})

test('GraphQL contract §2: mutationType is null if the role has no mutation', async () => {
  const quiet = await graphqlProject(
    it,
    `
    create table public.readable (id int primary key);
    revoke all on public.readable from anon; grant select on public.readable to anon`,
  )
  const document = '{ __schema { mutationType { name } queryType { name } } }'
  assert.deepEqual((await quiet.data(document)).__schema, {
    mutationType: null,
    queryType: { name: 'Query' },
  })
  assert.equal((await quiet.data(document, { as: 'service_role' })).__schema.mutationType.name, 'Mutation')
  await quiet.error('mutation { insertIntoreadableCollection(objects: [{ id: 1 }]) { affectedCount } }')
})

test('1 §4.4 a project without tables answers queries and introspection', async () => {
  const empty = await graphqlProject(it, 'select 1')
  assert.deepEqual(await empty.data('{ __typename __schema { queryType { name } } }'), {
    __typename: 'Query',
    __schema: { queryType: { name: 'Query' } },
  })
})

test('Issue: a changed schema, privilege or comment is there in the next request', async () => {
  await api.rows.sql('alter table public.readable add column added int default 5')
  await api.data('{ readableCollection { edges { node { added } } } }')
  await api.rows.sql('grant delete on public.readable to anon')
  await api.data('mutation { deleteFromreadableCollection { affectedCount } }')
  await api.rows.sql('revoke delete on public.readable from anon')
  await api.error('mutation { deleteFromreadableCollection { affectedCount } }')
  await api.rows.sql(`comment on column public.readable.added is '@graphql({"name": "renamed"})'`)
  await api.data('{ readableCollection { edges { node { renamed } } } }')
  await api.rows.sql('alter table public.readable drop column added')
  await api.error('{ readableCollection { edges { node { renamed } } } }')
})
