import type { Sliced } from '#src/kernel/slices.ts'

const itemsAtOnce = 2000

/** Merges sorted lists into one, two at a time. */
export function* mergeSorted<T>(lists: readonly T[][], compare: (a: T, b: T) => number): Sliced<T[]> {
  let left = lists
  while (left.length > 1) {
    const merged: T[][] = []
    for (let at = 0; at < left.length; at += 2)
      merged.push(yield* mergeTwo(left[at]!, left[at + 1] ?? [], compare))
    left = merged
  }
  return left[0] ?? []
}

function* mergeTwo<T>(a: readonly T[], b: readonly T[], compare: (a: T, b: T) => number): Sliced<T[]> {
  const merged: T[] = []
  let [atA, atB] = [0, 0]
  while (atA < a.length || atB < b.length) {
    const isFromA = atB === b.length || (atA < a.length && compare(a[atA]!, b[atB]!) <= 0)
    merged.push(isFromA ? a[atA++]! : b[atB++]!)
    if (merged.length % itemsAtOnce === 0) yield
  }
  return merged
}
