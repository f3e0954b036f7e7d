// Verifications that run on this node. They come by themselves and must not keep backups and restores waiting, so only a few run
// at once. Functions of a project that run in its copy may never end, and the time limit can be days. So only one that takes
// long may run: a second one gives way, and projects that take long wait for the first. Others always have a place.

/** Another verification takes long here. Nothing is known about the backup. */
export class GaveWay extends Error {
  constructor() {
    super('another verification takes long')
    this.name = 'GaveWay'
  }
}

export interface VerificationPlaces {
  /** How many may begin. */
  left(): number
  /** Whether those of projects that take long wait. */
  isSlowOneRunning(): boolean
  /** The signal also aborts with GaveWay. */
  run<T>(signal: AbortSignal, verify: (signal: AbortSignal) => Promise<T>): Promise<T>
}

export function createVerificationPlaces(most: number, slowAfterMs: number): VerificationPlaces {
  let running = 0
  let slow: symbol | undefined

  return {
    left: () => Math.max(0, most - running),
    isSlowOneRunning: () => slow !== undefined,
    async run(signal, verify) {
      const own = Symbol('verification')
      const givingWay = new AbortController()
      const timer = setTimeout(() => {
        if (slow) givingWay.abort(new GaveWay())
        else slow = own
      }, slowAfterMs)
      running++
      try {
        return await verify(AbortSignal.any([signal, givingWay.signal]))
      } catch (error) {
        throw givingWay.signal.aborted ? givingWay.signal.reason : error
      } finally {
        clearTimeout(timer)
        running--
        if (slow === own) slow = undefined
      }
    },
  }
}
