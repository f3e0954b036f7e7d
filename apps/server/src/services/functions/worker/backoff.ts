// How long a project whose worker crashes must wait before the next start.
export interface BackoffSettings {
  startMs: number
  capMs: number
  /** After a worker has run for this long, the next pause is the first one again. */
  resetMs: number
}

interface Crashes {
  count: number
  until: number
}

export class Backoff {
  readonly #settings: BackoffSettings
  readonly #crashes = new Map<string, Crashes>()

  constructor(settings: BackoffSettings) {
    this.#settings = settings
  }

  /** Milliseconds to wait, or 0. */
  pauseOf(key: string, now: number): number {
    return Math.max(0, (this.#crashes.get(key)?.until ?? 0) - now)
  }

  crashed(key: string, ranMs: number, now: number): void {
    const { startMs, capMs, resetMs } = this.#settings
    for (const [each, { until }] of this.#crashes) if (until + resetMs < now) this.#crashes.delete(each)
    const count = ranMs >= resetMs ? 1 : (this.#crashes.get(key)?.count ?? 0) + 1
    this.#crashes.set(key, { count, until: now + Math.min(capMs, startMs * 2 ** (count - 1)) })
  }

  reset(key: string): void {
    this.#crashes.delete(key)
  }
}

/** Crashes of code that was replaced do not count. */
export const crashKey = (key: string, fingerprint: string) => `${key} ${fingerprint}`
