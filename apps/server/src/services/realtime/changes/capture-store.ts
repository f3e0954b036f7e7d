import type { Database, OwnSession } from '#src/kernel/postgres/database.ts'
import { sql } from '#src/kernel/postgres/sql.ts'

// In the control database: leases of projects whose databases may have enabled capture triggers

export const renewCapture = async (control: Database, id: string): Promise<void> => {
  await control.run(sql`
    insert into realtime_captures (project_id, until) select ${id}, now() + interval '60 seconds'
    on conflict (project_id) do update set until = excluded.until`)
}

/** Projects whose lease no node renews any more. */
export const listExpiredCaptures = (control: Database) =>
  control.rows<{ id: string; ref: string }>(sql`
    select p.id, p.ref from realtime_captures c join projects p on p.id = c.project_id
     where c.until < now() and p.status in ('active', 'suspended')`)

export const deleteExpiredCapture = (control: Database, id: string) =>
  control.run(sql`delete from realtime_captures where project_id = ${id} and until < now()`)

// In the project's database

export interface TriggerMismatch {
  oid: string
  name: string
  isWanted: boolean
  isAttached: boolean
}

const triggerMismatches = sql`
  select * from (
    select c.oid::text, c.oid::regclass::text as name,
           coalesce(t.cdc_enabled, true) and exists (
             select from platform.listening l where l.relid = c.oid and l.until > clock_timestamp()) as "isWanted",
           count(g.oid) = 3 as "isAttached",
           count(g.oid) filter (where g.tgenabled <> 'D') as enabled
      from pg_class c
      left join platform.realtime_tables t on t.relid = c.oid
      left join pg_trigger g on g.tgrelid = c.oid and g.tgname in ('plinth_insert', 'plinth_update', 'plinth_delete')
     where c.relkind in ('r', 'p')
       and (c.relnamespace = to_regnamespace('public') or c.oid = to_regclass('realtime.messages') or g.oid is not null)
     group by c.oid, t.cdc_enabled) s
   where enabled <> case when "isWanted" then 3 else 0 end`

/** Tables whose triggers are enabled and should be disabled, or the other way round. */
export const listTriggerMismatches = (session: OwnSession) => session.rows<TriggerMismatch>(triggerMismatches)

export const serverVersion = async (session: OwnSession): Promise<number> =>
  (await session.row<{ version: number }>(sql`select current_setting('server_version_num')::int as version`))!
    .version

export const lockCaptures = (session: OwnSession) =>
  session.run(sql`select pg_advisory_lock(hashtext('plinth: capture'))`)

export const attachCapture = (session: OwnSession, oid: string) =>
  session.run(sql`select platform.attach_capture(${oid}::oid)`)
