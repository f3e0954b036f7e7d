// The keys of a project in the order they came in, each under a number that only grows. A number is a place to go on
// from, downwards, that needs no memory of who asked: whatever came and went since, the keys below it are those still to
// be seen, and there is an end to them.

export interface Slots {
  /** The number the key now has. */
  add(key: string): number
  remove(number: number): void
  /** How many places there are with numbers below this one. */
  below(number: number): number
  /** The key at a place, or undefined where one has gone. */
  keyAt(place: number): string | undefined
  numberAt(place: number): number
  readonly length: number
}

const fewGaps = 64

export function createSlots(): Slots {
  let numbers: number[] = []
  let keys: (string | undefined)[] = []
  let last = 0
  let gaps = 0

  function below(number: number): number {
    let low = 0
    let high = numbers.length
    while (low < high) {
      const middle = (low + high) >>> 1
      if (numbers[middle]! < number) low = middle + 1
      else high = middle
    }
    return low
  }

  function closeGaps(): void {
    numbers = numbers.filter((_, place) => keys[place] !== undefined)
    keys = keys.filter(key => key !== undefined)
    gaps = 0
  }

  return {
    add(key) {
      numbers.push(++last)
      keys.push(key)
      return last
    },
    remove(number) {
      keys[below(number)] = undefined
      gaps++
      if (gaps > fewGaps && gaps > keys.length / 2) closeGaps()
    },
    below,
    keyAt: place => keys[place],
    numberAt: place => numbers[place]!,
    get length() {
      return keys.length
    },
  }
}
