// Ctrl-C ends the process at once, unless the command has something to clean up first.

const cleanUpMilliseconds = 5000
// A parent process that forwards signals sends a second one for the same key press.
const sameKeyMilliseconds = 500

/** Handles SIGINT from now on. Once the command asks for the abort signal, SIGTERM and SIGHUP abort it as well. */
export function watchSignals(): () => AbortSignal {
  let controller: AbortController | null = null
  let firstAt: number | null = null

  function interrupt(): void {
    const now = performance.now()
    const isSecond = firstAt !== null && now - firstAt > sameKeyMilliseconds
    if (!controller || isSecond) process.exit(130)
    if (firstAt !== null) return
    firstAt = now
    setTimeout(() => process.exit(130), cleanUpMilliseconds).unref()
    controller.abort()
  }

  process.on('SIGINT', interrupt)
  return () => {
    if (!controller) {
      controller = new AbortController()
      process.on('SIGTERM', interrupt)
      process.on('SIGHUP', interrupt)
    }
    return controller.signal
  }
}
