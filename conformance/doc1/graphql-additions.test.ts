// Issue: upsert, filters through relations and order by a to-one relation, as docs/graphql.md describes them.
import assert from 'node:assert/strict'
import { after, before, beforeEach, test } from 'node:test'
import { type GraphqlApi, graphqlProject } from '../graphql.ts'
import { type Target, target } from '../target.ts'

let it: Target
let api: GraphqlApi
before(async () => {
  it = await target()
  api = await graphqlProject(
    it,
    `
    create table public.authors (id int primary key, email text unique, name text, hidden boolean default false);
    create table public.posts (id int primary key, author_id int references public.authors, title text);
    create table public.profiles (id int primary key, author_id int unique references public.authors, motto text);
    create table public.pairs (a int, b int, note text default 'new', primary key (a, b));
    `,
  )
  await api.rows.ddl(`
    drop policy everybody on public.authors;
    create policy visible on public.authors using (not hidden) with check (true)`)
})
after(() => it.stop())
beforeEach(() =>
  api.rows.sql(`
    truncate public.authors, public.posts, public.profiles, public.pairs;
    insert into public.authors values (1, 'ada', 'Ada', false), (2, 'alan', 'Alan', false), (3, 'grace', null, false), (4, 'eve', 'Eve', true);
    insert into public.posts values (1, 2, 'one'), (2, 1, 'two'), (3, null, 'three'), (4, 3, 'four'), (5, 4, 'five'), (6, 1, 'six');
    insert into public.profiles values (1, 1, 'onward');
    insert into public.pairs values (1, 1, 'old')`),
)

const idsOf = async (name: string, args: string) =>
  (await api.nodes(`{ ${name}Collection(${args}) { edges { node { id } } } }`)).map(({ id }) => id)
const upsert = (objects: string, rest: string, name = 'authors') =>
  `mutation { insertInto${name}Collection(objects: ${objects}, ${rest}) { affectedCount records { ${name === 'pairs' ? 'a b note' : 'id email name'} } } }`

test('Issue: filters through a to-one relation', async () => {
  const cases: Record<string, number[]> = {
    '{ authors: { name: { eq: "Ada" } } }': [2, 6],
    '{ author: { name: { eq: "Ada" } } }': [2, 6],
    '{ not: { authors: { name: { eq: "Ada" } } } }': [1, 3, 4, 5],
    '{ authors: { profiles: { motto: { like: "on%" } } } }': [2, 6],
    '{ or: [{ authors: { id: { eq: 2 } } }, { title: { eq: "three" } }] }': [1, 3],
    '{ authors: { name: { is: NULL } } }': [4],
  }
  for (const [filter, expected] of Object.entries(cases)) {
    const found = await idsOf('posts', `filter: ${filter}`)
    assert.deepEqual(found, expected, filter)
  }
})

test('Issue: filters through a collection with some, none and every', async () => {
  const cases: Record<string, number[]> = {
    '{ postsCollection: { some: { title: { eq: "two" } } } }': [1],
    '{ postsCollection: { none: { title: { eq: "two" } } } }': [2, 3],
    '{ postsCollection: { every: { title: { eq: "two" } } } }': [],
    '{ postsCollection: { every: { author_id: { lt: 3 } } } }': [1, 2],
    '{ profiles: { id: { eq: 1 } } }': [1],
  }
  for (const [filter, expected] of Object.entries(cases))
    assert.deepEqual(await idsOf('authors', `filter: ${filter}`), expected, filter)
})

test('1 §4.4 a filter or order through a relation does not show hidden rows', async () => {
  assert.deepEqual(await idsOf('posts', 'filter: { authors: { name: { eq: "Eve" } } }'), [])
  assert.deepEqual(await idsOf('posts', 'filter: { authors: { hidden: { eq: true } } }'), [])
  assert.deepEqual(await idsOf('posts', 'filter: { authors: { email: { like: "e%" } } }'), [])
  const ordered = await idsOf('posts', 'orderBy: [{ authors: { email: DescNullsLast } }]')
  assert.deepEqual(ordered, [4, 1, 2, 6, 3, 5])
  const { postsCollection } = await api.data(
    '{ postsCollection(orderBy: [{ authors: { email: DescNullsLast } }], last: 1) { edges { cursor } } }',
  )
  assert.doesNotMatch(Buffer.from(postsCollection.edges[0].cursor, 'base64').toString(), /eve/)
})

test('Issue: order by a column of a to-one relation, with cursors', async () => {
  assert.deepEqual(await idsOf('posts', 'orderBy: [{ authors: { name: AscNullsLast } }]'), [2, 6, 1, 3, 4, 5])
  assert.deepEqual(
    await idsOf('posts', 'orderBy: [{ authors: { name: DescNullsFirst } }, { title: DescNullsLast }]'),
    [3, 4, 5, 1, 2, 6],
  )
  for (const direction of ['AscNullsFirst', 'AscNullsLast', 'DescNullsFirst', 'DescNullsLast']) {
    const order = `orderBy: [{ authors: { name: ${direction} } }, { id: DescNullsLast }]`
    const all = await idsOf('posts', order)
    const forward: number[] = []
    for (let after = ''; ; ) {
      const { edges, pageInfo } = (
        await api.data(
          `{ postsCollection(${order}, first: 2${after}) { edges { node { id } } pageInfo { hasNextPage endCursor } } }`,
        )
      ).postsCollection
      forward.push(...edges.map(({ node }: any) => node.id))
      if (!pageInfo.hasNextPage || forward.length > all.length) break
      after = `, after: "${pageInfo.endCursor}"`
    }
    assert.deepEqual(forward, all, direction)
  }
  await api.error(
    '{ postsCollection(orderBy: [{ authors: { name: AscNullsLast, id: AscNullsLast } }]) { edges { cursor } } }',
  )
})

test('Issue: onConflict updates or keeps rows that exist', async () => {
  const update = upsert(
    '[{ id: 1, email: "ada", name: "New" }, { id: 8, email: "kay" }]',
    'onConflict: { columns: [email], action: UPDATE }',
  )
  const { insertIntoauthorsCollection: updated } = await api.data(update)
  assert.equal(updated.affectedCount, 2)
  assert.deepEqual(updated.records.map(({ email, name }: any) => [email, name]).sort(), [
    ['ada', 'New'],
    ['kay', null],
  ])
  const keep = upsert(
    '[{ id: 2, email: "x", name: "X" }, { id: 7, email: "y" }]',
    'onConflict: { columns: [id], action: NOTHING }',
  )
  const { insertIntoauthorsCollection: kept } = await api.data(keep)
  assert.equal(kept.affectedCount, 1)
  assert.deepEqual(
    kept.records.map(({ id }: any) => id),
    [7],
  )
  assert.deepEqual(await api.rows.read('authors?select=name&id=eq.2'), [{ name: 'Alan' }])
})

test('Issue: onConflict with a composite key, and columns that have no unique index', async () => {
  const document = upsert(
    '[{ a: 1, b: 1, note: "changed" }, { a: 1, b: 2 }]',
    'onConflict: { columns: [a, b], action: UPDATE }',
    'pairs',
  )
  assert.equal((await api.data(document)).insertIntopairsCollection.affectedCount, 2)
  assert.deepEqual(await api.rows.read('pairs?order=b'), [
    { a: 1, b: 1, note: 'changed' },
    { a: 1, b: 2, note: 'new' },
  ])
  await api.error(upsert('[{ id: 1, name: "x" }]', 'onConflict: { columns: [name], action: UPDATE }'))
  await api.error(upsert('[{ id: 1, name: "x" }]', 'onConflict: { columns: [wrong], action: UPDATE }'))
})

test('1 §4.4 an upsert neither shows nor changes a hidden row', async () => {
  const document = upsert(
    '[{ id: 4, email: "mine", name: "Mallory" }]',
    'onConflict: { columns: [id], action: UPDATE }',
  )
  const reply = await api.ask(document)
  assert.equal(reply.status, 200)
  assert.doesNotMatch(reply.text, /Eve/)
  assert.deepEqual(await api.rows.read('authors?select=name&id=eq.4', { as: 'service_role' }), [
    { name: 'Eve' },
  ])
})
