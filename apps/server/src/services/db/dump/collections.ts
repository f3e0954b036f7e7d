// Sorts and groups hundreds of thousands of items in slices.
import type { Sliced } from '#src/kernel/slices.ts'

/** Units of work in one slice: an item, an edge, a column. */
export const sliceUnits = 1000

/** Counts units of work. It returns true when the slice is complete, and the caller yields. */
export function sliceCounter(): (units?: number) => boolean {
  let done = 0
  return (units = 1) => {
    done += units
    if (done < sliceUnits) return false
    done = 0
    return true
  }
}

/** `flatMap` in slices. */
export function* collect<T, R>(items: Iterable<T>, partsOf: (item: T) => readonly R[]): Sliced<R[]> {
  const isComplete = sliceCounter()
  const collected: R[] = []
  for (const item of items) {
    if (isComplete()) yield
    for (const part of partsOf(item)) {
      if (isComplete()) yield
      collected.push(part)
    }
  }
  return collected
}

/** `Map.groupBy` in slices. */
export function* groupBy<T>(items: Iterable<T>, keyOf: (item: T) => string): Sliced<Map<string, T[]>> {
  const isComplete = sliceCounter()
  const groups = new Map<string, T[]>()
  for (const item of items) {
    if (isComplete()) yield
    const key = keyOf(item)
    const group = groups.get(key)
    if (group) group.push(item)
    else groups.set(key, [item])
  }
  return groups
}

/** `toSorted` in slices: sorted runs are merged in pairs. */
export function* sorted<T>(items: readonly T[], compare: (a: T, b: T) => number): Sliced<T[]> {
  let runs: T[][] = []
  for (let at = 0; at < items.length; at += sliceUnits) {
    yield
    runs.push(items.slice(at, at + sliceUnits).sort(compare))
  }
  while (runs.length > 1) {
    const merged: T[][] = []
    for (let at = 0; at < runs.length; at += 2)
      merged.push(yield* mergeRuns(runs[at]!, runs[at + 1] ?? [], compare))
    runs = merged
  }
  return runs[0] ?? []
}

function* mergeRuns<T>(one: readonly T[], other: readonly T[], compare: (a: T, b: T) => number): Sliced<T[]> {
  const isComplete = sliceCounter()
  const merged: T[] = []
  let [left, right] = [0, 0]
  while (left < one.length || right < other.length) {
    if (isComplete()) yield
    const isLeft = right === other.length || (left < one.length && compare(one[left]!, other[right]!) <= 0)
    merged.push(isLeft ? one[left++]! : other[right++]!)
  }
  return merged
}
