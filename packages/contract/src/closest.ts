// Finds what a typing mistake meant, for command lines and error hints alike; imports nothing.

/** The work grows with the square of the length, and nobody mistypes a text this long. */
const maxLength = 100

/** The candidate that a typing mistake most likely meant, if one is near enough. */
export function closest(typed: string, candidates: readonly string[]): string | undefined {
  if (typed.length > maxLength) return
  const allowed = typed.length <= 4 ? 2 : 3
  const ranked = candidates
    .map(candidate => ({ candidate, distance: distance(typed.toLowerCase(), candidate.toLowerCase()) }))
    .sort((a, b) => a.distance - b.distance)
  const best = ranked[0]
  if (best && best.distance <= allowed && best.distance < best.candidate.length) return best.candidate
  return candidates.find(candidate => typed.length > 2 && candidate.startsWith(typed))
}

/** Edits between two words, where swapping two neighbours counts as one. */
export function distance(a: string, b: string): number {
  const rows: number[][] = [Array.from({ length: b.length + 1 }, (_, column) => column)]
  for (let i = 1; i <= a.length; i++) {
    const row = [i]
    for (let j = 1; j <= b.length; j++) {
      const same = a[i - 1] === b[j - 1]
      let least = Math.min(rows[i - 1]![j]! + 1, row[j - 1]! + 1, rows[i - 1]![j - 1]! + (same ? 0 : 1))
      const swapped = i > 1 && j > 1 && a[i - 1] === b[j - 2] && a[i - 2] === b[j - 1]
      if (swapped) least = Math.min(least, rows[i - 2]![j - 2]! + 1)
      row.push(least)
    }
    rows.push(row)
  }
  return rows[a.length]![b.length]!
}
