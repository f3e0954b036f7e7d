// Patterns of places: `*` and `?` stay within a part of a name, `**` does not. All positions a pattern can have reached
// are walked together, so that no pattern and no text take longer than their lengths multiplied.

const mostWildcards = 8

type Positions = ReadonlySet<number>

export function matchesGlob(glob: string, text: string): boolean {
  const parts = glob.split(/(\*\*|\*|\?)/)
  if (parts.length > mostWildcards * 2 + 1) return false
  let reached: Positions = new Set([0])
  for (const part of parts) {
    reached = advance(reached, part, text)
    if (reached.size === 0) return false
  }
  return reached.has(text.length)
}

function advance(from: Positions, part: string, text: string): Positions {
  const to = new Set<number>()
  switch (part) {
    case '**': {
      const first = Math.min(...from)
      for (let at = first; at <= text.length; at++) to.add(at)
      return to
    }
    case '*':
      for (const start of from) {
        // What another start has walked already need not be walked again.
        for (let at = start; !to.has(at); at++) {
          to.add(at)
          if (!isWithinName(text[at])) break
        }
      }
      return to
    case '?':
      for (const at of from) if (isWithinName(text[at])) to.add(at + 1)
      return to
    default:
      for (const at of from) if (text.startsWith(part, at)) to.add(at + part.length)
      return to
  }
}

const isWithinName = (character: string | undefined) =>
  character !== undefined && character !== '.' && character !== '/'
