/** A pause that can be cut short; a ring while nobody pauses cuts the next one. */
export interface Bell {
  ring(): void
  orAfter(ms: number): Promise<void>
}

export function createBell(): Bell {
  let ringing: (() => void) | undefined
  let isRung = false
  return {
    ring() {
      isRung = true
      ringing?.()
    },
    async orAfter(ms) {
      if (!isRung)
        await new Promise<void>(resolve => {
          const timer = setTimeout(resolve, ms)
          ringing = () => {
            clearTimeout(timer)
            resolve()
          }
        })
      ringing = undefined
      isRung = false
    },
  }
}
