// Databases that a reset has left because they could not be dropped at once: the state before, or a copy that was not completed.
import { withClient } from '#src/kernel/postgres/database.ts'
import { type Cluster, controlSettings } from '#src/tenancy/cluster.ts'
import { replacedOf, resetOf } from '#src/tenancy/provision.ts'
import * as store from './store.ts'

interface LeftDeps {
  cluster: Cluster
  dropCopy(database: string): Promise<void>
}

/** Skips branches that are being reset or deleted. */
export const dropLeft = (
  { cluster: { address, control }, dropCopy }: LeftDeps,
  signal: AbortSignal,
): Promise<void> =>
  withClient(
    address,
    control,
    controlSettings,
    async session => {
      for (const { id, ref } of await store.listWithCopies(session)) {
        signal.throwIfAborted()
        if (!(await store.tryLock(session, id))) continue
        try {
          // A reset may have begun since the list was read. It drops them itself.
          if (!(await store.hasTask(session, id)))
            for (const database of [resetOf(ref), replacedOf(ref)]) await dropCopy(database)
        } finally {
          await store.unlock(session, id)
        }
      }
    },
    { signal },
  )
