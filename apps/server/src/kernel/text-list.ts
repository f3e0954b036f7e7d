// Encodes lists of texts piece by piece, because encoding many megabytes at once would block the event loop.

/** Characters in one piece, before escaping. Escapes can make it six times as long. */
export const pieceCharacters = 32 * 1024

/** Splits a text without splitting a surrogate pair. */
export function* piecesOf(text: string, characters = pieceCharacters): Generator<string> {
  for (let start = 0; start < text.length; ) {
    let end = Math.min(start + characters, text.length)
    if (end < text.length && isHighSurrogate(text.charCodeAt(end - 1))) end--
    // With a length of one, a pair is a piece of two.
    if (end === start) end = Math.min(start + 2, text.length)
    yield text.slice(start, end)
    start = end
  }
}

const isHighSurrogate = (code: number) => code >= 0xd800 && code < 0xdc00

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

/** The JSON string without its quotes. */
export const jsonEscaped = (piece: string): string => JSON.stringify(piece).slice(1, -1)

function* listPieces(
  texts: readonly string[],
  opening: string,
  closing: string,
  escaped: (piece: string) => string,
): Generator<string> {
  let written = opening
  let characters = 0
  for (const [index, text] of texts.entries()) {
    written += index === 0 ? '"' : ',"'
    // Counts empty texts as well, because their quotes take space.
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
