import assert from 'node:assert/strict'
import { test } from 'node:test'
import { parseJsonBody } from './json-body.ts'

const parse = (text: string) => parseJsonBody(Buffer.from(text))
const nested = (depth: number) => `${'['.repeat(depth)}1${']'.repeat(depth)}`

test('a body becomes its value, and an empty one nothing', () => {
  assert.deepEqual(parse('{"a":[1,"ü",null,"\\ud83d\\ude00"]}'), { a: [1, 'ü', null, '😀'] })
  assert.equal(parse(''), undefined)
})

const refused: [string, Buffer][] = [
  ['broken JSON', Buffer.from('{')],
  ['invalid UTF-8', Buffer.from([0x22, 0xff, 0x22])],
  ['half a surrogate pair', Buffer.from('{"a":["x\\ud800y"]}')],
  ['half a surrogate pair in a key', Buffer.from('{"\\udc00":1}')],
  ['a prototype key', Buffer.from('{"__proto__":{"a":1}}')],
  ['a constructor key', Buffer.from('{"constructor":{"prototype":{"a":1}}}')],
  ['nesting without end', Buffer.from(nested(50_000))],
  ['one level too many', Buffer.from(nested(101))],
]
for (const [what, bytes] of refused)
  test(`refused: ${what}`, () => assert.throws(() => parseJsonBody(bytes), { name: 'Refusal', status: 400 }))

test('a hundred levels are fine', () => assert.ok(parse(nested(100))))

test('brackets in texts are no levels', () => {
  const brackets = '[{'.repeat(200)
  for (const text of [brackets, `\\"${brackets}`, `\\\\\\"${brackets}`])
    assert.ok(parse(`{"a":"${text}"}`), text.slice(0, 5))
})

test('keys of any name are taken where somebody asks for it', () => {
  const value = parseJsonBody(Buffer.from('{"__proto__":{"a":1}}'), { anyKey: true })
  assert.deepEqual(Object.keys(value as object), ['__proto__'])
})

const halves: [string, boolean][] = [
  ['\\ud83d\\ude00', true],
  ['\\uD83D\\uDE00\\ud83d\\ude00', true],
  ['\\\\ud83d', true],
  ['\\\\\\\\ude00', true],
  ['\\u0041\\ud7ff\\ue000', true],
  ['\\ud83d', false],
  ['\\ude00', false],
  ['\\ude00\\ud83d', false],
  ['\\ud83d\\ud83d\\ude00', false],
  ['\\ud83d\\ude00\\ude00', false],
  ['\\ud83d \\ude00', false],
  ['\\ud83d\\\\ude00', false],
  ['\\\\\\ud83d', false],
]
for (const [text, isWhole] of halves)
  test(`${text} is ${isWhole ? 'taken' : 'refused'}`, () => {
    const body = `{"${text}":["${text}"]}`
    if (isWhole) assert.ok(parse(body))
    else assert.throws(() => parse(body), { code: 'invalid_request' })
  })

test('more values than can be read while others wait are refused', () => {
  const values = (count: number) => `[${Array(count).fill('1').join()}]`
  assert.equal((parse(values(499_000)) as unknown[]).length, 499_000)
  assert.throws(() => parse(values(500_001)), { status: 413 })
  assert.throws(() => parse(`[${Array(260_000).fill('[]').join()}]`), { status: 413 })
  assert.ok(parse(`["${','.repeat(600_000)}"]`), 'commas in a text are none')
})
