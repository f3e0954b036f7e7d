const pageSize = 100

/** Reads a whole list, one page at a time. */
export async function everyPage<T>(
  read: (page: { limit: number; offset: number }) => Promise<{ items: T[]; total: number }>,
): Promise<T[]> {
  const found: T[] = []
  for (;;) {
    const { items, total } = await read({ limit: pageSize, offset: found.length })
    found.push(...items)
    if (items.length === 0 || found.length >= total) return found
  }
}
