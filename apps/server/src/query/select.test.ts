import assert from 'node:assert/strict'
import { test } from 'node:test'
import { parseSelect } from './select.ts'

const field = (column: string, more: object = {}) => ({ kind: 'field', field: { column, path: [] }, ...more })
const embed = (relation: string, items: unknown[], more: object = {}) => ({
  kind: 'embed',
  relation,
  isInner: false,
  isSpread: false,
  items,
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
  test(`select ${text}`, () => assert.deepEqual(parseSelect(text), expected))

test('a JSON path is named after its last key, and one that ends in an index needs an alias', () => {
  const steps = [
    { isText: false, key: 'a', isIndex: false },
    { isText: true, key: '0', isIndex: true },
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
  test(`select ${text} is refused`, () =>
    assert.throws(() => parseSelect(text), { code: 'PGRST100', status: 400 }))

test('relations nest five levels deep and no deeper', () => {
  const nested = (levels: number) => `${'a('.repeat(levels)}id${')'.repeat(levels)}`
  assert.equal(parseSelect(nested(5)).length, 1)
  assert.throws(() => parseSelect(nested(6)), { code: 'PGRST204' })
  assert.throws(() => parseSelect(nested(5000)), { code: 'PGRST204' })
})

test('items are counted while they are read, embedded relations apart', () => {
  assert.equal(parseSelect(Array(2000).fill('a').join()).length, 2000)
  // What comes after the bound is not read: it would be refused for another reason.
  assert.throws(() => parseSelect(`${Array(2000).fill('a').join()},a,(`), {
    message: /more than 2000 columns/,
  })
  assert.equal(parseSelect(Array(200).fill('a()').join()).length, 200)
  assert.throws(() => parseSelect(Array(201).fill('a()').join()), { message: /more than 200 embedded/ })
})
