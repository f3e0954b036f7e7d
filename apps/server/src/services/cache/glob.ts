// Glob patterns as in Redis: `*` any characters, `?` one, `[abc]`, `[a-z]`, `[^a]` one of a set, `\x` a literal. Both engines
// must match alike. The matcher simulates an NFA with one bit per state, so that matching needs one pass over the key and
// no pattern causes exponential backtracking.

export interface Matcher {
  matches(key: string): boolean
  /** Work done so far, in steps of a few nanoseconds. Callers that match many keys use it as a budget. */
  steps: number
}

/** A literal character or a character set. */
type Part = number | CharacterSet
interface CharacterSet {
  isNegated: boolean
  /** Sorted and disjoint. */
  ranges: readonly Range[]
}
type Range = readonly [from: number, to: number]

const bits = 32
const anyCharacter: CharacterSet = { isNegated: true, ranges: [] }

export function createMatcher(pattern: string): Matcher {
  const { parts, isLoose } = partsOf(Array.from(pattern, character => character.codePointAt(0)!))
  const words = Math.floor(parts.length / bits) + 1
  /** Bit n: the first n parts match. */
  const state = new Uint32Array(words)
  /** Bit n: a `*` is at this position and accepts any character. */
  const loose = bitsWhere(words, isLoose)
  const masks = createMasks(parts, words)
  const [endWord, endBit] = [Math.floor(parts.length / bits), 1 << (parts.length % bits)]
  const isOpenEnded = isLoose[parts.length] === true
  const isAtEnd = () => (state[endWord]! & endBit) !== 0

  function take(mask: Uint32Array): boolean {
    let carry = 0
    let alive = 0
    for (let word = 0; word < words; word++) {
      const was = state[word]!
      const now = (((was << 1) | carry) & mask[word]!) | (was & loose[word]!)
      carry = was >>> 31
      state[word] = now
      alive |= now
    }
    matcher.steps += words
    return alive !== 0
  }

  const matcher: Matcher = {
    steps: 0,
    matches(key) {
      state.fill(0)
      state[0] = 1
      for (let at = 0; at < key.length; ) {
        if (isOpenEnded && isAtEnd()) return true
        const character = key.codePointAt(at)!
        at += character > 0xffff ? 2 : 1
        if (!take(masks.of(character, matcher))) return false
      }
      return isAtEnd()
    },
  }
  return matcher
}

/** Transitions per character class, computed when the class first occurs. */
function createMasks(parts: readonly Part[], words: number) {
  const sets: [CharacterSet, number][] = []
  const places = new Map<number, number[]>()
  for (const [place, part] of parts.entries())
    if (typeof part !== 'number') sets.push([part, place])
    else if (!places.get(part)?.push(place)) places.set(part, [place])
  /** The boundaries of the character classes. */
  const ranges = [
    ...sets.flatMap(([set]) => set.ranges),
    ...[...places.keys()].map(one => [one, one] as const),
  ]
  const edges = [...new Set([0, ...ranges.flatMap(([from, to]) => [from, to + 1])])].sort((a, b) => a - b)
  const known: (Uint32Array | undefined)[] = []

  return {
    of(character: number, work: { steps: number }): Uint32Array {
      const kind = lastAtMost(edges, character)
      const found = known[kind]
      if (found) return found
      const mask = new Uint32Array(words)
      const mark = (place: number) => {
        mask[Math.floor((place + 1) / bits)]! |= 1 << ((place + 1) % bits)
      }
      for (const place of places.get(character) ?? []) mark(place)
      for (const [set, place] of sets) if (isIn(set, character)) mark(place)
      work.steps += words + sets.length
      known[kind] = mask
      return mask
    },
  }
}

function bitsWhere(words: number, isSet: readonly boolean[]): Uint32Array {
  const all = new Uint32Array(words)
  for (const [place, is] of isSet.entries()) if (is) all[Math.floor(place / bits)]! |= 1 << (place % bits)
  return all
}

function isIn({ isNegated, ranges }: CharacterSet, character: number): boolean {
  const range = ranges[lastAtMost(ranges, character, ([from]) => from)]
  return (range !== undefined && character <= range[1]) !== isNegated
}

/** Binary search; -1 if all are larger. */
function lastAtMost<T>(
  sorted: readonly T[],
  limit: number,
  numberOf: (item: T) => number = item => item as number,
): number {
  let low = 0
  let high = sorted.length
  while (low < high) {
    const middle = (low + high) >>> 1
    if (numberOf(sorted[middle]!) <= limit) low = middle + 1
    else high = middle
  }
  return low - 1
}

const codes = { star: 42, question: 63, open: 91, close: 93, backslash: 92, caret: 94, hyphen: 45 }

/** `isLoose[n]`: a `*` precedes part n. */
function partsOf(pattern: readonly number[]): { parts: Part[]; isLoose: boolean[] } {
  const parts: Part[] = []
  const isLoose: boolean[] = []
  for (let at = 0; at < pattern.length; at++) {
    const character = pattern[at]!
    if (character === codes.star) isLoose[parts.length] = true
    else if (character === codes.question) parts.push(anyCharacter)
    else if (character === codes.open) {
      const { set, end } = setFrom(pattern, at + 1)
      parts.push(set)
      at = end
    } else if (character === codes.backslash && at + 1 < pattern.length) parts.push(pattern[++at]!)
    else parts.push(character)
  }
  return { parts, isLoose }
}

/** As in Redis, an unclosed set ends with the pattern. */
function setFrom(pattern: readonly number[], start: number): { set: CharacterSet; end: number } {
  const isNegated = pattern[start] === codes.caret
  const ranges: Range[] = []
  let at = isNegated ? start + 1 : start
  while (at < pattern.length && pattern[at] !== codes.close) {
    const isEscaped = pattern[at] === codes.backslash && at + 1 < pattern.length
    const from = pattern[isEscaped ? ++at : at]!
    const isRange = !isEscaped && pattern[at + 1] === codes.hyphen && at + 2 < pattern.length
    if (isRange) at += 2
    const to = isRange ? pattern[at]! : from
    ranges.push(from <= to ? [from, to] : [to, from])
    at++
  }
  return { set: { isNegated, ranges: merged(ranges) }, end: at }
}

function merged(ranges: readonly Range[]): Range[] {
  const apart: [number, number][] = []
  for (const [from, to] of ranges.toSorted(([a], [b]) => a - b)) {
    const last = apart.at(-1)
    if (last && from <= last[1] + 1) last[1] = Math.max(last[1], to)
    else apart.push([from, to])
  }
  return apart
}
