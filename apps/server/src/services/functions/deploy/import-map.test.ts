import assert from 'node:assert/strict'
import { test } from 'node:test'
import { importMapOf, withoutComments } from './import-map.ts'

test('import map: comments and trailing commas are dropped, and texts stay', () => {
  const cases: [string, unknown][] = [
    ['{"a": 1}', { a: 1 }],
    ['// first\n{"a": 1} // last', { a: 1 }],
    ['{/* "b": 2, */"a": 1,}', { a: 1 }],
    ['{"a": [1, 2, /* c */ ], // d\n}', { a: [1, 2] }],
    [
      '{"a": "// no comment", "b": "/* none */", "c": ",}"}',
      { a: '// no comment', b: '/* none */', c: ',}' },
    ],
    [String.raw`{"a": "\"//", "b": "\\"}`, { a: '"//', b: '\\' }],
    ['{"a": [[1,],],}', { a: [[1]] }],
  ]
  for (const [text, expected] of cases) assert.deepEqual(JSON.parse(withoutComments(text)), expected, text)
})

test('import map: what has no end, or is no JSON, is refused with the name of the file', () => {
  for (const text of ['{"a', '/* open', '{"imports": }', '[1]', '"text"', `${'"\\'.repeat(100_000)}`])
    assert.throws(() => importMapOf(new Map([['deno.json', Buffer.from(text)]])), /deno\.json/)
})
