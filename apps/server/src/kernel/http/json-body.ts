// JSON bodies, taken only if they are what they seem: valid UTF-8, no half characters, no nesting that would
// exhaust the stack further down, and no keys that reach for a prototype.
import { isUtf8 } from 'node:buffer'
import { errorCodes } from '@plinth/contract/errors.ts'
import { parse } from 'secure-json-parse'
import { Refusal } from '#src/kernel/errors.ts'

const maxDepth = 100
/** Whatever reads a value reads all of it, and meanwhile nobody else is served. */
const maxValues = 500_000

/**
 * The value of a body; an empty one is no value, since clients declare JSON on requests without a body, too. Keys of
 * any name are taken only by those who never read one off the value unasked.
 */
export function parseJsonBody(bytes: Buffer, { anyKey = false } = {}): unknown {
  if (bytes.length === 0) return
  if (!isUtf8(bytes)) throw invalid('The body is not valid UTF-8')
  const text = bytes.toString('utf8')
  const hasEscapes = text.includes('\\u')
  if (hasEscapes || !isFlat(text)) inspect(bytes)
  let value: unknown
  try {
    value =
      anyKey || !(hasEscapes || isSuspect(text))
        ? JSON.parse(text)
        : parse(text, null, { protoAction: 'error', constructorAction: 'error' })
  } catch (cause) {
    throw invalid('The body is not valid JSON', cause)
  }
  return value
}

/** Few bodies are: the others are spared the second look. A mark of byte order is for the careful parser, too. */
const isSuspect = (text: string) =>
  text.includes('__proto__') || text.includes('constructor') || text.charCodeAt(0) === 0xfeff

/** One object or list without another in it, and short: nothing to count. Most bodies are. */
const isFlat = (text: string) =>
  text.length < maxValues && text.indexOf('{', 1) < 0 && text.indexOf('[', 1) < 0

const jsonType = /^application\/json\s*(?:;|$)/i

/** The value of a body that is declared to be JSON; a body of any other kind is refused. */
export function jsonFrom(contentType: string | undefined, bytes: Buffer, anyKey: boolean): unknown {
  if (contentType !== 'application/json' && !jsonType.test(contentType ?? '')) {
    if (contentType === undefined && bytes.length === 0) return
    throw new Refusal('unsupported_media_type', errorCodes.unsupported_media_type.meaning)
  }
  return parseJsonBody(bytes, { anyKey })
}

const invalid = (message: string, cause?: unknown) => new Refusal('invalid_json', message, { cause })

const [quote, backslash, comma, openBracket, closeBracket, openBrace, closeBrace, letterU, letterD] =
  Buffer.from('"\\,[]{}ud')

/**
 * One pass over a text that is JSON, or not: it is counted before it is read, since reading is what may exhaust the
 * stack, or the patience of others. Of a character written as two escapes, neither half comes without the other.
 */
function inspect(bytes: Buffer): void {
  let depth = 0
  let values = 1
  for (let at = 0; at < bytes.length; at++) {
    const byte = bytes[at]
    if (byte === quote) at = endOfText(bytes, at, true)
    else if (byte === comma) values++
    else if (byte === openBracket || byte === openBrace) {
      values++
      if (++depth > maxDepth) throw invalid(`The body is nested more than ${maxDepth} levels deep`)
    } else if (byte === closeBracket || byte === closeBrace) depth--
    if (values > maxValues) throw tooMany()
  }
}

/** Where the text that begins here ends: at a quotation mark that no backslash stands before. */
export function endOfText(bytes: Buffer, start: number, refusesHalves = false): number {
  let secondAt = -1
  for (let at = start + 1; at < bytes.length; at++) {
    const byte = bytes[at]
    if (byte === backslash) {
      const kind = refusesHalves ? halfAt(bytes, at) : 'none'
      if ((kind === 'second') !== (at === secondAt)) throw half()
      secondAt = kind === 'first' ? at + '\\ud800'.length : -1
      at += kind === 'none' ? 1 : '\\ud800'.length - 1
    } else if (secondAt >= 0) throw half()
    else if (byte === quote) return at
  }
  return bytes.length
}

const lowerCase = 0x20
const [digit8, digit9, letterA, letterB] = Buffer.from('89ab')

function halfAt(bytes: Buffer, at: number): 'first' | 'second' | 'none' {
  if (bytes[at + 1] !== letterU || (bytes[at + 2]! | lowerCase) !== letterD) return 'none'
  const kind = bytes[at + 3]! | lowerCase
  if (kind === letterA || kind === letterB || kind === digit8 || kind === digit9) return 'first'
  return kind > letterB! ? 'second' : 'none'
}

const half = () => new Refusal('invalid_request', 'A text in the body holds half of a surrogate pair')
const tooMany = () =>
  new Refusal('body_too_large', `The body holds more than ${maxValues} values; send it in several requests`)
