// A few at a time; the rest wait in line.
import { retryLater } from './errors.ts'

export type Turns = <T>(work: () => Promise<T>) => Promise<T>

export function createTurns(places: number): Turns {
  const turns = new Line(places, Number.POSITIVE_INFINITY)
  return work => turns.take(work)
}

/** A line for each of many, so that whoever sends much waits for itself. */
export function createTurnsByOwner(places: number, maxWaiting: number) {
  const lines = new Map<string, Line>()
  return async <T>(whose: string, work: () => Promise<T>): Promise<T> => {
    const line = lines.get(whose) ?? new Line(places, maxWaiting)
    lines.set(whose, line)
    try {
      return await line.take(work)
    } finally {
      if (line.isEmpty) lines.delete(whose)
    }
  }
}

class Line {
  #underWay = 0
  readonly #places: number
  readonly #maxWaiting: number
  readonly #waiting: (() => void)[] = []

  constructor(places: number, maxWaiting: number) {
    this.#places = places
    this.#maxWaiting = maxWaiting
  }

  get isEmpty(): boolean {
    return this.#underWay === 0
  }

  async take<T>(work: () => Promise<T>): Promise<T> {
    if (this.#waiting.length >= this.#maxWaiting)
      throw retryLater(
        'pool_exhausted',
        'Too many requests of this kind are waiting; try again in a second',
        1,
      )
    if (this.#underWay < this.#places) this.#underWay++
    else await new Promise<void>(resolve => this.#waiting.push(resolve))
    try {
      return await work()
    } finally {
      const next = this.#waiting.shift()
      if (next) next()
      else this.#underWay--
    }
  }
}
