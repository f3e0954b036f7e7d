// A rate limiter with fixed windows per key, in this process. A window begins with its first request. Ended windows are
// removed during later requests, so no timer runs.

export interface Taken {
  /** Requests left in this window, or -1 if this one exceeds the limit. */
  remaining: number
  /** Whole seconds until the window ends. */
  retryAfterSeconds: number
}

export interface RateWindows {
  take(key: string, limit: number, windowMs: number, now?: number): Taken
}

interface Window {
  count: number
  endsAt: number
}

const minSweepSize = 10_000

export function createRateWindows(): RateWindows {
  const windows = new Map<string, Window>()
  let nextSweepSize = minSweepSize

  function sweep(now: number): void {
    for (const [key, window] of windows) if (window.endsAt <= now) windows.delete(key)
    nextSweepSize = Math.max(minSweepSize, windows.size * 2)
  }

  return {
    take(key, limit, windowMs, now = performance.now()) {
      let window = windows.get(key)
      if (!window || window.endsAt <= now) {
        if (windows.size >= nextSweepSize) sweep(now)
        window = { count: 0, endsAt: now + windowMs }
        windows.set(key, window)
      }
      const isOver = window.count >= limit
      if (!isOver) window.count++
      return {
        remaining: isOver ? -1 : limit - window.count,
        retryAfterSeconds: Math.max(1, Math.ceil((window.endsAt - now) / 1000)),
      }
    },
  }
}
