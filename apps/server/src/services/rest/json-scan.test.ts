import assert from 'node:assert/strict'
import { test } from 'node:test'
import { Refusal } from '#src/kernel/errors.ts'
import { parseJsonBody } from '#src/kernel/http/json-body.ts'
import { atOnce, type Sliced } from '#src/kernel/slices.ts'
import { scanJson, sliceBytes } from './json-scan.ts'

const scan = (text: string | Buffer, options = {}) => atOnce(scanJson(Buffer.from(text), options))

/** Runs the work, and returns its value or error with the number of slices. */
function counted<T>(work: Sliced<T>): { slices: number; value?: T; error?: unknown } {
  let slices = 0
  try {
    for (;;) {
      slices++
      const { done, value } = work.next()
      if (done) return { slices, value }
    }
  } catch (error) {
    return { slices, error }
  }
}

interface Facts {
  kind: string
  count: number
  keys: string[]
  isUniform: boolean
  lacking: string[]
}
type Row = Record<string, unknown>
const isRow = (value: unknown): value is Row =>
  typeof value === 'object' && value !== null && !Array.isArray(value)
const names = ['a', 'b', 'ü', 'a"b', 'constructor', 'zz', '1', '0']

/** The same result from parsed values. */
function factsByParsing(text: string): Facts | string {
  let value: unknown
  try {
    value = parseJsonBody(Buffer.from(text))
  } catch (error) {
    return error instanceof Refusal ? error.message : String(error)
  }
  const rows = Array.isArray(value) ? value : isRow(value) ? [value] : []
  if (!rows.every(isRow)) return 'Every element of the array must be an object'
  const keys = Object.keys(rows[0] ?? {})
  return {
    kind: Array.isArray(value) ? 'array' : isRow(value) ? 'object' : 'other',
    count: rows.length,
    keys: keys.toSorted(),
    isUniform: rows.every(
      row => Object.keys(row).length === keys.length && keys.every(key => Object.hasOwn(row, key)),
    ),
    lacking: names.filter(name => rows.some(row => !Object.hasOwn(row, name))),
  }
}

function factsByScanning(text: string): Facts | string {
  try {
    const { kind, rows } = scan(text)
    return {
      kind,
      count: rows.count,
      keys: rows.names.toSorted(),
      isUniform: rows.isUniform,
      lacking: names.filter(name => rows.lacks(name)),
    }
  } catch (error) {
    return error instanceof Refusal ? error.message : String(error)
  }
}

/** Pseudo-random numbers below the limit. Every run has the same ones. */
function seeded(seed: number): (limit: number) => number {
  let state = seed
  return limit => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0
    return Math.floor((state / 2 ** 32) * limit)
  }
}

const spaces = ['', '', '', ' ', '\n', '\t\r ']
const scalars = [
  ...['1', '-0', '0.5', '1e5', '-1.25E-10', '123456789012345678901', 'true', 'false', 'null'],
  ...['""', '"x"', '"ü€😀"', '"\\n\\"\\\\\\/"', '"\\u00e9"', '"\\ud83d\\ude00"', '"[{,}]:"', '"__proto__"'],
]

function randomJson(random: (limit: number) => number, depth = 0): string {
  const pick = <T>(list: readonly T[]) => list[random(list.length)]!
  const space = () => pick(spaces)
  const object = () => {
    const members = Array.from({ length: random(4) }, () => {
      const name = JSON.stringify(pick(names))
      const key = random(8) === 0 ? name.replace('a', '\\u0061').replace('b', '\\u0062') : name
      return `${space()}${key}${space()}:${space()}${randomJson(random, depth + 2)}${space()}`
    })
    return `{${members.join()}${space()}}`
  }
  if (depth === 0 && random(3) > 0) {
    const rows = Array.from({ length: random(5) }, () => `${space()}${object()}${space()}`)
    return `${space()}[${rows.join()}${space()}]${space()}`
  }
  if (depth > 5 || random(3) === 0) return pick(scalars)
  if (random(2) === 0) return object()
  return `[${Array.from({ length: random(4) }, () => randomJson(random, depth + 1)).join()}]`
}

/** Makes a small change, which usually makes the text invalid. */
function damaged(text: string, random: (limit: number) => number): string {
  const at = random(text.length + 1)
  const piece = '{}[]",:0e.-\\ut\u0001 d8'.charAt(random(20))
  const cut = random(3)
  return text.slice(0, at) + (cut === 2 ? '' : piece) + text.slice(at + (cut === 0 ? 0 : 1))
}

test('json: the scanner accepts, refuses and returns the same as a parser', () => {
  const random = seeded(13)
  let refused = 0
  for (let run = 0; run < 10_000; run++) {
    const whole = randomJson(random)
    const text = (run % 2 === 1 && damaged(whole, random)) || whole
    const expected = factsByParsing(text)
    const found = factsByScanning(text)
    // A text with two errors may be refused for either.
    if (typeof expected === 'string') {
      refused++
      assert.equal(typeof found, 'string', `${JSON.stringify(text)}: ${expected}`)
    } else assert.deepEqual(found, expected, JSON.stringify(text))
  }
  assert.ok(refused > 1000, `only ${refused} texts were refused`)
})

const nested = (depth: number) => `{"a":${'['.repeat(depth)}1${']'.repeat(depth)}}`
const refusals: [text: string | Buffer, message: RegExp][] = [
  ['{', /not valid JSON/],
  ['{"a":1}}', /not valid JSON/],
  ['{"a":01}', /not valid JSON/],
  ['{"a":"\n"}', /not valid JSON/],
  ['{"a":"\\x"}', /not valid JSON/],
  ['{"a":tru}', /not valid JSON/],
  ['{"a":1,}', /not valid JSON/],
  ['[{"a":1},]', /not valid JSON/],
  [' ', /not valid JSON/],
  ['{"__proto__":1}', /not valid JSON/],
  ['{"a":[{"\\u005f_proto__":1}]}', /not valid JSON/],
  ['{"constructor":{"a":1,"prototype":1}}', /not valid JSON/],
  ['{"\\u0063onstructor": {"prototyp\\u0065":1}}', /not valid JSON/],
  ['{"a":"\\ud800"}', /half of a surrogate pair/],
  ['{"a":"\\ud800x"}', /half of a surrogate pair/],
  ['{"\\udc00":1}', /half of a surrogate pair/],
  [Buffer.from([0x22, 0xff, 0x22]), /UTF-8/],
  [nested(100), /nested more than 100 levels/],
  ['[{"a":1},5]', /must be an object/],
  ['["a"]', /must be an object/],
  ['[[]]', /must be an object/],
  [`{"a":${'1'.repeat(70_000)}}`, /more than 65536 digits/],
]
for (const [text, message] of refusals)
  test(`json: ${String(text).slice(0, 40)} is refused`, () =>
    assert.throws(() => scan(text), { code: 'PGRST102', message }))

test('json: keys that reach no prototype, and 100 levels, are accepted', () => {
  for (const text of [
    '{"constructor":1}',
    '{"constructor":{"a":1}}',
    '{"constructor":[{"prototype":1}]}',
    '{"prototype":1}',
    '{"a":"__proto__"}',
    nested(99),
  ])
    assert.equal(scan(text).kind, 'object', text)
})

test('json: with anyElement, an array may have any elements', () => {
  const { kind, rows } = scan('[1,"a",[{"b":1}],{"c":1}]', { anyElement: true })
  const objects = scan('[{"a":1},[{"b":1}],{"c":1},"d"]', { anyElement: true })
  assert.deepEqual([objects.rows.names, objects.rows.count], [['a'], 2])
  assert.deepEqual([kind, rows.count, rows.names], ['array', 0, []])
})

test('json: too many values are refused, and the rest of the text is not read', () => {
  const row = '{"a":1,"b":2},'
  const rows = (count: number) => Buffer.from(`[${row.repeat(count).slice(0, -1)}]`)
  // The scanner counts three values per row: the brace and two commas.
  const most = Math.floor(500_000 / 3)
  assert.equal(counted(scanJson(rows(most))).value?.rows.count, most)
  const { error, slices } = counted(scanJson(rows(most * 4)))
  assert.equal((error as Refusal).status, 413)
  assert.equal((error as Refusal).code, 'body_too_large')
  assert.equal(slices, Math.ceil((most * row.length) / sliceBytes))
})

test('json: a slice reads a limited number of bytes, whatever the text contains', () => {
  const bytes = 4 * 1024 * 1024
  for (const text of [
    `{"a":"${'x'.repeat(bytes)}"}`,
    `{"a":"${'\\u0061'.repeat(bytes / 6)}"}`,
    `{"${'k'.repeat(bytes)}":1}`,
    `{"a":${' '.repeat(bytes)}1}`,
    `[${Array(bytes / 32)
      .fill('{"some name": "some value"}')
      .join()}]`,
  ]) {
    const { slices, error } = counted(scanJson(Buffer.from(text)))
    assert.equal(error, undefined)
    // An escape may end behind the end of a slice.
    assert.ok(slices >= Math.floor(text.length / (sliceBytes + 12)), `${slices} slices: ${text.slice(0, 20)}`)
  }
})

test('json: a row with more keys than a table can have columns is refused at the first extra key', () => {
  const keys = Array.from({ length: 400_000 }, (_, index) => `"k${index}":1`)
  assert.equal(scan(`{${keys.slice(0, 1664).join()}}`).rows.names.length, 1664)
  const { error, slices } = counted(scanJson(Buffer.from(`{${keys.join()}}`)))
  assert.equal((error as Refusal).code, 'PGRST102')
  assert.equal(slices, 1)
})

test('json: a key that is too long for a column is shortened', () => {
  const { names: keys, isUniform } = scan(`{"${'x'.repeat(5_000_000)}":1}`).rows
  assert.deepEqual([keys[0]!.length, isUniform], [101, true])
})

test('json: the position of a value in the first row is returned', () => {
  const text = '[{"a" : 9007199254740993 ,"b":{"a":1},"a":2.50},{"a":3,"b":1}]'
  const { rows } = scan(text)
  const { from, to } = rows.valueOf('a')!
  assert.equal(text.slice(from, to).trim(), '2.50')
  assert.equal(rows.valueOf('c'), undefined)
})
