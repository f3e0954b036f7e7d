// What the code of a function can know about the call it runs in. Several calls run at the same time, so nothing of this
// is in a global variable.
import { core } from './deno.ts'

export interface Invocation {
  readonly project: string
  readonly name: string
  readonly version: string
  /** Empty while the code is loaded. */
  readonly requestId: string
  readonly env: Map<string, string>
}

const current = new core.AsyncVariable<Invocation>()

/** The work, and everything that it waits for or starts, runs in this call. */
export function runIn<T>(invocation: Invocation, work: () => T): T {
  const before = current.enter(invocation)
  try {
    return work()
  } finally {
    core.setAsyncContext(before)
  }
}

export const currentInvocation = (): Invocation | undefined => current.get()
