// The statements of the feed, on its own connection. Policy checks use other connections (policy-check-pools.ts).
import type { Cell } from '#src/kernel/postgres/wire/unit.ts'
import { type Cursor, outboxReader } from '#src/tenancy/outbox-reading.ts'
import type { ChangeEvent } from '../subscriber.ts'
import type { FeedConnection } from './feed-connections.ts'

/** Larger changes are delivered with their key only. */
const maxPayloadBytes = 7900
export const batchRows = 500
/** How long a node's registration in platform.listening is valid without renewal. */
export const registrationSeconds = 30

export interface CapturedChange {
  readonly id: string
  readonly relid: string
  readonly event: ChangeEvent
  /** ISO 8601. */
  readonly at: string
  readonly isOversized: boolean
  /** JSON text of the rows. Undefined if the event has no such row, or the change is oversized. */
  readonly new: string | undefined
  readonly old: string | undefined
  /** The same rows in Postgres row syntax, for policy checks. */
  readonly newRow: string | undefined
  readonly oldRow: string | undefined
}

export interface OutboxBatch {
  readonly cursor: Cursor
  readonly changes: CapturedChange[]
  /** Whether more rows were visible than the batch holds. */
  readonly isFull: boolean
  /** Number of tables that this node is registered for. */
  readonly registered: number
  /** Increases with every schema change. */
  readonly catalogVersion: string
}

const events: Record<string, ChangeEvent> = { I: 'INSERT', U: 'UPDATE', D: 'DELETE' }

const size = 'coalesce(octet_length(n.new), 0) + coalesce(octet_length(n.old), 0)'
const isOversized = `(${size} > ${maxPayloadBytes}
  or (n.new is null and n.new_row is not null) or (n.old is null and n.old_row is not null))`
const unlessOversized = (column: string) => `case when not ${isOversized} then n.${column} end`

/** $6 is the node id. */
const changes = outboxReader({
  table: 'platform.changes',
  time: 'at',
  facts: {
    registered:
      '(select count(*) from platform.listening l where l.node = $6::uuid and l.until > clock_timestamp())',
    version: '(select max(v.version) from platform.catalog_version v)',
  },
  columns: {
    change: 'n.id',
    relid: 'n.relid',
    kind: 'n.kind',
    committed_at: `to_char(t.moment at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"')`,
    is_oversized: isOversized,
    new: unlessOversized('new'),
    old: unlessOversized('old'),
    new_row: unlessOversized('new_row'),
    old_row: unlessOversized('old_row'),
  },
  batchRows,
})

const snapshotNow = 'select pg_current_snapshot()::text'

const oversizedRow =
  'select c.new, c.new_row, c.old_row, c.is_large from platform.changes c where c.id = $1::bigint'

const registerTables = `
  insert into platform.listening (relid, node, until)
  select relid, $2::uuid, clock_timestamp() + interval '${registrationSeconds} seconds' from unnest($1::oid[]) relid
  on conflict (relid, node) do update set until = excluded.until`
const unregisterOthers =
  'delete from platform.listening where (node = $2::uuid and relid <> all ($1::oid[])) or until < clock_timestamp()'
const otherRegistrations =
  'select from platform.listening where node <> $1::uuid and until > clock_timestamp() limit 1'
/** Changes that were visible in the given snapshot. */
const deleteReadChanges = `
  delete from platform.changes
   where xid < pg_snapshot_xmax($1::pg_snapshot) and pg_visible_in_snapshot(xid, $1::pg_snapshot)`

/** Tables by schema and name, all of a schema, or all, with the state of their triggers. */
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

export interface CapturableTable {
  relid: string
  schema: string
  name: string
  isWanted: boolean
  isEnabled: boolean
}

export interface Column {
  name: string
  /** The type name in SQL. */
  type: string
  /** Whether equal values have equal JSON text. */
  isPlain: boolean
  /** A virtual generated column. Its values are computed on read and never captured. */
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
export function changesStore({ query }: FeedConnection, node: string) {
  return {
    snapshot: async (): Promise<string> => text((await query(snapshotNow, []))[0]![0])!,

    async read(from: Cursor): Promise<OutboxBatch> {
      const { cursor, facts, rows, isFull } = await changes.read(from, [node], values =>
        query(changes.sql, values),
      )
      const [registered, catalogVersion] = facts
      return {
        cursor,
        changes: rows.map(([id, relid, kind, at, oversized, after, before, newRow, oldRow]) => ({
          id: id!,
          relid: relid!,
          event: events[kind!]!,
          at: at!,
          isOversized: oversized === 't',
          new: after,
          old: before,
          newRow,
          oldRow,
        })),
        isFull,
        registered: Number(registered),
        catalogVersion: catalogVersion!,
      }
    },

    /** The stored rows. Rows over about 1 MB (`isLarge`) have only their key columns. */
    async readOversized(id: string) {
      const [row] = await query(oversizedRow, [id])
      if (!row) return
      const [after, newRow, oldRow, isLarge] = row.map(text)
      return { new: after, newRow, oldRow, isLarge: isLarge === 't' }
    },

    async register(relids: readonly string[]): Promise<void> {
      await query(registerTables, [list(relids), node])
    },
    async unregisterOthers(relids: readonly string[]): Promise<void> {
      await query(unregisterOthers, [list(relids), node])
    },
    /** Whether another node, or another feed of this node, reads the same outbox. */
    hasOthers: async (): Promise<boolean> => (await query(otherRegistrations, [node])).length > 0,
    async deleteRead(snapshot: string): Promise<void> {
      await query(deleteReadChanges, [snapshot])
    },

    async findTables(
      wanted: readonly { schema: string; table: string | undefined }[],
    ): Promise<CapturableTable[]> {
      const rows = await query(findTables, [JSON.stringify(wanted)])
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
      const rows = await query(changedTables, [list(relids)])
      return new Map(rows.map(([relid, facts]) => [text(relid)!, JSON.parse(text(facts)!) as TableFacts]))
    },
  }
}

export type ChangesStore = ReturnType<typeof changesStore>
