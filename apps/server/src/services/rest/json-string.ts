// Decodes one string of a JSON body in slices.
import type { Sliced } from '#src/kernel/slices.ts'
import { isSpace, sliceBytes } from './json-scan.ts'

const [quote, backslash, letterU] = Buffer.from('"\\u')

/** The string between two positions of valid JSON. Undefined if the value is not a string. */
export function* stringIn(
  json: Buffer,
  { from, to }: { from: number; to: number },
): Sliced<string | undefined> {
  let start = from
  while (isSpace(json[start]!)) start++
  if (json[start] !== quote) return
  const end = json.lastIndexOf('"', to - 1)
  let text = ''
  for (let at = start + 1; at < end; ) {
    if (at > start + 1) yield
    const stop = boundaryAfter(json, at, Math.min(end, at + sliceBytes))
    text += JSON.parse(`"${json.toString('utf8', at, stop)}"`) as string
    at = stop
  }
  return text
}

/** The first position from `limit` on that splits neither an escape nor a character. */
function boundaryAfter(json: Buffer, start: number, limit: number): number {
  let at = start
  while (at < limit) {
    if (json[at] === backslash) at += json[at + 1] === letterU ? 6 : 2
    else at++
  }
  while ((json[at]! & 0xc0) === 0x80) at++
  return at
}
