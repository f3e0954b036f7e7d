/** A wait that `wake` ends early. A wake while nothing waits ends the next wait at once, so that none is missed. */
export interface WakeableTimer {
  wake(): void
  wait(ms: number): Promise<void>
}

export function createWakeableTimer(): WakeableTimer {
  let endWait: (() => void) | undefined
  let isWoken = false
  return {
    wake() {
      isWoken = true
      endWait?.()
    },
    async wait(ms) {
      if (!isWoken)
        await new Promise<void>(resolve => {
          const timer = setTimeout(resolve, ms)
          endWait = () => {
            clearTimeout(timer)
            resolve()
          }
        })
      endWait = undefined
      isWoken = false
    },
  }
}
