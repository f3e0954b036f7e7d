// The request of the operator to put a prepared copy in the place of its project. It is made in the database, by a program
// on the host, and not by a route: who can make it has the secrets of the platform.
import { orderedUuid } from '#src/kernel/ordered-uuid.ts'
import type { Session } from '#src/kernel/postgres/database.ts'
import * as store from './store.ts'

export interface CutoverTarget {
  id: string
  project_id: string
}

/** The platform finds the request within a second. Throws if there is no prepared copy. */
export async function requestCutover(control: Session, jobId: string): Promise<CutoverTarget> {
  const target = await store.startCutover(control, jobId, orderedUuid(), orderedUuid())
  if (target) {
    await store.insertAudit(control, 'pitr.cutover_requested', jobId, target.project_id)
    return target
  }
  const found = await store.findJob(control, jobId)
  if (!found) throw new Error(`There is no recovery ${jobId}; plinth pitr jobs shows the ids.`)
  if (found.status === 'cutting_over') return found
  throw new Error(`The recovery ${jobId} is ${found.status}; only a prepared one can be cut over.`)
}
