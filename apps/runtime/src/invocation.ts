// What the code of a function can know about the call it runs in. Several calls run at the same time, so nothing of this
// is in a global variable.
import { AsyncLocalStorage } from 'node:async_hooks'

export interface Invocation {
  readonly project: string
  readonly name: string
  readonly version: string
  /** Empty while the code is loaded. */
  readonly requestId: string
  readonly env: Map<string, string>
  /** Promises of `EdgeRuntime.waitUntil`. */
  readonly background: Set<Promise<unknown>>
}

const storage = new AsyncLocalStorage<Invocation>()

export const runIn = <T>(invocation: Invocation, work: () => T): T => storage.run(invocation, work)

export const currentInvocation = (): Invocation | undefined => storage.getStore()
