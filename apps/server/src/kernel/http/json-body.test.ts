import assert from 'node:assert/strict'
import { test } from 'node:test'
import { maxBytesAtOnce, parseJsonBody, readJson } from './json-body.ts'

const parse = (text: string) => parseJsonBody(Buffer.from(text))
const nested = (depth: number) => `${'['.repeat(depth)}1${']'.repeat(depth)}`

test('a body is parsed, and an empty one is undefined', () => {
  assert.deepEqual(parse('{"a":[1,"ü",null,"\\ud83d\\ude00"]}'), { a: [1, 'ü', null, '😀'] })
  assert.equal(parse(''), undefined)
})

const invalid: [string, Buffer][] = [
  ['broken JSON', Buffer.from('{')],
  ['invalid UTF-8', Buffer.from([0x22, 0xff, 0x22])],
  ['a lone surrogate', Buffer.from('{"a":["x\\ud800y"]}')],
  ['a lone surrogate in a key', Buffer.from('{"\\udc00":1}')],
  ['a prototype key', Buffer.from('{"__proto__":{"a":1}}')],
  ['a constructor key', Buffer.from('{"constructor":{"prototype":{"a":1}}}')],
  ['very deep nesting', Buffer.from(nested(50_000))],
  ['one level too many', Buffer.from(nested(101))],
]
for (const [what, bytes] of invalid)
  test(`rejected: ${what}`, () => assert.throws(() => parseJsonBody(bytes), { name: 'Refusal', status: 400 }))

test('a hundred levels are accepted', () => assert.ok(parse(nested(100))))

test('brackets in texts do not count as levels', () => {
  const brackets = '[{'.repeat(200)
  for (const text of [brackets, `\\"${brackets}`, `\\\\\\"${brackets}`])
    assert.ok(parse(`{"a":"${text}"}`), text.slice(0, 5))
})

test('keys of any name are accepted on request', () => {
  const value = parseJsonBody(Buffer.from('{"__proto__":{"a":1}}'), { anyKey: true })
  assert.deepEqual(Object.keys(value as object), ['__proto__'])
})

const surrogates: [string, boolean][] = [
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
for (const [text, isValid] of surrogates)
  test(`${text} is ${isValid ? 'accepted' : 'rejected'}`, () => {
    const body = `{"${text}":["${text}"]}`
    if (isValid) assert.ok(parse(body))
    else assert.throws(() => parse(body), { code: 'invalid_request' })
  })

const list = (values: number) => Buffer.from(`[${Array(values).fill('1').join()}]`)

test('a body has at most 50,000 values unless its route allows more', async () => {
  assert.equal(((await readJson(list(49_999))) as unknown[]).length, 49_999)
  await assert.rejects(async () => readJson(list(50_000)), { status: 413, message: /more than 50000 values/ })
  assert.equal(((await readJson(list(99_999), { maxValues: 100_000 })) as unknown[]).length, 99_999)
  assert.throws(() => parseJsonBody(list(50_000)), { status: 413 })
})

test('the values of a small body count, too', () => {
  const objects = (count: number) => Buffer.from(JSON.stringify(Array(count).fill({ a: { b: [1] } })))
  const most = { maxValues: 4001 }
  assert.equal((parseJsonBody(objects(1000), most) as unknown[]).length, 1000)
  assert.throws(() => parseJsonBody(objects(1001), most), { status: 413, message: /more than 4001 values/ })
  assert.equal(parseJsonBody(Buffer.from(`"${'x'.repeat(100)}"`), { maxValues: 1 }), 'x'.repeat(100))
  assert.equal(parseJsonBody(Buffer.from('null     '), { maxValues: 1 }), null)
})

test('a body of up to 64 KiB is read synchronously, a larger one in slices', async () => {
  const text = (bytes: number) => Buffer.from(`"${'x'.repeat(bytes - 2)}"`)
  assert.equal(typeof readJson(text(maxBytesAtOnce)), 'string')
  const large = readJson(text(maxBytesAtOnce + 1))
  assert.ok(large instanceof Promise)
  assert.equal(((await large) as string).length, maxBytesAtOnce - 1)
})

test('input that is rejected in a small body is rejected in a large one', async () => {
  const spaces = Buffer.alloc(maxBytesAtOnce, ' ')
  for (const [what, bytes] of invalid)
    await assert.rejects(
      async () => readJson(Buffer.concat([spaces, bytes])),
      { name: 'Refusal', status: 400 },
      what,
    )
})
