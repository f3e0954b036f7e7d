// 1 §4.2 and REST contract §4 "logic": or, and, not, nesting and quoting.
import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { assertRefused, assertStatus, type RowsApi, rowsProject } from '../rows.ts'
import { type Target, target } from '../target.ts'

let it: Target
let rows: RowsApi
before(async () => {
  it = await target()
  rows = await rowsProject(
    it,
    `
    create table public.authors (id int primary key, name text, born int, tags text[], span int4range, meta jsonb, bio text);
    insert into public.authors values
      (1, 'Ada', 1815, '{math,code}', '[1,5)', '{"tier":"gold","n":1}', 'first programmer'),
      (2, 'Alan', 1912, '{code}', '[5,9)', '{"tier":"tin","n":2}', 'broke codes'),
      (3, 'Grace', 1906, '{navy}', '[9,12)', '{"tier":"gold","n":30}', 'wrote compilers'),
      (4, 'a,b', null, '{"x,y"}', null, null, null),
      (5, 'p(q).r:s', 2000, null, null, null, null),
      (6, 'say "hi" \\ bye', 2001, null, null, null, null);
    create table public.books (id int primary key, author_id int references public.authors, title text, pages int);
    insert into public.books values
      (1, 1, 'Notes', 60), (2, 1, 'Letters', 300), (3, 2, 'Machinery', 90), (4, 3, 'Compilers', 500), (5, 3, 'Notes', 10);
    `,
  )
})
after(() => it.stop())

const idsOf = async (query: string): Promise<number[]> =>
  (await rows.read(`authors?${query}&select=id&order=id`)).map(({ id }: { id: number }) => id)

function matches(what: string, cases: Record<string, number[]>): void {
  for (const [query, ids] of Object.entries(cases))
    test(`1 §4.2 ${what}: ${query}`, async () => assert.deepEqual(await idsOf(query), ids))
}

matches('groups', {
  'or=(id.eq.1,id.eq.3)': [1, 3],
  'or=(id.eq.1)': [1],
  'and=(born.gt.1900,born.lt.1950)': [2, 3],
  'and=(id.gt.1,id.lt.4,name.neq.Alan)': [3],
  'or=(born.is.null,born.lt.1900)': [1, 4],
  'not.or=(id.eq.1,id.eq.3)': [2, 4, 5, 6],
  'not.and=(id.gt.1,id.lt.6)': [1, 6],
})

matches('groups and flat filters are joined with AND', {
  'or=(id.eq.1,id.eq.3)&name=like.G*': [3],
  'or=(id.eq.1,id.eq.3)&or=(id.eq.3,id.eq.4)': [3],
  'or=(id.eq.1,id.eq.3)&and=(id.gt.0,id.lt.2)': [1],
})

matches('nesting', {
  'or=(id.eq.1,and(born.gt.1900,born.lt.1910))': [1, 3],
  'or=(and(id.eq.1,name.eq.Ada),and(id.eq.2,name.eq.Ada))': [1],
  'and=(or(id.eq.1,id.eq.2),or(id.eq.2,id.eq.3))': [2],
  'or=(id.eq.6,not.or(id.eq.1,id.eq.2,id.gt.3))': [3, 6],
  'or=(id.eq.6,not.and(id.gt.0,id.lt.5))': [5, 6],
  'or=(id.eq.1,and(id.gt.1,or(id.eq.2,and(id.eq.3,not.or(name.eq.Alan,name.eq.Ada)))))': [1, 2, 3],
  'and=(or(id.eq.1,not.born.is.null),born.lt.1900)': [1],
})

matches('not works before an operator', {
  'or=(id.not.in.(1,2,3),name.eq.Ada)': [1, 4, 5, 6],
  'or=(not.id.gt.1,id.eq.3)': [1, 3],
  'and=(born.not.is.null,not.id.in.(1,2))': [3, 5, 6],
})

matches('values with reserved characters need double quotes', {
  'or=(name.eq."a,b",id.eq.1)': [1, 4],
  'or=(name.eq."p(q).r:s",id.eq.1)': [1, 5],
  'or=(name.eq."say \\"hi\\" \\\\ bye",id.eq.1)': [1, 6],
  'or=(name.in.("a,b","p(q).r:s"),id.eq.2)': [2, 4, 5],
  'or=(name.eq."",id.eq.2)': [2],
})

matches('values of every type', {
  'or=(id.in.(1,2),id.eq.5)': [1, 2, 5],
  'or=(id.in.(),id.eq.5)': [5],
  'or=(tags.cs.{math,code},id.eq.5)': [1, 5],
  'or=(tags.ov.{navy,math},id.eq.5)': [1, 3, 5],
  'or=(id.eq(any).{1,2},id.eq.5)': [1, 2, 5],
  'or=(name.like(any).{A*,G*},id.eq.5)': [1, 2, 3, 5],
  'or=(name.like.A*,name.ilike.g*)': [1, 2, 3],
  'or=(name.match.^A,id.eq.5)': [1, 2, 5],
  'or=(span.ov."[2,3)",id.eq.5)': [1, 5],
  'or=(span.sl."[6,7)",id.eq.5)': [1, 5],
  'or=(meta->>tier.eq.gold,id.eq.5)': [1, 3, 5],
  'or=(meta->n.gt.1,id.eq.5)': [2, 3, 5],
  'or=(meta.cs.{"tier":"tin"},id.eq.5)': [2, 5],
  'or=(bio.fts(english).compiler,id.eq.5)': [3, 5],
  'or=(bio.plfts(english).broke code,id.eq.5)': [2, 5],
  'or=(born.isdistinct.1815,id.eq.1)': [1, 2, 3, 4, 5, 6],
})

matches('spaces after commas are allowed', { 'or=(id.eq.1, id.eq.3)': [1, 3] })

const broken = [
  'or=id.eq.1',
  'or=(id.eq.1',
  'or=id.eq.1)',
  'or=()',
  'or=',
  'or=(id.eq.1,)',
  'or=(,id.eq.1)',
  'or=(id)',
  'or=(id.foo.1)',
  'or=(id.eq.1)x',
  'or=(xor(id.eq.1,id.eq.2))',
  'and=(id.eq.1,or(id.eq.2)',
  'or=(name.eq."a,id.eq.1)',
  'or=(id.is.nothing,id.eq.1)',
]
for (const query of broken)
  test(`REST contract §5: an invalid group returns 400: ${query}`, async () =>
    assertRefused(await rows.get(`authors?${query}`), 400, 'PGRST100'))

test('REST contract §5: an unknown column in a group returns 42703', async () => {
  assertRefused(await rows.get('authors?or=(nome.eq.x,id.eq.1)'), 400, '42703')
  assertRefused(await rows.get('authors?or=(id.eq.1,and(id.eq.2,nome.eq.x))'), 400, '42703')
})

test('1 §7 a value of the wrong type in a group returns 400', async () => {
  assertRefused(await rows.get('authors?or=(id.eq.x,id.eq.1)'), 400, '22P02')
})

const booksOf = async (query: string) =>
  (await rows.read(`authors?select=id,books(id)&order=id&books.order=id&id=lt.4&${query}`)).map(
    ({ books }: any) => books.map(({ id }: any) => id),
  )

test('REST contract §4: a group prefixed with the name of an embed filters only the embedded rows', async () => {
  assert.deepEqual(await booksOf('books.or=(title.eq.Notes,pages.gt.400)'), [[1], [], [4, 5]])
  assert.deepEqual(await booksOf('books.and=(title.eq.Notes,pages.gt.50)'), [[1], [], []])
  assert.deepEqual(await booksOf('books.or=(pages.lt.70,and(pages.gt.80,pages.lt.100))'), [[1], [3], [5]])
})

test('REST contract §4: a group names an embed by its alias', async () => {
  const found = await rows.read(
    'authors?select=id,works:books(id)&id=eq.3&works.or=(pages.lt.50,pages.gt.1000)',
  )
  assert.deepEqual(found, [{ id: 3, works: [{ id: 5 }] }])
})

test('REST contract §4: a group can test whether an embed has a match', async () => {
  const query = (group: string) => rows.read(`authors?select=id,books()&books.pages=gt.400&order=id&${group}`)
  assert.deepEqual(await query('or=(books.not.is.null,id.eq.5)'), [{ id: 3 }, { id: 5 }])
  assert.deepEqual(await query('and=(books.is.null,id.lt.3)'), [{ id: 1 }, { id: 2 }])
})

test('1 §9 the native and the alias path accept the same groups', async () => {
  for (const shape of ['native', 'alias'] as const)
    assert.deepEqual(
      await rows.read('authors?select=id&or=(name.eq."a,b",and(id.gt.4,id.lt.6))&order=id', { shape }),
      [{ id: 4 }, { id: 5 }],
    )
})

test('1 §4.1 groups also filter writes', async () => {
  const prefer = 'return=representation'
  const updated = await rows.patch(
    'books?select=id&author_id=eq.1&or=(pages.lt.100,title.eq.Nothing)',
    { title: 'Changed' },
    { prefer: `${prefer},tx=rollback` },
  )
  assert.equal(updated.status, 200, updated.text)
  assert.deepEqual(updated.body, [{ id: 1 }])
  const removed = await rows.delete('books?select=id&id=gt.0&not.or=(id.eq.1,id.lt.5)', {
    prefer: `${prefer},tx=rollback`,
  })
  assert.equal(removed.status, 200, removed.text)
  assert.deepEqual(removed.body, [{ id: 5 }])
})

test('case 44: deeply nested groups are rejected, and the server keeps working', async () => {
  const deep = (depth: number) => `or=(${'and('.repeat(depth)}id.eq.1${')'.repeat(depth)})`
  for (const depth of [10_000, 200]) {
    const reply = await rows.get(`authors?${deep(depth)}&select=id`)
    if (reply.status !== 200)
      assert.ok(reply.status >= 400 && reply.status < 500, `${depth}: ${reply.status}`)
  }
  assert.deepEqual(await idsOf(deep(5)), [1])
  assertStatus(await rows.get('authors?select=id&id=eq.1'), 200)
})
