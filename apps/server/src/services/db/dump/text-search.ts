// Searches texts of any length in slices.
import type { Sliced } from '#src/kernel/slices.ts'

/** Characters in one slice. */
export const sliceCharacters = 512 * 1024

export function* includes(text: string, part: string): Sliced<boolean> {
  for (let at = 0; at < text.length; at += sliceCharacters) {
    if (at > 0) yield
    if (text.slice(at, at + sliceCharacters + part.length - 1).includes(part)) return true
  }
  return false
}

/** Yields between slices, and not before a short text. */
export function* replaceAll(text: string, from: string, to: string): Sliced<string> {
  if (text.length <= sliceCharacters) return text.replaceAll(from, to)
  const pieces: string[] = []
  for (let at = 0; at < text.length; ) {
    const end = at + sliceCharacters
    // What crosses the end belongs to the next slice.
    const crossing = text.slice(end - from.length + 1, end + from.length - 1).indexOf(from)
    const next = crossing < 0 ? end : end - from.length + 1 + crossing
    pieces.push(text.slice(at, next).replaceAll(from, to))
    at = next
    yield
  }
  return pieces.join('')
}
