import assert from 'node:assert/strict'
import { test } from 'node:test'
import { atOnce } from '#src/kernel/slices.ts'
import { type JsonLimits, maxDepth, maxKeys, type Span } from './json-tree.ts'
import { jsonInSlices, maxNumberLength, sliceBytes } from './large-json.ts'

const usual: JsonLimits = { maxValues: 500_000, anyKey: false }
const read = (text: string | Buffer, limits: Partial<JsonLimits> = {}) =>
  atOnce(jsonInSlices(Buffer.from(text as string), { ...usual, ...limits }))

function slicesOf(text: string, limits: Partial<JsonLimits> = {}): number {
  const work = jsonInSlices(Buffer.from(text), { ...usual, ...limits })
  for (let slices = 1; ; slices++) if (work.next().done) return slices
}

const filler = (bytes: number) => 'x'.repeat(bytes)

test('reads what JSON.parse reads, wherever a slice ends', () => {
  const value = {
    texts: ['', 'a"b', '\\', 'é漢😀', '\u0000\u001f', 'line\nfeed', '/', '\u2028'],
    numbers: [0, -0, 1, -1.5, 1e21, 1.5e-7, 123456789012345],
    others: [true, false, null, [], {}, [[]], [{}], { a: {} }],
    '': 1,
    7: 'numeric key',
    'é"\\': { nested: [1, { deep: [null] }] },
  }
  const written = [
    JSON.stringify(value),
    JSON.stringify(value, null, 3),
    ' \t\r\n[1 , 2 ]\n',
    '"\\u00e9\\ud83d\\ude00\\/\\b\\f\\t"',
    '{"a":1,"b":2,"a":{"c":3}}',
    '1e5',
    'null',
  ]
  for (const text of written) {
    assert.deepEqual(read(text), JSON.parse(text), text)
    // The padding moves the end of the first slice through the text.
    for (let shift = 0; shift < Math.min(text.length, 250); shift++) {
      const padded = `["${filler(sliceBytes - 5 - shift)}",${text}]`
      assert.deepEqual(read(padded), JSON.parse(padded), `${shift}: ${text}`)
    }
  }
})

const invalid = [
  '{',
  '[',
  '"',
  '"a',
  '"\\',
  '"\\u00',
  '[1,]',
  '[,1]',
  '{"a":1,}',
  '{,}',
  '{"a"}',
  '{"a":}',
  '{a:1}',
  '{1:1}',
  '[1}',
  '{"a":1]',
  '[1 2]',
  '[1:2]',
  '1 2',
  '[]]',
  ']',
  ',',
  '01',
  '-',
  '1.',
  '.5',
  '+1',
  '1e',
  '1e+',
  'tru',
  'nul',
  'truex',
  'NaN',
  '"\n"',
  '"\\x"',
  '"\\u00g0"',
  '\u00a01',
  "'a'",
  '[1]//',
  ' ',
]
for (const text of invalid)
  test(`rejects ${JSON.stringify(text)}`, () => {
    assert.throws(() => JSON.parse(text))
    assert.throws(() => read(text), { code: 'invalid_json', status: 400 })
  })

test('agrees with JSON.parse on texts with a random fault', () => {
  const seed = '{"a":[1,-2.5e3,true,null,"x\\n\\u0041é"],"b":{"c":[],"d":{}}}'
  const signs = ['"', '\\', ',', ':', '[', ']', '{', '}', '1', 'e', '-', ' ', 'u', '\u0001', 't']
  let state = 12345
  const random = (below: number) => {
    state = (state * 1103515245 + 12345) % 2147483648
    return state % below
  }
  const outcome = (parse: (text: string) => unknown, text: string) => {
    try {
      return { value: parse(text) }
    } catch {
      return 'refused'
    }
  }
  for (let round = 0; round < 5000; round++) {
    const at = random(seed.length)
    const text = seed.slice(0, at) + signs[random(signs.length)] + seed.slice(at + random(3))
    assert.deepEqual(
      outcome(each => read(each, { anyKey: true }), text),
      outcome(JSON.parse, text),
      text,
    )
  }
})

test('lone surrogates are rejected, and a pair may span two slices', () => {
  for (const text of ['\\ud83d', '\\ude00', '\\ud83d\\ud83d', '\\ud83dx', '\\ud83d\\n\\ude00'])
    assert.throws(() => read(`["${text}"]`), { code: 'invalid_request' }, text)
  for (let shift = 0; shift < 14; shift++) {
    const pad = filler(sliceBytes - 3 - shift)
    assert.deepEqual(read(`["${pad}\\ud83d\\ude00"]`), [`${pad}😀`])
    assert.throws(() => read(`["${pad}\\ud83d"]`), { code: 'invalid_request' })
  }
})

test('invalid UTF-8 is rejected', () => {
  assert.throws(() => read(Buffer.from([0x22, 0xff, 0x22])), { code: 'invalid_json' })
})

test('prototype keys are rejected, and become own properties with anyKey', () => {
  for (const text of [
    '{"__proto__":1}',
    '{"\\u005f_proto__":{}}',
    '[{"a":{"__proto__":null}}]',
    '{"constructor":{"prototype":1}}',
  ]) {
    assert.throws(() => read(text), { code: 'invalid_json' }, text)
    assert.ok(read(text, { anyKey: true }))
  }
  assert.deepEqual(Object.keys(read('{"__proto__":{"a":1}}', { anyKey: true }) as object), ['__proto__'])
  assert.equal(({} as Record<string, unknown>)['a'], undefined)
  assert.deepEqual(read('{"constructor":1}'), { constructor: 1 })
})

test('a body with too many values is rejected', () => {
  const list = (count: number) => `[${Array(count).fill('1').join()}]`
  assert.equal((read(list(99), { maxValues: 100 }) as unknown[]).length, 99)
  for (const text of [list(100), `[${Array(100).fill('[]').join()}]`, `{"a":${list(99)}}`])
    assert.throws(() => read(text, { maxValues: 100 }), { status: 413, message: /more than 100 values/ })
  assert.ok(read(`["${','.repeat(1000)}"]`, { maxValues: 2 }), 'commas in a text do not count')
})

test('depth, keys of one object and the length of a number are limited', () => {
  const nested = (depth: number) => `${'['.repeat(depth)}${']'.repeat(depth)}`
  assert.ok(read(nested(maxDepth)))
  assert.throws(() => read(nested(maxDepth + 1)), { code: 'invalid_json' })
  assert.throws(() => read('['.repeat(500_000)), { code: 'invalid_json' })
  const object = (keys: number) => `{${Array.from({ length: keys }, (_, key) => `"k${key}":1`).join()}}`
  assert.ok(read(object(maxKeys)))
  assert.throws(() => read(object(maxKeys + 1)), { status: 413, message: /more than 50000 keys/ })
  assert.ok(read('1'.repeat(maxNumberLength)))
  assert.throws(() => read('1'.repeat(maxNumberLength + 1)), { status: 400 })
})

test('a slice reads a fixed number of bytes, whatever they contain', () => {
  const large = 10 * sliceBytes
  for (const text of [
    `"${filler(large)}"`,
    `"${'\\n'.repeat(large / 2)}"`,
    `"${'漢'.repeat(large / 3)}"`,
    `[${'1,'.repeat(large / 2)}1]`,
    `[${'[],'.repeat(large / 3)}1]`,
    `${' '.repeat(large)}1`,
    `{"${filler(large)}":1}`,
  ]) {
    const slices = slicesOf(text)
    assert.ok(slices >= 11 && slices <= 13, `${slices} slices for ${text.slice(0, 20)}`)
  }
})

test('containers at emptyAtDepth are validated but stay empty', () => {
  const text = '{"message":{"a":[1,{"b":2}]},"list":[1,[2],{"c":3},"x"],"n":1}'
  assert.deepEqual(read(text, { emptyAtDepth: 3 }), {
    message: { a: [] },
    list: [1, [], {}, 'x'],
    n: 1,
  })
  assert.deepEqual(read(text, { emptyAtDepth: 2 }), { message: {}, list: [], n: 1 })
  assert.throws(() => read('{"a":[1,}', { emptyAtDepth: 2 }), { code: 'invalid_json' })
  const keys = Array.from({ length: maxKeys + 1 }, (_, key) => `"k${key}":1`).join()
  assert.deepEqual(read(`[{${keys}}]`, { emptyAtDepth: 2 }), [{}])
})

test('exponents are reported, and members with a given name are located', () => {
  const exponents: string[] = []
  read('[1e5,2E-300,3,{"a":4e+07,"b":"5e6"}]', { onExponent: each => exponents.push(each) })
  assert.deepEqual(exponents, ['5', '300', '07'])
  const text = '{"payload": 1, "é":[{"payload": {"payload":[1, 2]} },{"pay\\u006coad":"x" }],"payload" :null}'
  const bytes = Buffer.from(text)
  const found = new Map<unknown, Span>()
  const value = read(text, { locate: { name: 'payload', found } }) as Record<string, unknown[]>
  const at = (object: unknown) => {
    const { start, end } = found.get(object)!
    return bytes.toString('utf8', start, end)
  }
  assert.equal(at(value), 'null')
  assert.equal(at(value['é']![0]), '{"payload":[1, 2]}')
  assert.equal(at(value['é']![1]), '"x"')
})
