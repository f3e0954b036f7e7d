import { countRows } from '#src/kernel/metrics.ts'
import type { Database, Session } from '#src/kernel/postgres/database.ts'
import { sql } from '#src/kernel/postgres/sql.ts'
import type { Job } from '#src/kernel/worker-slots.ts'
import { type Databases, statement } from './databases.ts'
import type { Tenant } from './directory.ts'
import { type Cursor, leftRows, outboxReader } from './outbox-reading.ts'
import type { RelayedRows } from './outbox-relay.ts'

export interface OutboxEvent {
  readonly id: string
  readonly kind: string
  readonly payload: unknown
}

// In the project's database

const due = outboxReader({
  table: 'platform.events',
  time: 'created_at',
  where: 'n.is_due',
  facts: { has_left: leftRows('platform.events', 'o.is_due') },
  columns: { event_id: 'n.event_id', kind: 'n.kind', payload: 'n.payload' },
  batchRows: 200,
})
const selectDue = statement(due.sql, true)
const deleteById = statement('delete from platform.events where is_due and event_id = any($1::uuid[])', true)
const deleteVisible = statement(
  `delete from platform.events
    where is_due and xid < pg_snapshot_xmax($1::pg_snapshot) and pg_visible_in_snapshot(xid, $1::pg_snapshot)`,
  true,
)

export const insertEvent = (session: Session, { id, kind, payload }: OutboxEvent) =>
  session.run(sql`
    insert into platform.events (event_id, kind, payload, is_due)
    values (${id}, ${kind}, ${JSON.stringify(payload)}, true)`)

export async function readDue(
  databases: Pick<Databases, 'asService'>,
  tenant: Tenant,
  from: Cursor,
): Promise<RelayedRows<OutboxEvent>> {
  const ask = async (values: (string | null)[]) => (await databases.asService(tenant, selectDue, values)).rows
  const { cursor, rows, isFull, facts } = await due.read(from, [], ask)
  const events = rows.map(([id, kind, payload]) => ({ id: id!, kind: kind!, payload: JSON.parse(payload!) }))
  return { rows: events, cursor, isFull, hasLeft: facts[0] === 't' }
}

export const deleteEvents = (
  databases: Pick<Databases, 'asService'>,
  tenant: Tenant,
  events: readonly OutboxEvent[],
) => databases.asService(tenant, deleteById, [`{${events.map(({ id }) => id).join(',')}}`])

/** Deletes the due events that are visible in the snapshot. */
export const deleteSeen = (databases: Pick<Databases, 'asService'>, tenant: Tenant, seen: string) =>
  databases.asService(tenant, deleteVisible, [seen])

// In the control database

export interface ClaimedMark extends Job {
  /** Text of Postgres, because a JavaScript Date would lose the microseconds. */
  check_at: string
}

export const findCursor = async (control: Database, projectId: string): Promise<Cursor | undefined> =>
  (
    await control.row<{ position: Cursor }>(
      sql`select position from outbox_cursors where project_id = ${projectId}`,
    )
  )?.position

/** False if another node has moved the position. */
export const moveCursor = async (session: Session, projectId: string, from: Cursor | undefined, to: Cursor) =>
  (await session.run(
    from
      ? sql`update outbox_cursors set position = ${JSON.stringify(to)}
             where project_id = ${projectId} and position = ${JSON.stringify(from)}::jsonb`
      : sql`insert into outbox_cursors (project_id, position) values (${projectId}, ${JSON.stringify(to)})
            on conflict (project_id) do nothing`,
  )) === 1

export const mark = (control: Database, projectId: string, seconds: number) =>
  control.run(sql`
    insert into outbox_marks (project_id, check_at) values (${projectId}, now() + make_interval(secs => ${seconds}))
    on conflict (project_id) do update set check_at = excluded.check_at`)

/** Only active projects. Events of suspended projects wait. */
export const claimMarks = (control: Database, count: number, seconds: number) =>
  control.rows<ClaimedMark>(sql`
    update outbox_marks set check_at = now() + make_interval(secs => ${seconds})
     where project_id in (
       select m.project_id from outbox_marks m join projects p on p.id = m.project_id and p.status = 'active'
        where m.check_at <= now() order by m.check_at limit ${count} for update of m skip locked)
    returning project_id as id, project_id, check_at::text`)

export const nextMarkMs = async (control: Database): Promise<number | undefined> =>
  (
    await control.row<{ ms: number | null }>(sql`
      select (extract(epoch from min(m.check_at) - now()) * 1000)::float8 as ms
        from outbox_marks m join projects p on p.id = m.project_id and p.status = 'active'`)
  )?.ms ?? undefined

/** Projects whose outbox may have events. */
export const countMarks = (session: Session) => countRows(session, sql`select from outbox_marks`)

export const overdueSeconds = async (session: Session): Promise<number> =>
  (await session.row<{ seconds: number }>(sql`
    select greatest(0, coalesce(extract(epoch from now() - min(m.check_at)), 0))::float8 as seconds
      from outbox_marks m join projects p on p.id = m.project_id and p.status = 'active'`))!.seconds

/** Keeps the mark if a node has renewed it since. */
export const unmark = (control: Database, { project_id, check_at }: ClaimedMark) =>
  control.run(
    sql`delete from outbox_marks where project_id = ${project_id} and check_at = ${check_at}::timestamptz`,
  )
