// Writes one audit entry for every successful write, and for reads that reveal secrets. A failure is logged and does not
// undo the request, as the specification allows.
import type { AuditAction } from '@plinth/contract/route.ts'
import type { Log } from '#src/kernel/log.ts'
import type { Database } from '#src/kernel/postgres/database.ts'
import { sql } from '#src/kernel/postgres/sql.ts'
import type { Actor } from './actor.ts'

export interface AuditRecord {
  actor: Actor
  action: AuditAction
  target: string | null
  projectId: string | null
  ip: string
  requestId: string
  /** What happened, as a sentence. */
  details?: string
}
export type Audit = (record: AuditRecord) => Promise<void>

export const createAudit =
  (control: Database, log: Log): Audit =>
  async ({ actor, action, target, projectId, ip, requestId, details = null }) => {
    const [id, label] = nameOf(actor)
    await control
      .run(sql`
        insert into audit (actor_kind, actor_id, actor_label, action, target, project_id, ip, request_id, details)
        values (${actor.kind}, ${id}, ${label}, ${action}, ${target}, ${projectId}, ${ip}, ${requestId}, ${details})`)
      .catch(error => log.error({ err: error, action, id: requestId }, 'could not write an audit entry'))
  }

function nameOf(actor: Actor): [string | null, string] {
  switch (actor.kind) {
    case 'user':
      return [actor.id, actor.email]
    case 'token':
      return [actor.id, actor.name]
    case 'admin_token':
      return [null, 'admin token']
    case 'anonymous':
      return [null, 'anonymous']
  }
}
