// Auth events stay in the outbox as an audit record until an administrator prunes them.
import type { Log } from '#src/kernel/log.ts'
import type { Databases } from '#src/tenancy/databases.ts'
import type { Directory } from '#src/tenancy/directory.ts'
import { deleteEventsBefore } from './events-store.ts'

const concurrency = 4
/** Suspending a project closes its connections, which ends the statement: at once, and again when the poll reports it. */
const attempts = 3

/** Returns the number of deleted events. Logs and skips a project whose database fails, so that the next run retries it. */
export function createPruneEvents(databases: Databases, directory: Pick<Directory, 'find'>, log: Log) {
  async function pruneOne(id: string, days: number, left = attempts): Promise<number> {
    try {
      const tenant = await directory.find(id)
      return tenant ? await deleteEventsBefore(databases, tenant, days) : 0
    } catch (error) {
      if (left > 1) return pruneOne(id, days, left - 1)
      log.error({ err: error, project: id }, 'pruning the auth events of a project failed')
      return 0
    }
  }

  return async (projectIds: readonly string[], days: number): Promise<number> => {
    const left = [...projectIds]
    let deleted = 0
    const work = async () => {
      for (let id = left.pop(); id !== undefined; id = left.pop()) {
        // `deleted += await …` would read `deleted` before the await and lose the counts of concurrent workers.
        const count = await pruneOne(id, days)
        deleted += count
      }
    }
    await Promise.all(Array.from({ length: concurrency }, work))
    return deleted
  }
}
