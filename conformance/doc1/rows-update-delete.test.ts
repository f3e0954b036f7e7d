// 1 §4.1, §4.3, REST contract §3 and §6 rows 2 and 12, case 14: updates, deletes and their required filter.
import assert from 'node:assert/strict'
import { after, before, beforeEach, test } from 'node:test'
import {
  type Ask,
  assertErrorBody,
  assertRefused,
  assertStatus,
  type RowsApi,
  rangeOf,
  rowsProject,
} from '../rows.ts'
import { type Target, target } from '../target.ts'

let it: Target
let rows: RowsApi
before(async () => {
  it = await target()
  rows = await rowsProject(
    it,
    `
    create table public.owners (id int primary key, name text);
    create table public.items (
      id int primary key, name text not null, status text default 'draft', n int check (n < 100), code text unique, meta jsonb,
      owner_id int references public.owners, fixed int generated always as (1) stored
    );
    create table public.parts (id int primary key, item_id int references public.items);
    insert into public.owners values (1, 'Ada');
    create view public.drafts as select id, name, status from public.items where status = 'draft';
    `,
  )
})
beforeEach(() =>
  rows.sql(`truncate public.items, public.parts;
    insert into public.items (id, name, status, n, code, meta, owner_id) values
      (1, 'one', 'draft', 1, 'A', '{"k":1}', 1), (2, 'two', 'review', 2, 'B', null, 1), (3, 'three', 'draft', 3, 'C', null, null);
    insert into public.parts values (1, 3)`),
)
after(() => it.stop())

const representation = { prefer: 'return=representation' }
const names = async () => (await rows.read('items?order=id')).map(({ name }: any) => name)
const untouched = ['one', 'two', 'three']

test('1 §4.1 an update returns 204 without a body and changes the rows', async () => {
  for (const options of [{}, { prefer: 'return=minimal' }, { shape: 'alias' }] satisfies Ask[]) {
    const reply = await rows.patch('items?id=eq.1', { name: JSON.stringify(options) }, options)
    assert.equal(reply.status, 204, reply.text)
    assert.equal(reply.text, '')
    assert.equal((await names())[0], JSON.stringify(options))
  }
})

test('1 §4.3 return=representation returns the updated rows', async () => {
  const reply = await rows.patch(
    'items?status=eq.draft&select=id,name,n',
    { name: 'same', n: null },
    representation,
  )
  assert.equal(reply.status, 200, reply.text)
  assert.deepEqual(
    reply.body.toSorted((a: any, b: any) => a.id - b.id),
    [
      { id: 1, name: 'same', n: null },
      { id: 3, name: 'same', n: null },
    ],
  )
  assert.deepEqual(await names(), ['same', 'two', 'same'])
})

test('1 §4.3 the count of a write is the number of written rows, as */N', async () => {
  const expected: [string, string][] = [
    ['count=exact', '*/2'],
    ['count=planned', '*/2'],
    ['count=estimated', '*/2'],
    ['return=representation,count=exact', '*/2'],
  ]
  for (const [prefer, range] of expected)
    assert.equal(rangeOf(await rows.patch('items?status=eq.draft', { n: 5 }, { prefer })), range, prefer)
  assert.equal(rangeOf(await rows.patch('items?id=eq.99', { n: 5 }, { prefer: 'count=exact' })), '*/0')
  assert.equal(rangeOf(await rows.delete('items?id=in.(1,2)', { prefer: 'count=exact' })), '*/2')
  assert.equal(
    rangeOf(await rows.delete('items?id=eq.99', { prefer: 'return=representation,count=exact' })),
    '*/0',
  )
})

test('REST contract §3: an update that matches no rows succeeds', async () => {
  assert.equal((await rows.patch('items?id=eq.99', { name: 'x' })).status, 204)
  const reply = await rows.patch('items?id=eq.99', { name: 'x' }, representation)
  assert.equal(reply.status, 200)
  assert.deepEqual(reply.body, [])
})

test('REST contract §3: an empty object changes nothing', async () => {
  assert.equal((await rows.patch('items?id=eq.1', {})).status, 204)
  const reply = await rows.patch('items?id=eq.1', {}, representation)
  assert.equal(reply.status, 200, reply.text)
  assert.deepEqual(reply.body, [])
  assert.deepEqual(await names(), untouched)
})

test('1 §4.1 an update can set values of every type', async () => {
  const meta = { deep: [1, { a: null }] }
  const reply = await rows.patch(
    'items?id=eq.1&select=meta,owner_id,status',
    { meta, owner_id: null, status: "it's" },
    representation,
  )
  assert.deepEqual(reply.body, [{ meta, owner_id: null, status: "it's" }])
})

test('1 §4.1 a delete returns 204 without a body, or the deleted rows', async () => {
  const quiet = await rows.delete('items?id=eq.1')
  assert.equal(quiet.status, 204, quiet.text)
  assert.equal(quiet.text, '')
  const shown = await rows.delete('items?id=eq.2&select=id,name', { ...representation, shape: 'alias' })
  assert.equal(shown.status, 200, shown.text)
  assert.deepEqual(shown.body, [{ id: 2, name: 'two' }])
  const none = await rows.delete('items?id=eq.2', representation)
  assert.equal(none.status, 200)
  assert.deepEqual(none.body, [])
  assert.deepEqual(await names(), ['three'])
})

test('REST contract §1: a delete without a body may have the content type JSON', async () => {
  const reply = await rows.delete('items?id=eq.1', { headers: { 'content-type': 'application/json' } })
  assert.equal(reply.status, 204, reply.text)
})

test('1 §4.1.1 a group in addition to a flat filter selects fewer rows', async () => {
  const query = 'id=gt.0&or=(status.eq.review,n.eq.3)'
  assert.equal((await rows.patch(`items?${query}`, { name: 'hit' })).status, 204)
  assert.deepEqual(await names(), ['one', 'hit', 'hit'])
  assert.equal((await rows.delete('items?status=eq.draft&and=(n.gt.0,n.lt.2)')).status, 204)
  assert.deepEqual(await names(), ['hit', 'hit'])
})

test('1 §4.1.1 every operator counts as a flat filter, and several are joined with AND', async () => {
  for (const filter of [
    'id=in.(1)',
    'name=like.on*',
    'meta->>k=eq.1',
    'id=not.gt.1',
    'n=is.null',
    'id=eq.1&id=eq.1',
    'id=gt.0&id=lt.2',
    'code=match.^A',
  ])
    assert.equal((await rows.patch(`items?${filter}`, { status: filter })).status, 204, filter)
  assert.deepEqual(await rows.read('items?select=status&order=id&id=gt.1'), [
    { status: 'review' },
    { status: 'draft' },
  ])
})

const unfiltered = [
  '',
  '?select=id',
  '?limit=1',
  '?limit=1&order=id',
  '?offset=1',
  '?order=id',
  '?or=(id.eq.1,id.eq.2)',
  '?and=(id.eq.1,n.eq.1)',
  '?not.or=(id.eq.1,id.eq.2)',
  '?not.and=(id.eq.1,id.eq.2)',
  '?or=(id.eq.1)&or=(id.eq.1)',
  '?select=id,owners(name)&owners.name=eq.Ada',
  '?select=id,owners(name)&owners.or=(name.eq.Ada,id.eq.1)',
  '?select=id,owners()&owners=is.null',
  '?columns=name',
  '?id=',
  '?id',
  '?=eq.1',
]
for (const query of unfiltered)
  test(`case 14: a write without a flat filter is rejected and changes nothing: items${query}`, async () => {
    for (const options of [{}, representation, { as: 'service_role' } as const]) {
      assertStatus(await rows.patch(`items${query}`, { name: 'gone' }, options), 400)
      assertStatus(await rows.delete(`items${query}`, options), 400)
    }
    assert.deepEqual(await names(), untouched)
  })

test('REST contract §6 row 2: the filter is checked before the body', async () => {
  for (const body of ['{broken', '', '[]', '{"nothing":1}']) {
    const reply = await rows.patch('items?or=(id.eq.1)', body)
    assertStatus(reply, 400)
    assert.ok(!['PGRST102', 'PGRST204'].includes(reply.body.code), `${body}: ${reply.text}`)
  }
  assertRefused(await rows.patch('items?id=eq.1', '{broken'), 400, 'PGRST102')
})

test('REST contract §5: unknown keys, columns and tables', async () => {
  assertRefused(await rows.patch('items?id=eq.1', { nome: 'x' }), 400, 'PGRST204', { message: /nome/ })
  assertRefused(await rows.patch('items?nome=eq.1', { name: 'x' }), 400, '42703')
  assertRefused(await rows.delete('items?nome=eq.1'), 400, '42703')
  assertRefused(await rows.patch('itemz?id=eq.1', { name: 'x' }), 404, 'PGRST205')
  assertRefused(await rows.delete('itemz?id=eq.1'), 404, 'PGRST205')
  assertRefused(await rows.patch('items?id=eq.1&select=nome', { name: 'x' }, representation), 400, '42703')
  assert.deepEqual(await names(), untouched)
})

test('1 §7 a write with an invalid filter changes nothing', async () => {
  for (const filter of ['id=foo.1', 'id=is.maybe', 'id=eq.x', 'id=eq.1&n=foo', 'id=eq.1&or=(n.eq'])
    for (const reply of [
      await rows.patch(`items?${filter}`, { name: 'x' }),
      await rows.delete(`items?${filter}`),
    ]) {
      assert.equal(reply.status, 400, `${filter}: ${reply.text}`)
      assertErrorBody(reply)
    }
  assert.deepEqual(await names(), untouched)
})

test('REST contract §6 row 14: a constraint violation rolls the whole statement back', async () => {
  assertRefused(await rows.patch('items?id=gt.0', { name: null }), 400, '23502')
  assertRefused(await rows.patch('items?id=gt.0', { n: 100 }), 400, '23514')
  assertRefused(await rows.patch('items?id=eq.1', { owner_id: 9 }), 409, '23503')
  assertRefused(await rows.patch('items?id=eq.1', { code: 'B' }), 409, '23505')
  assertRefused(await rows.patch('items?id=eq.1', { n: 'many' }), 400, '22P02')
  assertStatus(await rows.patch('items?id=eq.1', { fixed: 2 }), 400)
  assertRefused(await rows.delete('items?id=gt.0'), 409, '23503')
  assert.deepEqual(await names(), untouched)
})

test('1 §4.3.5 the object media type returns one row; for no row or several it returns 406 and changes nothing', async () => {
  const options = { ...representation, headers: { accept: 'application/vnd.pgrst.object+json' } }
  const one = await rows.patch('items?id=eq.1&select=name', { name: 'ONE' }, options)
  assert.equal(one.status, 200, one.text)
  assert.deepEqual(one.body, { name: 'ONE' })
  assertRefused(await rows.patch('items?id=gt.1', { name: 'x' }, options), 406, 'PGRST116', {
    details: /2 rows/,
  })
  assertRefused(await rows.patch('items?id=eq.99', { name: 'x' }, options), 406, 'PGRST116', {
    details: /0 rows/,
  })
  await rows.sql('truncate public.parts')
  assertRefused(await rows.delete('items?id=gt.0', options), 406, 'PGRST116', { details: /3 rows/ })
  assert.deepEqual(await names(), ['ONE', 'two', 'three'])
  const gone = await rows.delete('items?id=eq.3&select=id', options)
  assert.equal(gone.status, 200)
  assert.deepEqual(gone.body, { id: 3 })
})

test('1 §4.1 rows of an updatable view can be updated and deleted', async () => {
  assert.equal((await rows.patch('drafts?id=gt.0', { name: 'view' })).status, 204)
  assert.deepEqual(await names(), ['view', 'two', 'view'])
  assert.equal((await rows.delete('drafts?id=eq.1')).status, 204)
  assert.deepEqual(await names(), ['two', 'view'])
})
