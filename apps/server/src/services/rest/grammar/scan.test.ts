import assert from 'node:assert/strict'
import { test } from 'node:test'
import { listElements } from './filter.ts'
import { parseOrder } from './order.ts'
import { scan, splitQuery } from './scan.ts'

const scanned = (query: string) => scan(splitQuery(query))

test('query string: requests that differ only in values have the same shape, which holds no values', () => {
  const a = scanned('id=eq.1&name=like.x*&or=(n.gt.5,tags.cs.{a})&at=fts(english).cat&limit=10&offset=5')
  const b = scanned('id=eq.22&name=like.*yy&or=(n.gt.66,tags.cs.{b,c})&at=fts(german).dog&limit=10&offset=7')
  assert.equal(a.shape, b.shape)
  assert.deepEqual(b.values, ['22', '%yy', '66', '{b,c}', 'german', 'dog', '7'])
})

const different: [string, string][] = [
  ['id=eq.1', 'id=neq.1'],
  ['id=eq.1', 'id=not.eq.1'],
  ['id=is.null', 'id=is.true'],
  ['a=eq.1&b=eq.2', 'b=eq.1&a=eq.2'],
  ['or=(a.eq.1,b.eq.2)', 'and=(a.eq.1,b.eq.2)'],
  ['or=(a.eq.1,b.eq.2)', 'or=(a.eq.1,not.b.eq.2)'],
  ['or=(a.eq.1,and(b.eq.2,c.eq.3))', 'or=(a.eq.1,b.eq.2,c.eq.3)'],
  ['n=eq(any).{1}', 'n=eq(all).{1}'],
  ['limit=1', 'limit=2'],
  ['select=a', 'select=b'],
  ['select=a&order=b', 'order=a&select=b'],
  ['d->a=eq.1', 'd->>a=eq.1'],
]
for (const [one, other] of different)
  test(`query string: ${one} and ${other} have different shapes`, () =>
    assert.notEqual(scanned(one).shape, scanned(other).shape))

test('query string: values keep every character, and a value may look like an operator', () => {
  const { values } = scanned('a=eq.eq.5&b=eq.&c=eq.a%20b%2Bc&d=eq.x+y&e=eq.a*b')
  assert.deepEqual(values, ['eq.5', '', 'a b+c', 'x y', 'a*b'])
})

test('query string: patterns and lists become values that Postgres reads', () => {
  const { values } = scanned('a=like.x*_%25&b=ilike(any).{a*,b}&c=in.(1,%22a,b%22)&d=in.()')
  assert.deepEqual(values, ['x%_%', '{a%,b}', '{"1","a,b"}', '{}'])
})

test('query string: in a group, values end at commas and parentheses unless they are quoted or enclosed', () => {
  const { values } = scanned('or=(a.eq."x,y)",b.in.(1,"2,)"),c.cs.{"k,":[1]},d.eq.plain text,e.l2.[1,2])')
  assert.deepEqual(values, ['x,y)', '{"1","2,)"}', '{"k,":[1]}', 'plain text', '[1,2]'])
})

test('query string: `not` may stand before a column, before an operator, or twice', () => {
  const negations = (query: string) =>
    scanned(query).parameters.map(
      parameter =>
        parameter.kind === 'condition' && 'isNegated' in parameter.condition && parameter.condition.isNegated,
    )
  assert.deepEqual(negations('a=not.eq.1'), [true])
  assert.deepEqual(negations('a=not.not.eq.1'), [false])
  assert.deepEqual(negations('not.or=(a.eq.1)'), [true])
  const [parameter] = scanned('or=(not.a.eq.1,b.not.eq.1)').parameters
  assert.ok(parameter?.kind === 'condition' && parameter.condition.kind === 'group')
  assert.deepEqual(
    parameter.condition.conditions.map(({ isNegated }) => isNegated),
    [true, true],
  )
})

test('query string: only a filter with a value on a column of the request’s own relation is flat', () => {
  const flat = (query: string) =>
    scanned(query).parameters.some(parameter => parameter.kind === 'condition' && parameter.isFlat)
  for (const query of ['id=eq.1', 'a=is.null', 'd->>k=eq.x', '"a.b"=eq.1']) assert.ok(flat(query), query)
  for (const query of ['id=eq.', 'rel.id=eq.1', 'or=(a.eq.1)', 'and=(a.eq.1)', 'limit=1', 'select=a'])
    assert.ok(!flat(query), query)
})

const refused: [string, string][] = [
  ['id=5', 'PGRST100'],
  ['id=', 'PGRST100'],
  ['id=eq', 'PGRST100'],
  ['id=equals.5', 'PGRST100'],
  ['id=is.not_null', 'PGRST100'],
  ['id=in(any).(1)', 'PGRST100'],
  ['id=in.5', 'PGRST100'],
  ['id=in.("open)', 'PGRST100'],
  ['or=(id.in.("a"b))', 'PGRST100'],
  ['id=like(some).{a}', 'PGRST100'],
  ['or=a.eq.1', 'PGRST100'],
  ['or=()', 'PGRST100'],
  ['or=(a.eq.1', 'PGRST100'],
  ['or=(a.eq.1)x', 'PGRST100'],
  [`or=${'and('.repeat(60)}a.eq.1${')'.repeat(60)}`, 'PGRST100'],
  ['limit=-1', 'PGRST103'],
  ['limit=1.5', 'PGRST103'],
  ['offset=x', 'PGRST103'],
  ['limit=99999999999999999', 'PGRST103'],
  ['limit=1&limit=2', 'PGRST100'],
  ['select=a&select=b', 'PGRST100'],
  ['a=eq.%', 'PGRST100'],
  ['a=eq.%C3%28', 'PGRST100'],
  ['a=eq.%00', 'PGRST100'],
  ['a%00b=eq.1', 'PGRST100'],
]
for (const [query, code] of refused)
  test(`query string: ${query.slice(0, 40)} is refused`, () =>
    assert.throws(() => scanned(query), { code, status: 400 }))

test('query string: lists are split at commas outside quotes, and a quote inside quotes needs no escape', () => {
  const cases: [string, string[] | undefined][] = [
    ['()', []],
    ['(1)', ['1']],
    ['(a,b,"c,d")', ['a', 'b', 'c,d']],
    ['("q\\"x")', ['q"x']],
    ['("a"b,c")', ['a"b,c']],
    ['(,)', ['', '']],
    ['("")', ['']],
    ['1,2', undefined],
    ['("open)', undefined],
  ]
  for (const [text, expected] of cases) assert.deepEqual(listElements(text), expected, text)
})

test('query string: an order term has one direction, then one position of nulls', () => {
  assert.deepEqual(
    parseOrder('a.desc.nullslast,b->>k,rel(c)', 0).map(({ field, ...rest }) => [field.column, rest]),
    [
      ['a', { isDescending: true, nulls: 'last' }],
      ['b', { isDescending: false }],
      ['c', { relation: 'rel', isDescending: false }],
    ],
  )
  for (const text of ['', 'a.', 'a.up', 'a.asc.desc', 'a.nullsfirst.desc', 'a,', 'rel(a'])
    assert.throws(() => parseOrder(text, 0), { code: 'PGRST100' }, text)
})

test('query string: orders that differ only in vectors have the same shape', () => {
  const { shape, values } = scanned('order=v.l2.[1,2].desc,w.cosine.[3]')
  assert.deepEqual(values, ['[1,2]', '[3]'])
  assert.equal(shape, scanned('order=v.l2.[9,9].desc,w.cosine.[9]').shape)
})

test('query string: a request has at most a thousand filters, in groups or not', () => {
  const flat = (count: number) => Array(count).fill('a=eq.1').join('&')
  assert.equal(scanned(flat(1000)).values.length, 1000)
  assert.throws(() => scanned(flat(1001)), { code: 'PGRST100', message: /more than 1000 filters/ })
  const group = (count: number) => `or=(${Array(count).fill('a.is.null').join()})`
  assert.equal(scanned(group(999)).parameters.length, 1)
  assert.throws(() => scanned(group(1000)), { code: 'PGRST100' })
  const nested = Array(200).fill('and(and(and(and(a.eq.1))))').join()
  assert.throws(() => scanned(`or=(${nested})`), { code: 'PGRST100', message: /more than 1000 filters/ })
})

test('query string: a path to a relation has at most twenty names', () => {
  assert.equal(scanned(`${'a.'.repeat(20)}b=eq.1`).parameters[0]!.path.length, 20)
  assert.throws(() => scanned(`${'a.'.repeat(21)}b=eq.1`), { code: 'PGRST100' })
  assert.throws(() => scanned(`${'not.'.repeat(7000)}a=eq.1`), { code: 'PGRST100' })
})

test('query string: vectors in an order become values, and brackets that are not vectors stay in the text', () => {
  const { values, parameters } = scanned('order=a.l2.[1,2].desc,b.cosine.[3],"c[1]".asc,d.ip.[4')
  assert.deepEqual(values, ['[1,2]', '[3]'])
  assert.equal('text' in parameters[0]! && parameters[0].text, 'a.l2.[].desc,b.cosine.[],"c[1]".asc,d.ip.[4')
})
