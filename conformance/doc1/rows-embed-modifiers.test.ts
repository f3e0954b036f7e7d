// 1 §4.2 "Embed-level modifiers" and REST contract §4: filters, order and limits of embedded rows, and
// spreads.
import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { assertRefused, assertStatus, type RowsApi, rowsProject, totalOf } from '../rows.ts'
import { type Target, target } from '../target.ts'

let it: Target
let rows: RowsApi
before(async () => {
  it = await target()
  rows = await rowsProject(
    it,
    `
    create table public.authors (id int primary key, name text not null);
    create table public.posts (id int primary key, author_id int references public.authors, title text, likes int, meta jsonb);
    create table public.comments (id int primary key, post_id int references public.posts, body text);
    create table public.tags (id int primary key, label text);
    create table public.post_tags (post_id int references public.posts, tag_id int references public.tags, primary key (post_id, tag_id));
    insert into public.authors values (1, 'Ada'), (2, 'Alan'), (3, 'Grace');
    insert into public.posts values
      (1, 1, 'a', 5, '{"k":1}'), (2, 1, 'b', null, '{"k":2}'), (3, 1, 'c', 9, null), (4, 2, 'd', 1, '{"k":2}'), (5, null, 'e', 3, null);
    insert into public.comments values (1, 1, 'x'), (2, 1, 'y'), (3, 1, 'z'), (4, 3, 'x'), (5, 4, 'y');
    insert into public.tags values (1, 'red'), (2, 'blue');
    insert into public.post_tags values (1, 1), (1, 2), (4, 2);
    `,
  )
})
after(() => it.stop())

const postsOf = async (query: string): Promise<number[][]> =>
  (await rows.read(`authors?select=id,posts(id)&order=id&${query}`)).map(({ posts }: any) =>
    posts.map(({ id }: any) => id),
  )

const shaped: Record<string, number[][]> = {
  'posts.order=id.desc': [[3, 2, 1], [4], []],
  'posts.order=likes.desc.nullslast': [[3, 1, 2], [4], []],
  'posts.order=likes.nullsfirst': [[2, 1, 3], [4], []],
  'posts.order=meta->k.desc.nullslast,id': [[2, 1, 3], [4], []],
  'posts.order=id&posts.limit=1': [[1], [4], []],
  'posts.order=id&posts.limit=2&posts.offset=1': [[2, 3], [], []],
  'posts.order=id&posts.offset=1': [[2, 3], [], []],
  'posts.limit=0': [[], [], []],
  'posts.title=eq.b': [[2], [], []],
  'posts.likes=gt.1&posts.likes=lt.9': [[1], [], []],
  'posts.likes=is.null': [[2], [], []],
  'posts.id=in.(1,4)': [[1], [4], []],
  'posts.id=not.in.(1,4)&posts.order=id': [[2, 3], [], []],
  'posts.meta->>k=eq.2': [[2], [4], []],
  'posts.title=eq.nothing': [[], [], []],
}
for (const [query, ids] of Object.entries(shaped))
  test(`1 §4.2 ${query} changes the embedded rows and keeps the base rows`, async () =>
    assert.deepEqual(await postsOf(query), ids))

test('1 §4.2 modifiers apply to nested embeds', async () => {
  const path = 'authors?select=id,posts(id,comments(id))&id=eq.1&posts.order=id.desc'
  assert.deepEqual(
    (await rows.read(`${path}&posts.comments.order=id.desc&posts.comments.limit=2`))[0].posts,
    [
      { id: 3, comments: [{ id: 4 }] },
      { id: 2, comments: [] },
      { id: 1, comments: [{ id: 3 }, { id: 2 }] },
    ],
  )
  assert.deepEqual((await rows.read(`${path}&posts.comments.body=eq.x`))[0].posts, [
    { id: 3, comments: [{ id: 4 }] },
    { id: 2, comments: [] },
    { id: 1, comments: [{ id: 1 }] },
  ])
})

test('1 §4.2 modifiers apply to a many-to-many embed', async () => {
  const path = 'posts?select=id,tags(label)&id=in.(1,4)&order=id'
  assert.deepEqual(await rows.read(`${path}&tags.order=label&tags.limit=1`), [
    { id: 1, tags: [{ label: 'blue' }] },
    { id: 4, tags: [{ label: 'blue' }] },
  ])
  assert.deepEqual(await rows.read(`${path}&tags.label=eq.red`), [
    { id: 1, tags: [{ label: 'red' }] },
    { id: 4, tags: [] },
  ])
})

test('1 §4.2 a filter on a to-one embed sets it to null, and removes the row only with inner', async () => {
  const base = 'order=id&id=in.(1,4,5)&authors.name=eq.Ada'
  assert.deepEqual(await rows.read(`posts?select=id,authors(name)&${base}`), [
    { id: 1, authors: { name: 'Ada' } },
    { id: 4, authors: null },
    { id: 5, authors: null },
  ])
  assert.deepEqual(await rows.read(`posts?select=id,authors!inner(name)&${base}`), [
    { id: 1, authors: { name: 'Ada' } },
  ])
})

test('1 §4.2 modifiers name an embed by its alias', async () => {
  const path = 'authors?select=id,works:posts(id)&id=eq.1'
  assert.deepEqual(await rows.read(`${path}&works.order=id.desc&works.limit=1`), [
    { id: 1, works: [{ id: 3 }] },
  ])
  assert.deepEqual(await rows.read(`${path}&works.title=eq.b`), [{ id: 1, works: [{ id: 2 }] }])
})

test('REST contract §5: a modifier for a table that is not embedded returns 400', async () => {
  for (const query of [
    'select=id&posts.order=id',
    'select=id&posts.limit=1',
    'select=id&posts.title=eq.a',
    'select=id&posts.or=(id.eq.1,id.eq.2)',
    'select=id,posts(id)&comments.id=eq.1',
    'select=id,posts(id)&posts.comments.id=eq.1',
  ])
    assertRefused(await rows.get(`authors?${query}`), 400, 'PGRST108')
})

test('1 §4.2 a negative limit or offset of an embed returns 400', async () => {
  assertStatus(await rows.get('authors?select=id,posts(id)&posts.limit=-1'), 400)
  assertStatus(await rows.get('authors?select=id,posts(id)&posts.offset=-1'), 400)
})

test('REST contract §4: is.null and not.is.null on an embed select rows without and with a match', async () => {
  const authors = (query: string) => rows.read(`authors?select=id,posts()&order=id&${query}`)
  assert.deepEqual(await authors('posts=is.null'), [{ id: 3 }])
  assert.deepEqual(await authors('posts=not.is.null'), [{ id: 1 }, { id: 2 }])
  assert.deepEqual(await authors('posts.likes=gt.4&posts=is.null'), [{ id: 2 }, { id: 3 }])
  assert.deepEqual(await authors('or=(posts.is.null,id.eq.1)'), [{ id: 1 }, { id: 3 }])
  assert.deepEqual(await rows.read('posts?select=id,authors(name)&authors=is.null'), [
    { id: 5, authors: null },
  ])
  assert.deepEqual(await rows.read('authors?select=id,works:posts(id)&works=is.null'), [{ id: 3, works: [] }])
  const counted = await rows.get('authors?select=id,posts()&posts=not.is.null&limit=1', {
    prefer: 'count=exact',
  })
  assert.equal(totalOf(counted), '2')
})

test('REST contract §5: any other comparison with an embed returns 400', async () => {
  for (const filter of ['posts=eq.1', 'posts=is.true', 'posts=not.eq.1', 'posts=gt.1'])
    assertRefused(await rows.get(`authors?select=id,posts(id)&${filter}`), 400, 'PGRST120')
})

test('REST contract §4: an embed without columns filters and is not in the response', async () => {
  assert.deepEqual(await rows.read('authors?select=name,posts!inner()&posts.title=eq.d'), [{ name: 'Alan' }])
  assert.deepEqual(await rows.read('authors?select=name,posts()&order=id'), [
    { name: 'Ada' },
    { name: 'Alan' },
    { name: 'Grace' },
  ])
})

test('REST contract §4: a to-one spread adds its columns to the parent', async () => {
  assert.deepEqual(await rows.read('posts?select=title,...authors(name)&id=in.(4,5)&order=id'), [
    { title: 'd', name: 'Alan' },
    { title: 'e', name: null },
  ])
  assert.deepEqual(await rows.read('posts?select=...authors(author_id:id,author:name),id&id=eq.4'), [
    { author_id: 2, author: 'Alan', id: 4 },
  ])
  assert.deepEqual(await rows.read('comments?select=id,...posts(title,...authors(name))&id=eq.5'), [
    { id: 5, title: 'd', name: 'Alan' },
  ])
  assert.deepEqual(await rows.read('comments?select=id,...posts(title,authors(name))&id=eq.5'), [
    { id: 5, title: 'd', authors: { name: 'Alan' } },
  ])
  assert.deepEqual(await rows.read('comments?select=id,posts(...authors(name))&id=eq.5'), [
    { id: 5, posts: { name: 'Alan' } },
  ])
})

test('REST contract §4: a spread accepts inner and filters', async () => {
  assert.deepEqual(await rows.read('posts?select=id,...authors!inner(name)&authors.name=eq.Alan'), [
    { id: 4, name: 'Alan' },
  ])
})

test('REST contract §4: a to-many spread returns parallel arrays', async () => {
  assert.deepEqual(await rows.read('authors?select=name,...posts(id,title)&order=id&posts.order=id.desc'), [
    { name: 'Ada', id: [3, 2, 1], title: ['c', 'b', 'a'] },
    { name: 'Alan', id: [4], title: ['d'] },
    { name: 'Grace', id: [], title: [] },
  ])
  assert.deepEqual(await rows.read('posts?select=id,...tags(labels:label)&id=eq.1&tags.order=label'), [
    { id: 1, labels: ['blue', 'red'] },
  ])
})

test('REST contract §4: a to-many spread can contain spreads and embeds', async () => {
  const path = 'authors?id=lt.3&order=id&posts.order=id'
  assert.deepEqual(
    await rows.read(`${path}&select=name,...posts(title,...comments(body))&posts.comments.order=id`),
    [
      { name: 'Ada', title: ['a', 'b', 'c'], body: [['x', 'y', 'z'], [], ['x']] },
      { name: 'Alan', title: ['d'], body: [['y']] },
    ],
  )
  assert.deepEqual(await rows.read(`${path}&select=name,...posts(id,comments(id))&posts.id=gt.2`), [
    { name: 'Ada', id: [3], comments: [[{ id: 4 }]] },
    { name: 'Alan', id: [4], comments: [[{ id: 5 }]] },
  ])
})

test('REST contract §4: the columns of a to-one embed or spread are grouping keys of an aggregate', async () => {
  const sums = (rows: any[]) => rows.toSorted((a, b) => a.sum - b.sum)
  assert.deepEqual(sums(await rows.read('posts?select=likes.sum(),...authors!inner(name)')), [
    { sum: 1, name: 'Alan' },
    { sum: 14, name: 'Ada' },
  ])
  assert.deepEqual(sums(await rows.read('posts?select=likes.sum(),authors!inner(name)')), [
    { sum: 1, authors: { name: 'Alan' } },
    { sum: 14, authors: { name: 'Ada' } },
  ])
})

test('REST contract §4: aliases, casts and JSON paths work inside an embed', async () => {
  assert.deepEqual(await rows.read('authors?select=n:name,p:posts(t:title,likes::text,meta->k)&id=eq.2'), [
    { n: 'Alan', p: [{ t: 'd', likes: '1', k: 2 }] },
  ])
})

test('1 §9 the native and the alias path accept the same modifiers', async () => {
  const path = 'authors?select=id,posts(id)&id=eq.1&posts.order=id.desc&posts.limit=1&posts.likes=not.is.null'
  for (const shape of ['native', 'alias'] as const)
    assert.deepEqual(await rows.read(path, { shape }), [{ id: 1, posts: [{ id: 3 }] }])
})
