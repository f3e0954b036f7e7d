// Patterns of places: `*` and `?` stay within a part of a name, `**` does not. All positions a pattern can have reached
// are walked together, so that no pattern and no text take longer than their lengths multiplied.

const mostWildcards = 4

/** Which positions of the text the pattern can have reached so far. */
type Reached = Uint8Array

export function matchesGlob(glob: string, text: string): boolean {
  const [start, ...parts] = glob.split(/(\*\*|\*|\?)/) as [string, ...string[]]
  if (!text.startsWith(start) || parts.length > mostWildcards * 2) return false
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
        if (from[at] || (at > 0 && to[at - 1] && isWithinName(text[at - 1]!))) to[at] = 1
      return to
    case '?':
      for (let at = 0; at < text.length; at++) if (from[at] && isWithinName(text[at]!)) to[at + 1] = 1
      return to
    default:
      for (let at = 0; at + part.length < from.length; at++)
        if (from[at] && text.startsWith(part, at)) to[at + part.length] = 1
      return to
  }
}

const isWithinName = (character: string) => character !== '.' && character !== '/'
