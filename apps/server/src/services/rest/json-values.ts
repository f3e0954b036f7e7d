// Converts values in the text format of Postgres to JSON, as to_json does.
import { jsonEscaped, pieceCharacters, piecesOf } from '#src/kernel/text-list.ts'

type Kind = 'boolean' | 'number' | 'json' | 'timestamp' | 'text'

const kinds = new Map<number, Kind>([
  [16, 'boolean'],
  [20, 'number'],
  [21, 'number'],
  [23, 'number'],
  [26, 'number'],
  [700, 'number'],
  [701, 'number'],
  [1700, 'number'],
  [114, 'json'],
  [3802, 'json'],
  [1114, 'timestamp'],
  [1184, 'timestamp'],
])

/** Array types by the type of their elements. */
const elementTypes = new Map([
  [1000, 16],
  [1016, 20],
  [1005, 21],
  [1007, 23],
  [1028, 26],
  [1021, 700],
  [1022, 701],
  [1231, 1700],
  [199, 114],
  [3807, 3802],
  [1115, 1114],
  [1185, 1184],
  [1009, 25],
  [1015, 1043],
  [1002, 18],
  [1003, 19],
  [1182, 1082],
  [2951, 2950],
])

/** Converts at once. Only for short values. */
export function jsonValue(text: string | null, type: number): string {
  if (text === null) return 'null'
  const element = elementTypes.get(type)
  if (element !== undefined) return [...arrayPieces(text, element)].join('')
  switch (kinds.get(type)) {
    case 'boolean':
      return text === 't' ? 'true' : 'false'
    case 'number':
      return isNumber(text) ? text : JSON.stringify(text)
    case 'json':
      return text
    case 'timestamp':
      return JSON.stringify(text.replace(' ', 'T').replace(/([+-]\d\d)$/, '$1:00'))
    default:
      return JSON.stringify(text)
  }
}

/** Infinity and NaN are not numbers in JSON. */
const isNumber = (text: string) => /^-?\d/.test(text)

/** Converts in pieces. Each piece takes a limited number of characters of the value, and some are empty. */
export function* valuePieces(text: string | null, type: number): Generator<string> {
  const element = elementTypes.get(type)
  if (text === null || text.length <= pieceCharacters) yield jsonValue(text, type)
  else if (element === undefined) yield* scalarPieces(piecesOf(text), isRaw(text, type))
  else yield* arrayPieces(text, element)
}

/** JSON and numbers are not quoted. */
const isRaw = (text: string, type: number) => {
  const kind = kinds.get(type)
  return kind === 'json' || (kind === 'number' && isNumber(text))
}

function* scalarPieces(pieces: Iterable<string>, isAsWritten: boolean): Generator<string> {
  if (isAsWritten) return yield* pieces
  yield '"'
  for (const piece of pieces) yield jsonEscaped(piece)
  yield '"'
}

/** For arrays: until a piece is written, each of the joined texts is an object in memory. */
const listPieceCharacters = 4096

/** Converts `{1,2}`, `{"a b",NULL}` or `{{1},{2}}`. Unusual array bounds come before the first brace. */
function* arrayPieces(text: string, element: number): Generator<string> {
  let json = ''
  let pausedAt = 0
  for (let at = text.indexOf('{'); at < text.length; ) {
    const character = text[at]!
    const place = '{},'.indexOf(character)
    if (place >= 0) {
      json += '[],'[place]!
      at++
    } else {
      const isQuoted = character === '"'
      const start = isQuoted ? at + 1 : at
      let end = endOfItem(text, start, isQuoted)
      if (end - start <= pieceCharacters) json += shortItem(text.slice(start, end), isQuoted, element)
      else {
        yield json
        json = ''
        end = yield* endOfLongItem(text, start, isQuoted)
        const item = text.slice(start, end)
        yield* scalarPieces(isQuoted ? unescapedPieces(item) : piecesOf(item), isRaw(item, element))
      }
      at = isQuoted ? end + 1 : end
    }
    if (at - pausedAt < listPieceCharacters) continue
    yield json
    json = ''
    pausedAt = at
  }
  yield json
}

function shortItem(written: string, isQuoted: boolean, element: number): string {
  if (isQuoted) return jsonValue(written.replace(/\\([\s\S])/g, '$1'), element)
  return written === 'NULL' ? 'null' : jsonValue(written, element)
}

/** The position of the closing quote, or after an unquoted item. More than a piece after `start` if the item is long. */
function endOfItem(text: string, start: number, isQuoted: boolean): number {
  const limit = Math.min(text.length, start + pieceCharacters + 1)
  let at = start
  for (; at < limit; at++) {
    const character = text[at]
    if (isQuoted && character === '\\') at++
    else if (isQuoted ? character === '"' : character === ',' || character === '}') break
  }
  return at
}

/** Yields empty pieces as pauses. */
function* endOfLongItem(text: string, start: number, isQuoted: boolean): Generator<string, number> {
  for (let from = start; ; ) {
    const end = endOfItem(text, from, isQuoted)
    if (end - from <= pieceCharacters) return end
    yield ''
    from = end
  }
}

/** Does not split between a backslash and the character it escapes. */
function* unescapedPieces(item: string): Generator<string> {
  let held = ''
  for (const piece of piecesOf(item)) {
    const text = held + piece
    let backslashes = 0
    while (text[text.length - 1 - backslashes] === '\\') backslashes++
    held = backslashes % 2 === 1 ? '\\' : ''
    yield text.slice(0, text.length - held.length).replace(/\\([\s\S])/g, '$1')
  }
}
