// Extracts parts of a JSON text without parsing them. Parsing and stringifying would cost time, and lose digits of large
// numbers.

const quote = 0x22
const backslash = 0x5c

/** The text of an object's member, of the last one if the name repeats. The input must be valid JSON. */
export function memberText(object: string, name: string): string | undefined {
  let found: string | undefined
  for (const [key, value] of members(object))
    if (key.length === name.length + 2 ? key === `"${name}"` : key.includes('\\') && JSON.parse(key) === name)
      found = value
  return found
}

/** The texts of all members by name. */
export function memberTexts(object: string): Map<string, string> {
  const found = new Map<string, string>()
  for (const [key, value] of members(object)) found.set(JSON.parse(key), value)
  return found
}

/** Keys as written, with quotes and escapes, and the texts of the values. */
function* members(object: string): Generator<[key: string, value: string]> {
  let at = afterSpace(object, 0)
  if (object[at] !== '{') return
  at = afterSpace(object, at + 1)
  while (at < object.length && object[at] !== '}') {
    const keyEnd = afterString(object, at)
    const valueAt = afterSpace(object, afterSpace(object, keyEnd) + 1)
    const valueEnd = afterValue(object, valueAt)
    yield [object.slice(at, keyEnd), object.slice(valueAt, valueEnd)]
    at = afterComma(object, valueEnd)
  }
}

/** The texts of the elements of an array. The input must be valid JSON. */
export function elementTexts(array: string): string[] {
  const found: string[] = []
  let at = afterSpace(array, 0)
  if (array[at] !== '[') return found
  at = afterSpace(array, at + 1)
  while (at < array.length && array[at] !== ']') {
    const end = afterValue(array, at)
    found.push(array.slice(at, end))
    at = afterComma(array, end)
  }
  return found
}

/** The text between the braces of an object, trimmed. */
export const membersText = (object: string): string => object.trim().slice(1, -1).trim()

const afterComma = (text: string, at: number): number => {
  const next = afterSpace(text, at)
  return text[next] === ',' ? afterSpace(text, next + 1) : next
}

function afterSpace(text: string, at: number): number {
  while (text.charCodeAt(at) <= 0x20) at++
  return at
}

function afterString(text: string, at: number): number {
  for (let next = at + 1; next < text.length; next++) {
    const code = text.charCodeAt(next)
    if (code === backslash) next++
    else if (code === quote) return next + 1
  }
  return text.length
}

const scalarEnd = /[\s,\]}]/g

function afterValue(text: string, at: number): number {
  const first = text[at]
  if (first === '"') return afterString(text, at)
  if (first !== '{' && first !== '[') {
    scalarEnd.lastIndex = at
    return scalarEnd.exec(text)?.index ?? text.length
  }
  let depth = 0
  for (let next = at; next < text.length; next++) {
    const code = text.charCodeAt(next)
    if (code === quote) next = afterString(text, next) - 1
    else if (code === 0x7b || code === 0x5b) depth++
    else if ((code === 0x7d || code === 0x5d) && --depth === 0) return next + 1
  }
  return text.length
}
