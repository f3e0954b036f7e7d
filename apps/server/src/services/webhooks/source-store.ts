// What happened in a project database: row changes of attached tables, and auth events.
import { type Databases, statement } from '#src/tenancy/databases.ts'
import type { Tenant } from '#src/tenancy/directory.ts'
import { type Cursor, outboxReader } from '#src/tenancy/outbox-reading.ts'
import type { AuthEventRow, RowChange } from './payload.ts'

type AsService = Pick<Databases, 'asService'>

const iso = (time: string) =>
  `pg_catalog.to_char(${time} at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"')`

/** The rows before and after a change have at most 256 kB each, so a batch has at most 51 MB. */
const changes = outboxReader({
  table: 'platform.webhook_changes',
  time: 'at',
  columns: {
    xid: 'n.xid',
    number: 'n.id',
    webhooks: 'n.webhooks',
    schema_name: 'n.schema_name',
    table_name: 'n.table_name',
    kind: 'n.kind',
    new: 'n.new',
    old: 'n.old',
    is_truncated: 'n.is_truncated',
    at: iso('n.at'),
  },
  batchRows: 100,
})
const selectChanges = statement(changes.sql, false)
const deleteChangesById = statement(
  `delete from platform.webhook_changes
    where xid = any($1::xid8[]) and id = any($2::bigint[])`,
  true,
)
const deleteVisibleChanges = statement(
  `delete from platform.webhook_changes
    where xid < pg_snapshot_xmax($1::pg_snapshot) and pg_visible_in_snapshot(xid, $1::pg_snapshot)`,
  false,
)

/** The transaction and the number identify it. */
export interface StoredChange extends RowChange {
  xid: string
  number: string
}

export async function readChanges(databases: AsService, tenant: Tenant, from: Cursor) {
  const ask = async (values: (string | null)[]) =>
    (await databases.asService(tenant, selectChanges, values)).rows
  const { cursor, rows, isFull } = await changes.read(from, [], ask)
  return {
    cursor,
    isFull,
    rows: rows.map(
      ([
        xid,
        number,
        webhooks,
        schema,
        table,
        operation,
        record,
        oldRecord,
        isTruncated,
        at,
      ]): StoredChange => ({
        xid: xid!,
        number: number!,
        webhookIds: webhooks!.split(','),
        schema: schema!,
        table: table!,
        operation: operation!,
        record,
        oldRecord,
        isTruncated: isTruncated === 't',
        at: at!,
      }),
    ),
  }
}

export const deleteChanges = (databases: AsService, tenant: Tenant, rows: readonly StoredChange[]) =>
  databases.asService(tenant, deleteChangesById, [
    `{${[...new Set(rows.map(({ xid }) => xid))].join(',')}}`,
    `{${rows.map(({ number }) => number).join(',')}}`,
  ])

/** Deletes all changes that are visible in the snapshot. */
export const deleteSeenChanges = (databases: AsService, tenant: Tenant, seen: string) =>
  databases.asService(tenant, deleteVisibleChanges, [seen])

const events = outboxReader({
  table: 'platform.events',
  time: 'created_at',
  where: "n.kind like 'user.%'",
  columns: {
    event_id: 'n.event_id',
    kind: 'n.kind',
    payload: 'n.payload',
    created_at: iso('n.created_at'),
  },
  batchRows: 200,
})
const selectEvents = statement(events.sql, true)

export async function readEvents(databases: AsService, tenant: Tenant, from: Cursor) {
  const ask = async (values: (string | null)[]) =>
    (await databases.asService(tenant, selectEvents, values)).rows
  const { cursor, rows, isFull } = await events.read(from, [], ask)
  return {
    cursor,
    isFull,
    rows: rows.map(
      ([id, kind, data, at]): AuthEventRow => ({
        id: id!,
        kind: kind!,
        data: data!,
        at: at!,
      }),
    ),
  }
}

const selectSnapshot = statement('select pg_current_snapshot()::text', true)

/** The position after everything that is committed now. */
export async function currentPosition(databases: AsService, tenant: Tenant): Promise<Cursor> {
  const { rows } = await databases.asService(tenant, selectSnapshot, [])
  return { seen: rows[0]![0]!.toString() }
}
