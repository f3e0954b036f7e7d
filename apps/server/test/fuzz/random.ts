// Pseudo-random numbers that depend only on the seed.

export interface Random {
  /** An integer from low to high, inclusive. */
  int(low: number, high: number): number
  chance(probability: number): boolean
  pick<T>(from: readonly T[]): T
  /** Up to `count` different elements in random order. */
  sample<T>(from: readonly T[], count: number): T[]
  hex(digits: number): string
}

export function createRandom(seed: string): Random {
  let state = hash(seed)
  // A counter with a mixed output, so that no seed has a short cycle.
  const next = (): number => {
    state = (state + 0x9e3779b1) >>> 0
    let mixed = state
    for (const factor of [0x2c1b3c6d, 0x297a2d39]) mixed = Math.imul(mixed ^ (mixed >>> 15), factor)
    return (mixed ^ (mixed >>> 16)) >>> 0
  }
  const int = (low: number, high: number) => low + (next() % (high - low + 1))
  const pick = <T>(from: readonly T[]): T => from[int(0, from.length - 1)]!
  return {
    int,
    pick,
    chance: probability => next() < probability * 2 ** 32,
    sample(from, count) {
      const left = [...from]
      const taken = []
      while (taken.length < count && left.length > 0) taken.push(...left.splice(int(0, left.length - 1), 1))
      return taken
    },
    hex: digits => Array.from({ length: digits }, () => int(0, 15).toString(16)).join(''),
  }
}

function hash(text: string): number {
  let sum = 0x811c9dc5
  for (const byte of Buffer.from(text)) sum = Math.imul(sum ^ byte, 0x01000193)
  return sum >>> 0
}
