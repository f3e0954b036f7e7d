// Lists of texts, written piece by piece: a list of many megabytes must not hold the event loop while it is encoded.

/** Characters of the texts in one piece. Escapes can make it six times as long. */
export const pieceCharacters = 32 * 1024

/** In order; no piece ends between the two halves of a surrogate pair. */
export function* piecesOf(text: string, characters = pieceCharacters): Generator<string> {
  for (let start = 0; start < text.length; ) {
    let end = Math.min(start + characters, text.length)
    if (end < text.length && isFirstHalf(text.charCodeAt(end - 1))) end--
    // A piece of one character that is half of a pair: both go together.
    if (end === start) end = Math.min(start + 2, text.length)
    yield text.slice(start, end)
    start = end
  }
}

const isFirstHalf = (code: number) => code >= 0xd800 && code < 0xdc00

/** `JSON.stringify(texts)`. */
export const jsonPieces = (texts: readonly string[]): Generator<string> =>
  listPieces(texts, '[', ']', jsonEscaped)

/** `JSON.stringify({ [name]: texts.join('') })`. */
export function* jsonFieldPieces(name: string, texts: Iterable<string>): Generator<string> {
  yield `{${JSON.stringify(name)}:"`
  for (const text of texts) for (const piece of piecesOf(text)) yield jsonEscaped(piece)
  yield '"}'
}

/** A literal of the type text[]. */
export const arrayPieces = (texts: readonly string[]): Generator<string> =>
  listPieces(texts, '{', '}', piece => piece.replace(/["\\]/g, '\\$&'))

/** What stands between the quotes of a JSON string. */
export const jsonEscaped = (piece: string): string => JSON.stringify(piece).slice(1, -1)

function* listPieces(
  texts: readonly string[],
  opening: string,
  closing: string,
  escaped: (piece: string) => string,
): Generator<string> {
  let written = opening
  let characters = 0
  for (const [place, text] of texts.entries()) {
    written += place === 0 ? '"' : ',"'
    // An empty text costs something, too.
    characters++
    for (const piece of piecesOf(text)) {
      if (characters >= pieceCharacters) {
        yield written
        written = ''
        characters = 0
      }
      written += escaped(piece)
      characters += piece.length
    }
    written += '"'
    if (characters < pieceCharacters) continue
    yield written
    written = ''
    characters = 0
  }
  yield written + closing
}
