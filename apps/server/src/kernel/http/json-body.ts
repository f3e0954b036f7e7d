// JSON bodies, taken only if they are what they seem: valid UTF-8, no half characters, no nesting that would
// exhaust the stack further down, and no keys that reach for a prototype.
import { isUtf8 } from 'node:buffer'
import { parse } from 'secure-json-parse'
import { Refusal } from '#src/kernel/errors.ts'

const maxDepth = 100
const mentionsSurrogate = /\\u[dD][89a-fA-F]/

/**
 * The value of a body; an empty one is no value, since clients declare JSON on requests without a body, too. Keys of
 * any name are taken only by those who never read one off the value unasked.
 */
export function parseJsonBody(bytes: Buffer, { anyKey = false } = {}): unknown {
  if (bytes.length === 0) return
  if (!isUtf8(bytes)) throw invalid('The body is not valid UTF-8')
  refuseDepth(bytes)
  const text = bytes.toString('utf8')
  let value: unknown
  try {
    value = anyKey
      ? JSON.parse(text)
      : parse(text, null, { protoAction: 'error', constructorAction: 'error' })
  } catch (cause) {
    throw invalid('The body is not valid JSON', cause)
  }
  if (mentionsSurrogate.test(text)) refuseHalves(value)
  return value
}

const invalid = (message: string, cause?: unknown) => new Refusal('invalid_json', message, { cause })

const [quote, backslash, openBracket, closeBracket, openBrace, closeBrace] = Buffer.from('"\\[]{}')

/** Of a text that is JSON, or not: counted before it is read, since reading is what may exhaust the stack. */
function refuseDepth(bytes: Buffer): void {
  let depth = 0
  for (let at = 0; at < bytes.length; at++) {
    const byte = bytes[at]
    if (byte === quote) at = endOfText(bytes, at)
    else if (byte === openBracket || byte === openBrace) {
      if (++depth > maxDepth) throw invalid(`The body is nested more than ${maxDepth} levels deep`)
    } else if (byte === closeBracket || byte === closeBrace) depth--
  }
}

/** Where the text that begins here ends: at a quotation mark that no backslash stands before. */
function endOfText(bytes: Buffer, start: number): number {
  for (let at = bytes.indexOf(quote!, start + 1); at >= 0; at = bytes.indexOf(quote!, at + 1)) {
    let backslashes = 0
    while (bytes[at - 1 - backslashes] === backslash) backslashes++
    if (backslashes % 2 === 0) return at
  }
  return bytes.length
}

/** Goes level by level; how deep it can get is known. */
function refuseHalves(value: unknown): void {
  for (let level = [value]; level.length > 0; )
    level = level.flatMap(each => {
      if (typeof each === 'string' && !each.isWellFormed())
        throw new Refusal('invalid_request', 'A text in the body holds half of a surrogate pair')
      return typeof each === 'object' && each !== null ? [...Object.keys(each), ...Object.values(each)] : []
    })
}
