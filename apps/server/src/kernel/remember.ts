/** Adds an entry to a map of bounded size. The entry that was added first is removed. */
export function remember<V>(entries: Map<string, V>, key: string, value: V, max: number): void {
  entries.delete(key)
  if (entries.size >= max) {
    const [oldest] = entries.keys()
    entries.delete(oldest!)
  }
  entries.set(key, value)
}
