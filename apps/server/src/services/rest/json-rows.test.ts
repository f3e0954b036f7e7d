import assert from 'node:assert/strict'
import { test } from 'node:test'
import { jsonRows } from './json-rows.ts'

const one = (type: number, text: string | null) =>
  JSON.parse(jsonRows({ columns: [{ name: 'v', type }], rows: [[text]], tag: '' }))[0].v

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
  test(`${what} as JSON`, () => assert.deepEqual(one(type, text), expected))

test('a number keeps every digit', () => {
  const text = jsonRows({ columns: [{ name: 'v', type: 20 }], rows: [['9223372036854775807']], tag: '' })
  assert.equal(text, '[{"v":9223372036854775807}]')
})
