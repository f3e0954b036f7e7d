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
  const text = bytes.toString('utf8')
  let value: unknown
  try {
    value = anyKey
      ? JSON.parse(text)
      : parse(text, null, { protoAction: 'error', constructorAction: 'error' })
  } catch (cause) {
    throw invalid('The body is not valid JSON', cause)
  }
  inspect(value, mentionsSurrogate.test(text))
  return value
}

const invalid = (message: string, cause?: unknown) => new Refusal('invalid_json', message, { cause })

/** Goes level by level, not by recursion: depth is what it guards against. */
function inspect(value: unknown, mayHoldHalves: boolean): void {
  let level = [value]
  for (let depth = 0; level.length > 0; depth++) {
    if (depth > maxDepth) throw invalid(`The body is nested more than ${maxDepth} levels deep`)
    if (mayHoldHalves) for (const each of level) refuseHalves(each)
    level = level.flatMap(each =>
      typeof each === 'object' && each !== null
        ? [...(mayHoldHalves ? Object.keys(each) : []), ...Object.values(each)]
        : [],
    )
  }
}

function refuseHalves(value: unknown): void {
  if (typeof value === 'string' && !value.isWellFormed())
    throw new Refusal('invalid_request', 'A text in the body holds half of a surrogate pair')
}
