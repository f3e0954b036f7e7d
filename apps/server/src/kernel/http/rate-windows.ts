// Fixed windows of requests per key, in this process. A window begins with its first request and is forgotten
// after its end; nothing runs while nobody calls.

export interface Taken {
  /** Requests left in this window, or -1 when this one is over the limit. */
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

const tidyAt = 10_000

export function createRateWindows(): RateWindows {
  const windows = new Map<string, Window>()
  let tidyNext = tidyAt

  function tidy(now: number): void {
    for (const [key, window] of windows) if (window.endsAt <= now) windows.delete(key)
    tidyNext = Math.max(tidyAt, windows.size * 2)
  }

  return {
    take(key, limit, windowMs, now = performance.now()) {
      let window = windows.get(key)
      if (!window || window.endsAt <= now) {
        if (windows.size >= tidyNext) tidy(now)
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
