// JSON bodies, taken only if they are what they seem: valid UTF-8, no half characters, no nesting that would
// exhaust the stack further down, and no keys that reach for a prototype.
import { isUtf8 } from 'node:buffer'
import { parse } from 'secure-json-parse'
import { Refusal } from '#src/kernel/errors.ts'

const maxDepth = 100
/** Whatever reads a value reads all of it, and meanwhile nobody else is served. */
const maxValues = 500_000
const surrogate = /\\u[dD](?<kind>[89a-fA-F])[\da-fA-F]{2}/g

/**
 * The value of a body; an empty one is no value, since clients declare JSON on requests without a body, too. Keys of
 * any name are taken only by those who never read one off the value unasked.
 */
export function parseJsonBody(bytes: Buffer, { anyKey = false } = {}): unknown {
  if (bytes.length === 0) return
  if (!isUtf8(bytes)) throw invalid('The body is not valid UTF-8')
  refuseExcess(bytes)
  const text = bytes.toString('utf8')
  let value: unknown
  try {
    value = anyKey
      ? JSON.parse(text)
      : parse(text, null, { protoAction: 'error', constructorAction: 'error' })
  } catch (cause) {
    throw invalid('The body is not valid JSON', cause)
  }
  refuseHalves(text)
  return value
}

const invalid = (message: string, cause?: unknown) => new Refusal('invalid_json', message, { cause })

const [quote, backslash, comma, openBracket, closeBracket, openBrace, closeBrace] = Buffer.from('"\\,[]{}')

/** Of a text that is JSON, or not: counted before it is read, since reading is what may exhaust the stack. */
function refuseExcess(bytes: Buffer): void {
  let depth = 0
  let values = 1
  for (let at = 0; at < bytes.length; at++) {
    const byte = bytes[at]
    if (byte === quote) at = endOfText(bytes, at)
    else if (byte === comma) {
      if (++values > maxValues) throw tooMany()
    } else if (byte === openBracket || byte === openBrace) {
      if (++depth > maxDepth) throw invalid(`The body is nested more than ${maxDepth} levels deep`)
    } else if (byte === closeBracket || byte === closeBrace) depth--
  }
}

/** Where the text that begins here ends: at a quotation mark that no backslash stands before. */
export function endOfText(bytes: Buffer, start: number): number {
  for (let at = bytes.indexOf(quote!, start + 1); at >= 0; at = bytes.indexOf(quote!, at + 1)) {
    let backslashes = 0
    while (bytes[at - 1 - backslashes] === backslash) backslashes++
    if (backslashes % 2 === 0) return at
  }
  return bytes.length
}

/** In the text, where each is an escape: a first half is followed by a second at once, and a second by nothing else. */
function refuseHalves(text: string): void {
  let secondAt = -1
  for (const { index, groups } of text.matchAll(surrogate)) {
    if (!isEscape(text, index)) continue
    const isSecond = /[c-f]/i.test(groups!['kind']!)
    if (secondAt >= 0 ? index !== secondAt || !isSecond : isSecond) throw half()
    secondAt = isSecond ? -1 : index + '\\ud800'.length
  }
  if (secondAt >= 0) throw half()
}

function isEscape(text: string, at: number): boolean {
  let backslashes = 0
  while (text[at - 1 - backslashes] === '\\') backslashes++
  return backslashes % 2 === 0
}

const half = () => new Refusal('invalid_request', 'A text in the body holds half of a surrogate pair')
const tooMany = () =>
  new Refusal('body_too_large', `The body holds more than ${maxValues} values; send it in several requests`)
