// Lets callers share the result of costly reading. One reading runs at a time, however slow it is.

export interface SharedReading<T> {
  /** The result of the reading that runs, or of the last one if it is recent. */
  get(): Promise<T>
  /** Results of readings that have begun before are not used from now on. */
  expire(): void
}

export function sharedReading<T>(read: () => Promise<T>, recentMs: number): SharedReading<T> {
  let last: { result: Promise<T>; endedAt: number | undefined; isExpired: boolean } | undefined
  let next: Promise<T> | undefined

  function begin(): Promise<T> {
    const reading: NonNullable<typeof last> = { result: read(), endedAt: undefined, isExpired: false }
    last = reading
    reading.result.then(
      () => {
        reading.endedAt = performance.now()
      },
      () => {
        // The failure may be over at the next call.
        reading.endedAt = Number.NEGATIVE_INFINITY
      },
    )
    return reading.result
  }

  return {
    get() {
      if (!last) return begin()
      const { result, endedAt, isExpired } = last
      if (endedAt === undefined && !isExpired) return result
      if (endedAt !== undefined)
        return !isExpired && performance.now() - endedAt < recentMs ? result : begin()
      next ??= result
        .then(
          () => {},
          () => {},
        )
        .then(() => {
          next = undefined
          return begin()
        })
      return next
    },
    expire() {
      if (last) last.isExpired = true
    },
  }
}
