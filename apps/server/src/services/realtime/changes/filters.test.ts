import assert from 'node:assert/strict'
import { test } from 'node:test'
import { conditionSql, expectedValues, holds, InvalidFilter, parseFilter } from './filters.ts'
import type { TableFacts } from './store.ts'

const column = (name: string, type: string, isPlain = true) => ({
  name,
  type,
  isPlain,
  isVirtual: false,
  anon: true,
  authenticated: true,
})
const table: TableFacts = {
  schema: 'public',
  name: 't',
  isSecured: true,
  isPublic: false,
  isCaptured: true,
  key: ['id'],
  columns: [
    column('id', 'bigint'),
    column('title', 'text'),
    column('price', 'numeric', false),
    column('user_id', 'uuid'),
    column('mood', 'public.mood'),
    column('done', 'boolean'),
  ],
  anon: true,
  authenticated: true,
}
const sqlOf = (filter: string) => parseFilter(filter).map(conditionSql)
const meets = (filter: string, values: Record<string, string>) =>
  parseFilter(filter).every(each => holds(each, expectedValues(each, table)!, values[each.column]))

test('filters: each operator is translated to SQL, with the value as a literal', () => {
  assert.deepEqual(sqlOf("title=eq.it's"), [`("title" = 'it''s')`])
  assert.deepEqual(sqlOf('price=gte.3'), [`("price" >= '3')`])
  assert.deepEqual(sqlOf('title=not.ilike.%a%'), [`not ("title" ilike '%a%')`])
  assert.deepEqual(sqlOf('title=is.not_null'), ['("title" is not null)'])
  assert.deepEqual(sqlOf('id=in.(1,2)'), [`("id" in ('1', '2'))`])
  assert.deepEqual(sqlOf('id=in.()'), ['(false)'])
  assert.deepEqual(sqlOf('a"b=eq.1'), [`("a""b" = '1')`])
})

test('filters: commas separate conditions unless quoted or not followed by a condition', () => {
  assert.equal(parseFilter('id=gt.1,title=eq.b').length, 2)
  assert.deepEqual(parseFilter('title=eq."a,id=eq.1"')[0]!.values, ['a,id=eq.1'])
  assert.deepEqual(parseFilter('title=eq.hello, world')[0]!.values, ['hello, world'])
  assert.deepEqual(parseFilter('title=in.("a,b","say \\"x\\"",c)')[0]!.values, ['a,b', 'say "x"', 'c'])
})

test('filters: an invalid filter is rejected with a message', () => {
  for (const filter of [
    'title',
    'title=eq',
    'title=like',
    '=eq.1',
    'title=nope.1',
    'id=in.1,2',
    'id=is.5',
    'a=eq.\0',
  ])
    assert.throws(() => parseFilter(filter), InvalidFilter, filter)
  for (const filter of [' '.repeat(9999), `${' '.repeat(9000)}=`, '('.repeat(9999), 'x'.repeat(4_000_000)])
    assert.throws(() => parseFilter(filter), InvalidFilter)
  assert.throws(() => parseFilter(`id=in.(${Array.from({ length: 101 }).fill(1).join(',')})`), InvalidFilter)
})

test('filters: equality on simple types is decided by JSON text, in any notation of the value', () => {
  assert.ok(meets('id=eq.007', { id: '7' }))
  assert.ok(meets('id=eq.+9007199254740993', { id: '9007199254740993' }))
  assert.ok(!meets('id=eq.9007199254740992', { id: '9007199254740993' }))
  assert.ok(meets('title=eq.a"b', { title: '"a\\"b"' }))
  assert.ok(meets('mood=in.(sad,"very happy")', { mood: '"very happy"' }))
  assert.ok(meets('done=neq.true', { done: 'false' }))
  const id = 'A0EEBC99-9C0B-4EF8-BB6D-6BB9BD380A11'
  assert.ok(meets(`user_id=eq.${id}`, { user_id: JSON.stringify(id.toLowerCase()) }))
})

test('filters: a null value neither equals nor differs from anything', () => {
  for (const filter of ['title=eq.null', 'title=neq.x', 'title=not.eq.x', 'title=in.(null)'])
    assert.ok(!meets(filter, { title: 'null' }), filter)
})

test('filters: Postgres evaluates all other comparisons', () => {
  for (const filter of ['price=eq.1', 'id=gt.1', 'id=eq.0x10', 'user_id=eq.x', 'done=eq.yes'])
    assert.equal(expectedValues(parseFilter(filter)[0]!, table), undefined, filter)
})
