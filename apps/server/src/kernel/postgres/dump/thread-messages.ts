// What the platform and a thread that runs pg_dump pass to each other.
import type { PinnedModule } from './pinned-module.ts'
import type { RingMemory } from './ring.ts'

/** Of pg_dump. A schema with as many objects and texts as a backup may have needs less. */
export const maxMemoryBytes = 2 ** 28

export interface ThreadInput {
  module: PinnedModule
  /** The bytes from the server. */
  ring: RingMemory
  args: readonly string[]
  /** How long the dump may be. */
  maxBytes: number
}

export type FromThread =
  /** For the server. */
  | { readonly kind: 'send'; readonly bytes: Uint8Array }
  /** The full ring has space again. */
  | { readonly kind: 'space' }
  | { readonly kind: 'done'; readonly dump: ArrayBuffer }
  | { readonly kind: 'failed'; readonly message: string }
