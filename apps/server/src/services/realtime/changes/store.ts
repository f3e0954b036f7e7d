// The statements of the feed, on the one connection that listens to a project. What is judged goes through the gate.
import type { Cell } from '#src/kernel/postgres/wire/unit.ts'
import type { Listener } from '#src/tenancy/listeners.ts'
import type { ChangeEvent } from '../subscriber.ts'

/** Payloads beyond this are told by their key only. */
const payloadBytes = 7900
export const batchRows = 500
/** How long a node's word that it listens is good. */
export const listeningSeconds = 30

export interface NotedChange {
  readonly id: string
  readonly relid: string
  readonly event: ChangeEvent
  /** ISO 8601. */
  readonly at: string
  readonly isOversized: boolean
  /** JSON text of the rows; absent where the event has none, or it is oversized. */
  readonly new: string | undefined
  readonly old: string | undefined
  /** The same as they are judged. */
  readonly newRow: string | undefined
  readonly oldRow: string | undefined
}

/** Where a reader stands: what the snapshot shows is read, and of what has come since, all up to a place. */
export interface Cursor {
  readonly seen: string
  /** Of an answer that was full: what was visible then, and the last of it. */
  readonly upTo?: {
    readonly snapshot: string
    readonly at: string
    readonly xid: string
    readonly id: string
  }
}

export interface Reading {
  readonly cursor: Cursor
  readonly changes: NotedChange[]
  /** Whether there is more that was visible already. */
  readonly isFull: boolean
  /** How many tables this node is registered to listen to. */
  readonly registered: number
  /** Moves on with every change of the schema. */
  readonly catalogVersion: string
}

const events: Record<string, ChangeEvent> = { I: 'INSERT', U: 'UPDATE', D: 'DELETE' }

/**
 * Transaction by transaction, so that one with a million rows costs each look no more than the rows it takes: the inner limit is
 * what makes Postgres walk the index rather than sort the whole transaction every time.
 */
const readChanges = `
  with recursive noted (xid) as (
    (select n.xid from platform.changes n where n.xid >= pg_snapshot_xmin($1::pg_snapshot) order by n.xid limit 1)
    union all
    select (select n.xid from platform.changes n where n.xid > p.xid order by n.xid limit 1) from noted p where p.xid is not null
  ), fresh as (
    select f.xid, coalesce(
             case when current_setting('track_commit_timestamp') = 'on' then pg_xact_commit_timestamp(f.xid::xid) end,
             (select n.at from platform.changes n where n.xid = f.xid order by n.id limit 1)) as moment
      from noted f
     where f.xid is not null and not pg_visible_in_snapshot(f.xid, $1::pg_snapshot)
       and ($3::pg_snapshot is null or pg_visible_in_snapshot(f.xid, $3::pg_snapshot))
  )
  select s.snapshot::text, s.registered, s.version, c.id, c.relid, c.kind, c.told_at, c.moment::text, c.xid, c.is_oversized,
         case when not c.is_oversized then c.new end, case when not c.is_oversized then c.old end,
         case when not c.is_oversized then c.new_row end, case when not c.is_oversized then c.old_row end
    from (
      select pg_current_snapshot() as snapshot,
             (select count(*) from platform.listening l where l.node = $2::uuid and l.until > clock_timestamp()) as registered,
             (select max(v.version) from platform.catalog_version v) as version
    ) s
    left join lateral (
      select d.*, t.moment, to_char(t.moment at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"') as told_at
        from (select * from fresh f
               where $4::timestamptz is null or (f.moment, f.xid) >= ($4::timestamptz, $5::xid8)
               order by f.moment, f.xid) t
       cross join lateral (
         select n.*, coalesce(octet_length(n.new), 0) + coalesce(octet_length(n.old), 0) > ${payloadBytes}
                  or (n.new is null and n.new_row is not null) or (n.old is null and n.old_row is not null) as is_oversized
           from platform.changes n
          where n.xid = t.xid and n.id > case when t.xid = $5::xid8 then $6::bigint else 0 end
          order by n.id limit ${batchRows}) d
       limit ${batchRows}
    ) c on true`

const snapshotNow = 'select pg_current_snapshot()::text'

const oversizedRow =
  'select c.new, c.new_row, c.old_row, c.is_large from platform.changes c where c.id = $1::bigint'

const registerTables = `
  insert into platform.listening (relid, node, until)
  select relid, $2::uuid, clock_timestamp() + interval '${listeningSeconds} seconds' from unnest($1::oid[]) relid
  on conflict (relid, node) do update set until = excluded.until`
const unregisterOthers =
  'delete from platform.listening where (node = $2::uuid and relid <> all ($1::oid[])) or until < clock_timestamp()'
const othersListen =
  'select from platform.listening where node <> $1::uuid and until > clock_timestamp() limit 1'
/** What everybody has had the time to read. */
const forgetChanges = `
  delete from platform.changes
   where xid < pg_snapshot_xmax($1::pg_snapshot) and pg_visible_in_snapshot(xid, $1::pg_snapshot)`

/** Base tables by schema and name, or all of a schema, or all; with what has to be done to their triggers. */
const findTables = `
  select c.oid::text, n.nspname, c.relname, coalesce(t.cdc_enabled, true),
         exists (select from pg_trigger g where g.tgrelid = c.oid and g.tgname = 'plinth_insert' and g.tgenabled <> 'D')
    from pg_class c join pg_namespace n on n.oid = c.relnamespace
    left join platform.realtime_tables t on t.relid = c.oid
   where c.relkind in ('r', 'p')
     and (n.nspname = 'public' and exists (
            select from json_to_recordset($1::json) as w ("schema" text, "table" text)
             where w."schema" in (n.nspname, '*') and (w."table" is null or w."table" in (c.relname, '*')))
          or c.oid = to_regclass('realtime.messages'))`

const changedTables = 'select relid::text, facts from platform.changed_tables($1::oid[])'

export interface FoundTable {
  relid: string
  schema: string
  name: string
  isWanted: boolean
  isEnabled: boolean
}

export interface Column {
  name: string
  /** As it is written in SQL. */
  type: string
  /** Whether equal values are the same JSON. */
  isPlain: boolean
  /** Worked out whenever it is read: nothing of it is noted. */
  isVirtual: boolean
  /** Whether the role may select it. */
  anon: boolean
  authenticated: boolean
}

export interface TableFacts {
  schema: string
  name: string
  isSecured: boolean
  isPublic: boolean
  isCaptured: boolean
  key: string[]
  columns: Column[]
  /** Whether the role may use the schema. */
  anon: boolean
  authenticated: boolean
}

const text = (cell: Cell | undefined): string | undefined => cell?.toString('utf8')
const list = (values: readonly string[]) => `{${values.join(',')}}`
export function changesStore({ ask }: Listener, node: string) {
  return {
    snapshot: async (): Promise<string> => text((await ask(snapshotNow, []))[0]![0])!,

    async read({ seen, upTo }: Cursor): Promise<Reading> {
      const rows = await ask(readChanges, [
        seen,
        node,
        upTo?.snapshot ?? null,
        upTo?.at ?? null,
        upTo?.xid ?? null,
        upTo?.id ?? null,
      ])
      const [snapshot, registered, catalogVersion] = rows[0]!.slice(0, 3).map(text)
      const found = rows.filter(row => row[3] !== null)
      const changes = found.map(row => {
        const [id, relid, kind, at, , , isOversized, after, before, newRow, oldRow] = row.slice(3).map(text)
        return {
          id: id!,
          relid: relid!,
          event: events[kind!]!,
          at: at!,
          isOversized: isOversized === 't',
          new: after,
          old: before,
          newRow,
          oldRow,
        }
      })
      const last = found.at(-1)
      const visible = upTo?.snapshot ?? snapshot!
      const isFull = found.length === batchRows
      const cursor = isFull
        ? {
            seen,
            upTo: { snapshot: visible, at: text(last![7])!, xid: text(last![8])!, id: text(last![3])! },
          }
        : { seen: visible }
      return {
        cursor,
        changes,
        isFull: isFull || upTo !== undefined,
        registered: Number(registered),
        catalogVersion: catalogVersion!,
      }
    },

    /** The rows; of large ones their keys only. */
    async readOversized(id: string) {
      const [row] = await ask(oversizedRow, [id])
      if (!row) return
      const [after, newRow, oldRow, isLarge] = row.map(text)
      return { new: after, newRow, oldRow, isLarge: isLarge === 't' }
    },

    async register(relids: readonly string[]): Promise<void> {
      await ask(registerTables, [list(relids), node])
    },
    async unregisterOthers(relids: readonly string[]): Promise<void> {
      await ask(unregisterOthers, [list(relids), node])
    },
    /** Whether another node, or another feed of this one, reads the same outbox. */
    hasOthers: async (): Promise<boolean> => (await ask(othersListen, [node])).length > 0,
    async forget(snapshot: string): Promise<void> {
      await ask(forgetChanges, [snapshot])
    },

    async findTables(
      wanted: readonly { schema: string; table: string | undefined }[],
    ): Promise<FoundTable[]> {
      const rows = await ask(findTables, [JSON.stringify(wanted)])
      return rows.map(row => {
        const [relid, schema, name, isWanted, isEnabled] = row.map(text)
        return {
          relid: relid!,
          schema: schema!,
          name: name!,
          isWanted: isWanted === 't',
          isEnabled: isEnabled === 't',
        }
      })
    },

    async facts(relids: readonly string[]): Promise<Map<string, TableFacts>> {
      const rows = await ask(changedTables, [list(relids)])
      return new Map(rows.map(([relid, facts]) => [text(relid)!, JSON.parse(text(facts)!) as TableFacts]))
    },
  }
}

export type ChangesStore = ReturnType<typeof changesStore>
