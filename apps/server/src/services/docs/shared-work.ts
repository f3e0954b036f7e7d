/**
 * Runs the work once at a time. Callers that arrive during a run share the next run, so that their result is never older than
 * their call.
 */
export function sharedWork<T>(work: (key: string) => Promise<T>): (key: string) => Promise<T> {
  const running = new Map<string, Promise<T>>()
  const waiting = new Map<string, Promise<T>>()

  function start(key: string): Promise<T> {
    const started = work(key).finally(() => running.delete(key))
    running.set(key, started)
    return started
  }

  return key => {
    const current = running.get(key)
    if (!current) return start(key)
    const existing = waiting.get(key)
    if (existing) return existing
    const next = current
      .catch(() => {})
      .then(() => {
        waiting.delete(key)
        return start(key)
      })
    waiting.set(key, next)
    return next
  }
}
