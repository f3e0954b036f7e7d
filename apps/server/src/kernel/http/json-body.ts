// Parses JSON bodies. Rejects invalid UTF-8, lone surrogates, too many levels or values, and keys that could change a
// prototype.
import { isUtf8 } from 'node:buffer'
import { errorCodes } from '@plinth/contract/errors.ts'
import { parse } from 'secure-json-parse'
import { Refusal } from '#src/kernel/errors.ts'
import { atOnce, inSlices } from '#src/kernel/slices.ts'
import { hasMoreValues } from '#src/kernel/value-count.ts'
import { invalidJson, type JsonLimits, maxDepth, tooDeep, tooManyValues } from './json-tree.ts'
import { jsonInSlices, loneSurrogate, surrogateAt } from './large-json.ts'

/** Values in a body unless the route declares more. Validation and handlers iterate over them without a pause. */
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
 * The value of a body. A large one is read in slices. An empty body is undefined, because clients declare JSON on requests
 * without a body too.
 */
export function readJson(bytes: Buffer, options: JsonOptions = {}): unknown | Promise<unknown> {
  return bytes.length <= maxBytesAtOnce
    ? parseSmall(bytes, options)
    : inSlices(jsonInSlices(bytes, limitsOf(options)))
}

/** The same without pauses, for bodies that are known to be small. */
export function parseJsonBody(bytes: Buffer, options: JsonOptions = {}): unknown {
  return bytes.length <= maxBytesAtOnce
    ? parseSmall(bytes, options)
    : atOnce(jsonInSlices(bytes, limitsOf(options)))
}

/** Counts values only if a body of its length can have too many. */
function parseSmall(bytes: Buffer, { anyKey = false, maxValues = defaultMaxValues }: JsonOptions): unknown {
  const value = parseUncounted(bytes, anyKey)
  // Every value but the first needs a separator.
  if (bytes.length / 2 > maxValues && hasMoreValues(value, maxValues)) throw tooManyValues(maxValues)
  return value
}

function parseUncounted(bytes: Buffer, anyKey: boolean): unknown {
  if (bytes.length === 0) return
  if (!isUtf8(bytes)) throw invalidJson('The body is not valid UTF-8')
  const text = bytes.toString('utf8')
  const hasEscapes = text.includes('\\u')
  if (hasEscapes || !isFlat(text)) checkDepthAndSurrogates(bytes)
  try {
    return anyKey || !(hasEscapes || mayHaveUnsafeKeys(text))
      ? JSON.parse(text)
      : parse(text, null, { protoAction: 'error', constructorAction: 'error' })
  } catch (cause) {
    throw invalidJson(undefined, cause)
  }
}

/** Other bodies do not need the slower secure-json-parse. It also removes a byte order mark. */
const mayHaveUnsafeKeys = (text: string) =>
  text.includes('__proto__') || text.includes('constructor') || text.charCodeAt(0) === 0xfeff

/** A single object or list without nested ones needs no depth check. Most bodies are flat. */
const isFlat = (text: string) => text.indexOf('{', 1) < 0 && text.indexOf('[', 1) < 0

const jsonType = /^application\/json\s*(?:;|$)/i

/** The value of a body that is declared as JSON. Throws for a body of any other type. */
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

/** Runs before JSON.parse, which recurses and accepts lone surrogates. */
function checkDepthAndSurrogates(bytes: Buffer): void {
  let depth = 0
  for (let at = 0; at < bytes.length; at++) {
    const byte = bytes[at]
    if (byte === quote) at = endOfText(bytes, at)
    else if (byte === openBracket || byte === openBrace) {
      if (++depth > maxDepth) throw tooDeep()
    } else if (byte === closeBracket || byte === closeBrace) depth--
  }
}

/** The position of the closing quotation mark of the text that begins here. */
function endOfText(bytes: Buffer, start: number): number {
  /** Where a low surrogate must follow. */
  let lowAt = -1
  for (let at = start + 1; at < bytes.length; at++) {
    const byte = bytes[at]
    if (byte === backslash) {
      const surrogate = surrogateAt(bytes, at)
      if ((surrogate === 'low') !== (at === lowAt)) throw loneSurrogate()
      lowAt = surrogate === 'high' ? at + '\\ud800'.length : -1
      at += surrogate === 'none' ? 1 : '\\ud800'.length - 1
    } else if (lowAt >= 0) throw loneSurrogate()
    else if (byte === quote) return at
  }
  return bytes.length
}
