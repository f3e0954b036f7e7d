// What users did, kept for a while after it was told: the archive of auth events.
import type { Log } from '#src/kernel/log.ts'
import { sql } from '#src/kernel/postgres/sql.ts'
import type { Databases } from '#src/tenancy/databases.ts'
import type { Directory } from '#src/tenancy/directory.ts'

const atOnce = 4

/** Over all the projects given; one whose database does not answer is left for the next time. Returns how many went. */
export function createPruneEvents(databases: Databases, directory: Pick<Directory, 'find'>, log: Log) {
  async function pruneOne(id: string, days: number): Promise<number> {
    const tenant = await directory.find(id)
    if (!tenant) return 0
    return databases
      .auth(tenant)
      .run(sql`delete from auth.events where created_at < now() - make_interval(days => ${days})`)
  }

  return async (projectIds: readonly string[], days: number): Promise<number> => {
    const left = [...projectIds]
    let deleted = 0
    const work = async () => {
      for (let id = left.pop(); id !== undefined; id = left.pop()) {
        const gone = await pruneOne(id, days).catch(error => {
          log.error({ err: error, project: id }, 'the auth events of a project could not be pruned')
          return 0
        })
        deleted += gone
      }
    }
    await Promise.all(Array.from({ length: atOnce }, work))
    return deleted
  }
}
