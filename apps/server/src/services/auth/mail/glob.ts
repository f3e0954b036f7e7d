// Glob patterns for redirect URLs. `*` and `?` do not match `.` and `/`; `**` does. The matcher tracks all reachable
// positions at once instead of backtracking, so its time is at most pattern length times text length.

const maxWildcards = 4

/** Flags the positions of the text that the pattern can have reached so far. */
type Reached = Uint8Array

export function matchesGlob(glob: string, text: string): boolean {
  const [start, ...parts] = glob.split(/(\*\*|\*|\?)/) as [string, ...string[]]
  if (!text.startsWith(start) || parts.length > maxWildcards * 2) return false
  let reached: Reached = new Uint8Array(text.length + 1)
  reached[start.length] = 1
  for (const part of parts) reached = advance(reached, part, text)
  return reached[text.length] === 1
}

function advance(from: Reached, part: string, text: string): Reached {
  const to = new Uint8Array(from.length)
  switch (part) {
    case '**': {
      const first = from.indexOf(1)
      return first < 0 ? to : to.fill(1, first)
    }
    case '*':
      for (let at = 0; at < from.length; at++)
        if (from[at] || (at > 0 && to[at - 1] && isNotSeparator(text[at - 1]!))) to[at] = 1
      return to
    case '?':
      for (let at = 0; at < text.length; at++) if (from[at] && isNotSeparator(text[at]!)) to[at + 1] = 1
      return to
    default:
      for (let at = 0; at + part.length < from.length; at++)
        if (from[at] && text.startsWith(part, at)) to[at + part.length] = 1
      return to
  }
}

const isNotSeparator = (character: string) => character !== '.' && character !== '/'
