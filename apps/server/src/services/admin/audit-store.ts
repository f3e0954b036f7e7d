import type { AuditEntry } from '@plinth/contract/admin.ts'
import type { Database } from '#src/kernel/postgres/database.ts'
import { allOf, sql } from '#src/kernel/postgres/sql.ts'
import type { Paging } from '#src/planes/management/paging.ts'
import { opensWayBack } from '#src/tenancy/instance-cutover.ts'

export interface AuditFilter {
  action?: string
  project_id?: string
  from?: string
  to?: string
}

const entry = sql`
  id::text as id, at, action, target, details, project_id::text as project_id, ip, request_id,
  json_build_object('kind', actor_kind, 'id', actor_id, 'label', actor_label) as actor`

const matching = ({ action, project_id, from, to }: AuditFilter) =>
  allOf([
    ...(action ? [sql`action = ${action}`] : []),
    ...(project_id ? [sql`project_id = ${project_id}`] : []),
    ...(from ? [sql`at >= ${from}`] : []),
    ...(to ? [sql`at < ${to}`] : []),
  ])

export async function listEntries(control: Database, filter: AuditFilter, { limit, offset }: Paging) {
  const [rows, count] = await Promise.all([
    control.rows<AuditEntry>(
      sql`select ${entry} from audit where ${matching(filter)} order by audit.at desc, audit.id desc limit ${limit} offset ${offset}`,
    ),
    control.row<{ total: number }>(sql`select count(*)::int as total from audit where ${matching(filter)}`),
  ])
  return { rows, total: count?.total ?? 0 }
}

/** Cursor of an export. The id alone is not enough, because concurrent transactions get ids in any order. */
export interface AuditPosition {
  at: string
  id: string
}

/** The next entries after a position, oldest first, each with its own position. */
export const entriesAfter = (
  control: Database,
  filter: AuditFilter,
  { at, id }: AuditPosition,
  upTo: string,
  limit: number,
) =>
  control.rows<AuditEntry & { position: AuditPosition }>(sql`
    select ${entry}, json_build_object('at', at::text, 'id', id::text) as position from audit
     where ${matching(filter)} and (audit.at, audit.id) > (${at}::timestamptz, ${id}::bigint)
       and audit.id <= ${upTo}::bigint
     order by audit.at, audit.id limit ${limit}`)

export const newestEntryId = async (control: Database) =>
  (await control.row<{ id: string }>(sql`select coalesce(max(id), 0)::text as id from audit`))!.id

export const deleteOlderThan = (control: Database, days: number) =>
  control.run(sql`
    delete from audit where at < now() - make_interval(days => ${days}) and not (${opensWayBack})`)
