// The fields `__schema` and `__type`. Postgres answers with a placeholder for each, which is replaced afterwards. It is found
// by its place in the answer, so that no text of a project is taken for one.

export const isOfSchema = (fieldName: string): boolean => fieldName === '__schema' || fieldName === '__type'

/** Stands in the answer of Postgres where a field about the schema belongs. */
export const placeholderOf = (name: string): string => `schema ${name}`

const [quote, backslash, comma] = ['"', '\\', ','].map(text => text.charCodeAt(0))
const [openBrace, closeBrace, openBracket, closeBracket] = ['{', '}', '[', ']'].map(text =>
  text.charCodeAt(0),
)

/** Members of `data` are inside two objects: the answer and `data` itself. */
const memberDepth = 2

/** Puts texts into an answer `{"data":{…}}`, each in place of the member of `data` with its name. Copies nothing. */
export function withSchemaFields(answer: Buffer, shown: Readonly<Record<string, Uint8Array>>): Uint8Array[] {
  const parts: Uint8Array[] = []
  let [done, missing] = [0, Object.keys(shown).length]
  let text: Uint8Array | undefined
  for (const { isKey, start, end } of memberStrings(answer)) {
    if (isKey) {
      const name = answer.toString('utf8', start + 1, end)
      text = Object.hasOwn(shown, name) ? shown[name] : undefined
    } else if (text) {
      parts.push(answer.subarray(done, start), text)
      done = end + 1
      if (--missing === 0) break
    }
  }
  return [...parts, answer.subarray(done)]
}

/** The keys of `data`, and its values that are strings. */
function* memberStrings(answer: Buffer): Generator<{ isKey: boolean; start: number; end: number }> {
  let [depth, isKey] = [0, false]
  for (let at = 0; at < answer.length; at++) {
    const byte = answer[at]
    if (byte === quote) {
      const start = at
      at = endOfString(answer, start)
      if (depth !== memberDepth) continue
      yield { isKey, start, end: at }
      isKey = false
    } else if (byte === openBrace || byte === openBracket) {
      depth++
      isKey = depth === memberDepth
    } else if (byte === closeBrace || byte === closeBracket) depth--
    else if (byte === comma && depth === memberDepth) isKey = true
  }
}

/** The index of the closing quote. */
function endOfString(answer: Buffer, start: number): number {
  for (let at = start + 1; at < answer.length; at++) {
    if (answer[at] === backslash) at++
    else if (answer[at] === quote) return at
  }
  return answer.length
}
