// Writes large answers in slices. JSON.stringify cannot be interrupted: 10 MB of line feeds in one text take it 70 ms.
import { inSlices, type Sliced } from '#src/kernel/slices.ts'

/** An answer that is JSON text already, in UTF-8. */
export class JsonText {
  readonly bytes: Buffer
  constructor(bytes: Buffer) {
    this.bytes = bytes
  }
}

/** Characters written in one slice. */
export const sliceChars = 16 * 1024

/** Arrays, plain objects and scalars as JSON.stringify writes them. The value must not change meanwhile. */
export const jsonText = (value: unknown): Promise<JsonText> => inSlices(jsonTextInSlices(value))

/** Concatenates pieces of JSON, each about as long as a slice. */
export const jsonTextFrom = (pieces: Iterable<string>): Promise<JsonText> => inSlices(collected(pieces))

function* collected(pieces: Iterable<string>): Sliced<JsonText> {
  const chunks: Buffer[] = []
  for (const piece of pieces) {
    chunks.push(Buffer.from(piece))
    yield
  }
  return new JsonText(Buffer.concat(chunks))
}

interface Level {
  readonly container: unknown[] | Record<string, unknown>
  /** Undefined for an array. */
  readonly keys: readonly string[] | undefined
  next: number
  isFirst: boolean
}

export function* jsonTextInSlices(value: unknown): Sliced<JsonText> {
  const chunks: Buffer[] = []
  const levels: Level[] = []
  let text = ''
  const begin = (value: unknown): Level | undefined => {
    if (typeof value !== 'object' || value === null) return
    const isList = Array.isArray(value)
    text += isList ? '[' : '{'
    const container = value as Level['container']
    return { container, keys: isList ? undefined : Object.keys(container), next: 0, isFirst: true }
  }
  function* write(value: unknown): Sliced<void> {
    const level = begin(value)
    if (level) levels.push(level)
    else if (typeof value === 'string' && value.length > sliceChars) yield* writeLong(value)
    else text += JSON.stringify(value) ?? 'null'
  }
  function* writeLong(value: string): Sliced<void> {
    text += '"'
    for (let at = 0; at < value.length; ) {
      const end = pieceEnd(value, at)
      chunks.push(Buffer.from(text + JSON.stringify(value.slice(at, end)).slice(1, -1)))
      text = ''
      at = end
      yield
    }
    text = '"'
  }
  yield* write(value)
  for (let level = levels.at(-1); level; level = levels.at(-1)) {
    const { container, keys } = level
    const at = level.next++
    if (at === (keys ?? (container as unknown[])).length) {
      text += keys ? '}' : ']'
      levels.pop()
      continue
    }
    const member = keys ? (container as Record<string, unknown>)[keys[at]!] : (container as unknown[])[at]
    if (keys && member === undefined) continue
    if (!level.isFirst) text += ','
    level.isFirst = false
    if (keys) text += `${JSON.stringify(keys[at])}:`
    yield* write(member)
    if (text.length < sliceChars) continue
    chunks.push(Buffer.from(text))
    text = ''
    yield
  }
  chunks.push(Buffer.from(text))
  return new JsonText(Buffer.concat(chunks))
}

/** Does not split a surrogate pair: JSON.stringify would escape each half. */
function pieceEnd(text: string, start: number): number {
  const end = Math.min(start + sliceChars, text.length)
  const last = text.charCodeAt(end - 1)
  return last >= 0xd800 && last < 0xdc00 && end < text.length ? end + 1 : end
}
