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

test('text lists: the pieces of a list concatenate to its JSON, and none exceeds the maximum length', () => {
  for (const texts of lists) {
    const pieces = [...jsonPieces(texts)]
    assert.equal(pieces.join(''), JSON.stringify(texts))
    // Up to twice pieceCharacters (quotes and commas of empty texts), each character six long when escaped as \u0001.
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

test('text lists: a surrogate pair is not split', () => {
  assert.deepEqual([...piecesOf('a🙂b🙂', 2)], ['a', '🙂', 'b', '🙂'])
  assert.deepEqual([...piecesOf('🙂🙂', 1)], ['🙂', '🙂'])
  assert.deepEqual([...piecesOf('', 1)], [])
})

test('text lists: the pieces of one field concatenate to its JSON', () => {
  for (const texts of lists) {
    const pieces = [...jsonFieldPieces('sql', texts)]
    // A lone surrogate at the end of a text would form a pair with the start of the next text.
    if (!texts.includes('\ud800')) assert.equal(pieces.join(''), JSON.stringify({ sql: texts.join('') }))
    for (const piece of pieces) assert.ok(piece.length <= 6 * pieceCharacters)
  }
})
