// Values as Postgres writes them, turned into JSON the way its own to_json would.
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

/** At once, for a value that is known to be short. */
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

/** Infinity and NaN are none in JSON. */
const isNumber = (text: string) => /^-?\d/.test(text)

/** The same in pieces; each takes a bounded number of characters of the value, and some are empty. */
export function* valuePieces(text: string | null, type: number): Generator<string> {
  const element = elementTypes.get(type)
  if (text === null || text.length <= pieceCharacters) yield jsonValue(text, type)
  else if (element === undefined) yield* scalarPieces(piecesOf(text), isRaw(text, type))
  else yield* arrayPieces(text, element)
}

/** Long values are texts, JSON, or numbers of many digits. */
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

/** Of a list: joining many short texts leaves an object for each until they are written. */
const listPieceCharacters = 4096

/** `{1,2}`, `{"a b",NULL}`, `{{1},{2}}`, with bounds in front when they are unusual. */
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

/** Where its closing quote stands, or what follows it; more than a piece further on when it is long. */
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

/** Pauses with empty pieces. */
function* endOfLongItem(text: string, start: number, isQuoted: boolean): Generator<string, number> {
  for (let from = start; ; ) {
    const end = endOfItem(text, from, isQuoted)
    if (end - from <= pieceCharacters) return end
    yield ''
    from = end
  }
}

/** No piece is cut behind a backslash that escapes the next character. */
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
