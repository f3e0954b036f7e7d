import assert from 'node:assert/strict'
import { test } from 'node:test'
import { arrayPieces, jsonFieldPieces, jsonPieces, pieceCharacters, piecesOf } from './text-list.ts'

const lists = [
  [],
  [''],
  ['a', '', 'b"c\\d\n\u2028'],
  ['x'.repeat(200_000), 'y'],
  Array.from({ length: 50_000 }, (_, place) => `select ${place}`),
  Array.from({ length: 200_000 }, () => ''),
  ['🙂'.repeat(40_000), `a${'🙂'.repeat(40_000)}`, '\ud800', '\udc00\ud800'],
  ['"\\'.repeat(50_000), '\u0001'.repeat(100_000)],
]

test('text lists: the pieces of a list make up its JSON, and none is longer than its bound', () => {
  for (const texts of lists) {
    const pieces = [...jsonPieces(texts)]
    assert.equal(pieces.join(''), JSON.stringify(texts))
    // Up to two pieces' worth of characters, each six long as \u0001, with quotes and commas of empty texts.
    for (const piece of pieces) assert.ok(piece.length <= 2 * 6 * pieceCharacters)
  }
})

test('text lists: an array literal escapes quotes and backslashes', () => {
  assert.equal(
    [...arrayPieces(['a', '', 'b"c\\d', 'NULL', '{}'])].join(''),
    '{"a","","b\\"c\\\\d","NULL","{}"}',
  )
  assert.equal([...arrayPieces([])].join(''), '{}')
})

test('text lists: a text is not cut within a surrogate pair', () => {
  assert.deepEqual([...piecesOf('a🙂b🙂', 2)], ['a', '🙂', 'b', '🙂'])
  assert.deepEqual([...piecesOf('🙂🙂', 1)], ['🙂', '🙂'])
  assert.deepEqual([...piecesOf('', 1)], [])
})

test('text lists: the pieces of one field make up its JSON', () => {
  for (const texts of lists) {
    const pieces = [...jsonFieldPieces('sql', texts)]
    // A lone half of a pair at the end of a text would become one with the next text.
    if (!texts.includes('\ud800')) assert.equal(pieces.join(''), JSON.stringify({ sql: texts.join('') }))
    for (const piece of pieces) assert.ok(piece.length <= 6 * pieceCharacters)
  }
})
