// The keys of a project in insertion order, each with a number that only grows. A number is a stateless scan cursor: the
// scan goes downwards, so the keys below the number are those not visited yet, and new keys cannot prolong the scan.

export interface Slots {
  /** Returns the number of the key. */
  add(key: string): number
  remove(number: number): void
  /** The number of slots below this number. */
  below(number: number): number
  /** The key in a slot, or undefined if it was removed. */
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
