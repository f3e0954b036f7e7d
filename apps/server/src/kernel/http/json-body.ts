// JSON bodies: valid UTF-8, no half of a surrogate pair, bounded depth and number of values, no keys that reach for a
// prototype.
import { isUtf8 } from 'node:buffer'
import { errorCodes } from '@plinth/contract/errors.ts'
import { parse } from 'secure-json-parse'
import { Refusal } from '#src/kernel/errors.ts'
import { atOnce, inSlices } from '#src/kernel/slices.ts'
import { invalidJson, type JsonLimits, maxDepth, tooDeep } from './json-tree.ts'
import { halfAt, halfOfPair, jsonInSlices } from './large-json.ts'

/** Values of a body unless the route declares more. Validation and handlers walk them without a pause. */
export const defaultMaxValues = 50_000
/** Larger bodies are read in slices. JSON.parse takes at most a few milliseconds for this many bytes. */
export const maxBytesAtOnce = 64 * 1024

type JsonOptions = Partial<JsonLimits>

const limitsOf = (options: JsonOptions): JsonLimits => ({
  maxValues: defaultMaxValues,
  anyKey: false,
  ...options,
})

/**
 * The value of a body; a large one is read in slices. An empty body has no value: clients declare JSON on requests
 * without a body, too.
 */
export function readJson(bytes: Buffer, options: JsonOptions = {}): unknown | Promise<unknown> {
  return bytes.length <= maxBytesAtOnce
    ? parseSmall(bytes, options.anyKey)
    : inSlices(jsonInSlices(bytes, limitsOf(options)))
}

/** The same without a pause: for bodies that are known to be small. */
export function parseJsonBody(bytes: Buffer, options: JsonOptions = {}): unknown {
  return bytes.length <= maxBytesAtOnce
    ? parseSmall(bytes, options.anyKey)
    : atOnce(jsonInSlices(bytes, limitsOf(options)))
}

/** Too small to hold more values than any route accepts. */
function parseSmall(bytes: Buffer, anyKey = false): unknown {
  if (bytes.length === 0) return
  if (!isUtf8(bytes)) throw invalidJson('The body is not valid UTF-8')
  const text = bytes.toString('utf8')
  const hasEscapes = text.includes('\\u')
  if (hasEscapes || !isFlat(text)) inspect(bytes)
  try {
    return anyKey || !(hasEscapes || isSuspect(text))
      ? JSON.parse(text)
      : parse(text, null, { protoAction: 'error', constructorAction: 'error' })
  } catch (cause) {
    throw invalidJson(undefined, cause)
  }
}

/** Other bodies need no second pass over their keys. The careful parser also removes a byte order mark. */
const isSuspect = (text: string) =>
  text.includes('__proto__') || text.includes('constructor') || text.charCodeAt(0) === 0xfeff

/** One object or list without another in it has no depth to check. Most bodies are. */
const isFlat = (text: string) => text.indexOf('{', 1) < 0 && text.indexOf('[', 1) < 0

const jsonType = /^application\/json\s*(?:;|$)/i

/** The value of a body that is declared to be JSON; a body of any other type is refused. */
export function jsonFrom(
  contentType: string | undefined,
  bytes: Buffer,
  options: JsonOptions,
): unknown | Promise<unknown> {
  if (contentType !== 'application/json' && !jsonType.test(contentType ?? '')) {
    if (contentType === undefined && bytes.length === 0) return
    throw new Refusal('unsupported_media_type', errorCodes.unsupported_media_type.meaning)
  }
  return readJson(bytes, options)
}

const [quote, backslash, openBracket, closeBracket, openBrace, closeBrace] = Buffer.from('"\\[]{}')

/** Checks depth and surrogate pairs before the parse: JSON.parse recurses, and accepts half a pair. */
function inspect(bytes: Buffer): void {
  let depth = 0
  for (let at = 0; at < bytes.length; at++) {
    const byte = bytes[at]
    if (byte === quote) at = endOfText(bytes, at)
    else if (byte === openBracket || byte === openBrace) {
      if (++depth > maxDepth) throw tooDeep()
    } else if (byte === closeBracket || byte === closeBrace) depth--
  }
}

/** Where the text that begins here ends: at the first quotation mark that is not escaped. */
function endOfText(bytes: Buffer, start: number): number {
  let secondAt = -1
  for (let at = start + 1; at < bytes.length; at++) {
    const byte = bytes[at]
    if (byte === backslash) {
      const half = halfAt(bytes, at)
      if ((half === 'second') !== (at === secondAt)) throw halfOfPair()
      secondAt = half === 'first' ? at + '\\ud800'.length : -1
      at += half === 'none' ? 1 : '\\ud800'.length - 1
    } else if (secondAt >= 0) throw halfOfPair()
    else if (byte === quote) return at
  }
  return bytes.length
}
