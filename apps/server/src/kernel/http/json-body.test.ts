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
