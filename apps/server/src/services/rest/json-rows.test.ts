import assert from 'node:assert/strict'
import { test } from 'node:test'
import { Refusal } from '#src/kernel/errors.ts'
import { pieceCharacters } from '#src/kernel/text-list.ts'
import { JsonRows } from './json-rows.ts'
import { valuePieces } from './json-values.ts'

const encoded = async (
  rows: readonly (readonly (string | null)[])[],
  types: number[],
  names = ['v', 'w'],
) => {
  const encoder = new JsonRows()
  encoder.begin(types.map((type, place) => ({ name: names[place]!, type })))
  for (const row of rows) encoder.row(row)
  return Buffer.concat(await encoder.finish()).toString()
}
const one = async (type: number, text: string | null) => JSON.parse(await encoded([[text]], [type]))[0].v

const cases: [string, number, string | null, unknown][] = [
  ['null', 25, null, null],
  ['a text', 25, 'a "b"\n', 'a "b"\n'],
  ['true', 16, 't', true],
  ['an integer', 23, '-5', -5],
  ['a fraction', 1700, '1.50', 1.5],
  ['what is no number', 701, 'NaN', 'NaN'],
  ['json', 3802, '{"a": [1]}', { a: [1] }],
  ['a time with a zone', 1184, '2024-01-02 03:04:05.6+00', '2024-01-02T03:04:05.6+00:00'],
  ['a time without one', 1114, '2024-01-02 03:04:05', '2024-01-02T03:04:05'],
  ['a list of integers', 1007, '{1,NULL,3}', [1, null, 3]],
  ['a list of texts', 1009, '{a,"b,c","NULL",NULL,"q\\"x"}', ['a', 'b,c', 'NULL', null, 'q"x']],
  [
    'lists in a list',
    1007,
    '{{1,2},{3,4}}',
    [
      [1, 2],
      [3, 4],
    ],
  ],
  ['a list with bounds', 1007, '[0:1]={1,2}', [1, 2]],
  ['an empty list', 1009, '{}', []],
]
for (const [what, type, text, expected] of cases)
  test(`exec_sql: ${what} as JSON`, async () => assert.deepEqual(await one(type, text), expected))

test('exec_sql: a number keeps every digit', async () => {
  assert.equal(await encoded([['9223372036854775807']], [20]), '[{"v":9223372036854775807}]')
})

const many = 200_000
const large: [string, number, string, unknown][] = [
  ['a text', 25, 'x'.repeat(5 * many), 'x'.repeat(5 * many)],
  ['a text of control characters', 25, '\u0001'.repeat(many), '\u0001'.repeat(many)],
  ['a text of surrogate pairs', 25, `a${'🙂'.repeat(many)}`, `a${'🙂'.repeat(many)}`],
  ['JSON', 3802, JSON.stringify(Array(many).fill('é')), Array(many).fill('é')],
  ['a list of integers', 1007, `{${Array(many).fill(7).join(',')}}`, Array(many).fill(7)],
  ['a list of nulls', 1009, `{${Array(many).fill('NULL').join(',')}}`, Array(many).fill(null)],
  ['a list of quoted texts', 1009, `{${Array(many).fill('"a\\"b"').join(',')}}`, Array(many).fill('a"b')],
  ['a long bare text in a list', 1009, `{${'y'.repeat(many)},z}`, ['y'.repeat(many), 'z']],
  ['a long quoted text in a list', 1009, `{"${'\\\\\\"'.repeat(many)}",z}`, ['\\"'.repeat(many), 'z']],
  ['a run of backslashes in a list', 1009, `{"a${'\\'.repeat(2 * many)}"}`, [`a${'\\'.repeat(many)}`]],
  ['long JSON in a list', 3807, `{"[${Array(many).fill('\\"é\\"').join(',')}]"}`, [Array(many).fill('é')]],
  [
    'lists in a list',
    1007,
    `{${Array(many / 2)
      .fill('{1,2}')
      .join(',')}}`,
    Array(many / 2).fill([1, 2]),
  ],
]
for (const [what, type, text, expected] of large)
  test(`exec_sql: ${what} with many characters is encoded in pieces`, async () => {
    const pieces = [...valuePieces(text, type)]
    assert.deepEqual(JSON.parse(pieces.join('')), expected)
    assert.ok(pieces.length >= Math.floor(text.length / pieceCharacters))
    // An escape can have six characters, and the last value in a piece of an array can be as long as a piece.
    for (const piece of pieces) assert.ok(piece.length <= 2 * 6 * pieceCharacters, String(piece.length))
    assert.deepEqual(await one(type, text), expected)
  })

test('exec_sql: rows after a large row keep their order, whether or not that row has been encoded', async () => {
  const rows: (string | null)[][] = []
  for (let place = 0; place < 40; place++) {
    rows.push([String(place), 'x'.repeat(place % 3 === 0 ? 100_000 : place % 3 === 1 ? 40_000 : 1)])
    rows.push([`${place}`, null])
  }
  const expected = rows.map(([v, w]) => ({ v: Number(v), w }))
  assert.deepEqual(JSON.parse(await encoded(rows, [23, 25])), expected)
  const encoder = new JsonRows()
  encoder.begin([
    { name: 'v', type: 23 },
    { name: 'w', type: 25 },
  ])
  for (const row of rows) {
    encoder.row(row)
    if (row[1] === null) await new Promise(setImmediate)
  }
  assert.deepEqual(JSON.parse(Buffer.concat(await encoder.finish()).toString()), expected)
})

test('exec_sql: only the rows of the last statement are kept', async () => {
  const encoder = new JsonRows()
  encoder.begin([{ name: 'a', type: 25 }])
  encoder.row(['x'.repeat(1_000_000)])
  encoder.begin([{ name: 'b', type: 23 }])
  encoder.row(['1'])
  assert.equal(Buffer.concat(await encoder.finish()).toString(), '[{"b":1}]')
  encoder.begin([])
  assert.equal(Buffer.concat(await encoder.finish()).toString(), '[]')
})

test('exec_sql: an answer whose JSON is too long is refused while it grows', async () => {
  const isRefused = (error: unknown) =>
    error instanceof Refusal &&
    error.status === 400 &&
    /more than 1 MB/.test(error.message) &&
    /limit/.test(error.hint)
  // Nulls with long names are a few bytes from Postgres, but many as JSON.
  const wide = new JsonRows(1024 * 1024)
  wide.begin(Array.from({ length: 1600 }, () => ({ name: 'n'.repeat(63), type: 25 })))
  let rows = 0
  assert.throws(() => {
    for (; rows < 1000; rows++) wide.row(Array(1600).fill(null))
  }, isRefused)
  assert.ok(rows < 12)
  const long = new JsonRows(1024 * 1024)
  long.begin([{ name: 'v', type: 25 }])
  long.row(['\u0001'.repeat(1_000_000)])
  await assert.rejects(long.finish(), isRefused)
})
