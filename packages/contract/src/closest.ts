// Finds the intended word of a typing mistake, for the command line and for error hints. It has no imports.

/** Longer texts are not compared, because the work grows with the square of the length. */
const maxLength = 100
/** More names are not compared, because the comparison blocks the event loop. */
const maxCandidates = 2000

/** The closest candidate, if one is close enough. */
export function closest(typed: string, candidates: readonly string[]): string | undefined {
  if (typed.length > maxLength || candidates.length > maxCandidates) return
  const allowed = typed.length <= 4 ? 2 : 3
  const wanted = typed.toLowerCase()
  let best: string | undefined
  let least = allowed + 1
  for (const candidate of candidates) {
    const edits = distance(wanted, candidate.toLowerCase(), least - 1)
    if (edits >= least) continue
    least = edits
    best = candidate
  }
  if (best !== undefined && least < best.length) return best
  return candidates.find(candidate => typed.length > 2 && candidate.startsWith(typed))
}

/**
 * The edit distance of two words, where swapping two neighbours counts as one edit. `most + 1` if it is larger than `most`.
 * Only cells near the diagonal are computed, because the others have a distance above `most`.
 */
export function distance(
  first: string,
  second: string,
  most = Math.max(first.length, second.length),
): number {
  const tooFar = most + 1
  if (Math.abs(first.length - second.length) > most) return tooFar
  const [a, b] = withoutCommonEnds(first, second)
  let beforeLast: number[] = []
  let last = Array.from({ length: b.length + 2 }, (_, column) => Math.min(column, tooFar))
  let row: number[] = []
  for (let i = 1; i <= a.length; i++) {
    const from = Math.max(1, i - most)
    const to = Math.min(b.length, i + most)
    row[from - 1] = from === 1 ? Math.min(i, tooFar) : tooFar
    row[to + 1] = tooFar
    let least = row[from - 1]!
    for (let j = from; j <= to; j++) {
      const same = a[i - 1] === b[j - 1]
      let edits = Math.min(last[j]! + 1, row[j - 1]! + 1, last[j - 1]! + (same ? 0 : 1))
      const swapped = i > 1 && j > 1 && a[i - 1] === b[j - 2] && a[i - 2] === b[j - 1]
      if (swapped) edits = Math.min(edits, beforeLast[j - 2]! + 1)
      row[j] = Math.min(edits, tooFar)
      least = Math.min(least, row[j]!)
    }
    if (least > most) return tooFar
    const free = beforeLast
    beforeLast = last
    last = row
    row = free
  }
  return last[b.length]!
}

function withoutCommonEnds(a: string, b: string): [string, string] {
  const shorter = Math.min(a.length, b.length)
  let start = 0
  while (start < shorter && a[start] === b[start]) start++
  let end = 0
  while (end < shorter - start && a[a.length - 1 - end] === b[b.length - 1 - end]) end++
  return [a.slice(start, a.length - end), b.slice(start, b.length - end)]
}
