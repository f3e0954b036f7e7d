/** Whether a JSON value holds more values than this, itself and containers included. Stops as soon as it knows. */
export function hasMoreValues(value: unknown, limit: number): boolean {
  const pending: unknown[] = [value]
  for (let count = 1; pending.length > 0; ) {
    const next = pending.pop()
    if (typeof next !== 'object' || next === null) continue
    const inner = Object.values(next)
    count += inner.length
    if (count > limit) return true
    for (const each of inner) pending.push(each)
  }
  return limit < 1
}
