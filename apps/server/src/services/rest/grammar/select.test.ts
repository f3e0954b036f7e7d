import assert from 'node:assert/strict'
import { test } from 'node:test'
import { parseSelect } from './select.ts'

const field = (column: string, more: object = {}) => ({ kind: 'field', field: { column, path: [] }, ...more })
const embed = (relation: string, items: unknown[], more: object = {}) => ({
  kind: 'embed',
  relation,
  isInner: false,
  isSpread: false,
  query: { select: items, where: [], order: [] },
  ...more,
})

const readings: [string, unknown[]][] = [
  ['*', [{ kind: 'star' }]],
  ['id, name', [field('id'), field('name')]],
  ['full name,a-b,größe,x$1', [field('full name'), field('a-b'), field('größe'), field('x$1')]],
  ['"a,b":"c\\"d"', [field('c"d', { alias: 'a,b' })]],
  ['n::text', [field('n', { cast: 'text' })]],
  ['x:n::double precision', [field('n', { alias: 'x', cast: 'double precision' })]],
  ['count()', [{ kind: 'count' }]],
  ['count', [field('count', { isCountByDefault: true })]],
  ['count.sum()', [field('count', { aggregate: 'sum' })]],
  ['n.sum()', [field('n', { aggregate: 'sum' })]],
  [
    't:n::int.avg()::text',
    [field('n', { alias: 't', cast: 'int', aggregate: 'avg', aggregateCast: 'text' })],
  ],
  ['posts(*)', [embed('posts', [{ kind: 'star' }])]],
  ['p:posts!fk!inner(id)', [embed('posts', [field('id')], { alias: 'p', hint: 'fk', isInner: true })]],
  ['posts!inner!fk(id)', [embed('posts', [field('id')], { hint: 'fk', isInner: true })]],
  ['posts!left()', [embed('posts', [])]],
  ['...author(name)', [embed('author', [field('name')], { isSpread: true })]],
]
for (const [text, expected] of readings)
  test(`select: ${text}`, () => assert.deepEqual(parseSelect(text), expected))

test('select: a JSON path that ends in an index needs an alias', () => {
  const steps = [
    { isText: false, key: 'a' },
    { isText: true, key: 0 },
  ]
  assert.deepEqual(parseSelect('first:data->a->>0'), [
    { kind: 'field', alias: 'first', field: { column: 'data', path: steps } },
  ])
  assert.throws(() => parseSelect('data->a->>0'), { code: 'PGRST100' })
})

const broken = [
  'id,',
  ',id',
  'posts(',
  'posts(id',
  'id)',
  'a:b:c',
  'data->"k"',
  'data->a-b',
  'n::',
  'n.median()',
  '"open',
  'a;b',
  "a'b",
]
for (const text of broken)
  test(`select: ${text} is refused`, () =>
    assert.throws(() => parseSelect(text), { code: 'PGRST100', status: 400 }))

test('select: embedded relations nest at most five levels deep', () => {
  const nested = (levels: number) => `${'a('.repeat(levels)}id${')'.repeat(levels)}`
  assert.equal(parseSelect(nested(5)).length, 1)
  assert.throws(() => parseSelect(nested(6)), { code: 'PGRST204' })
  assert.throws(() => parseSelect(nested(5000)), { code: 'PGRST204' })
})

test('select: the parser stops at 2000 items or 200 embedded relations', () => {
  assert.equal(parseSelect(Array(2000).fill('a').join()).length, 2000)
  // The text after the limit is not read: its syntax error would have another message.
  assert.throws(() => parseSelect(`${Array(2000).fill('a').join()},a,(`), {
    message: /more than 2000 columns/,
  })
  assert.equal(parseSelect(Array(200).fill('a()').join()).length, 200)
  assert.throws(() => parseSelect(Array(201).fill('a()').join()), { message: /more than 200 embedded/ })
})
