// The captured row changes of a project, which its triggers write to platform.webhook_changes.
import { type Databases, statement } from '#src/tenancy/databases.ts'
import type { Tenant } from '#src/tenancy/directory.ts'
import { type Cursor, leftRows, outboxReader } from '#src/tenancy/outbox-reading.ts'
import type { RelayedRows } from '#src/tenancy/outbox-relay.ts'
import type { RowEvent } from './attachments-store.ts'

export interface RowChange {
  readonly id: string
  readonly xid: string
  readonly webhookIds: string[]
  /** ISO 8601, the time of the commit. */
  readonly at: string
  readonly schema: string
  readonly table: string
  readonly event: RowEvent
  /** JSON text of the row after and before the change. */
  readonly new: string | undefined
  readonly old: string | undefined
  /** One of the rows is over 256 KiB, and has only the columns of its primary key. */
  readonly isTruncated: boolean
}

/**
 * Both rows of a change may have 256 KiB, so a batch of 25 has at most 13 MB. While all large values in the table take
 * little space, a larger batch has no more, and is less work for each row.
 */
const batchRows = `
  select case when pg_relation_size(c.reltoastrelid) < 8000000 then 250 else 25 end
    from pg_class c where c.oid = 'platform.webhook_changes'::regclass`

const changes = outboxReader({
  table: 'platform.webhook_changes',
  time: 'at',
  facts: { has_left: leftRows('platform.webhook_changes') },
  columns: {
    change: 'n.id',
    transaction: 'n.xid',
    webhooks: 'n.webhooks',
    committed_at: `to_char(t.moment at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"')`,
    schema_name: 'n.schema_name',
    table_name: 'n.table_name',
    kind: 'n.kind',
    new: 'ltrim(n.new)',
    old: 'ltrim(n.old)',
    is_truncated: `(starts_with(n.new, ' ') is true or starts_with(n.old, ' ') is true)`,
  },
  batchRows,
})
const read = statement(changes.sql, true)
const remove = statement(
  `delete from platform.webhook_changes c using unnest($1::xid8[], $2::bigint[]) as k (xid, id)
    where c.xid = k.xid and c.id = k.id`,
  true,
)
const removeVisible = statement(
  `delete from platform.webhook_changes
    where xid < pg_snapshot_xmax($1::pg_snapshot) and pg_visible_in_snapshot(xid, $1::pg_snapshot)`,
  true,
)
const removeAll = statement('delete from platform.webhook_changes', true)

export async function readRowChanges(
  databases: Pick<Databases, 'asService'>,
  tenant: Tenant,
  from: Cursor,
): Promise<RelayedRows<RowChange>> {
  const ask = async (values: (string | null)[]) => (await databases.asService(tenant, read, values)).rows
  const { cursor, rows, isFull, facts } = await changes.read(from, [], ask)
  return { rows: rows.map(rowChange), cursor, isFull, hasLeft: facts[0] === 't' }
}

const rowChange = (cells: (string | undefined)[]): RowChange => {
  const [id, xid, webhooks, at, schema, table, kind, after, before, isTruncated] = cells
  return {
    id: id!,
    xid: xid!,
    webhookIds: webhooks!.split(','),
    at: at!,
    schema: schema!,
    table: table!,
    event: kind as RowEvent,
    new: after,
    old: before,
    isTruncated: isTruncated === 't',
  }
}

/** To be called after the changes have become deliveries in the control database. */
export const deleteRowChanges = (
  databases: Pick<Databases, 'asService'>,
  tenant: Tenant,
  done: readonly Pick<RowChange, 'id' | 'xid'>[],
) =>
  databases.asService(tenant, remove, [
    `{${done.map(({ xid }) => xid).join(',')}}`,
    `{${done.map(({ id }) => id).join(',')}}`,
  ])

/** Deletes all changes that are visible in the snapshot. */
export const deleteSeenChanges = (databases: Pick<Databases, 'asService'>, tenant: Tenant, seen: string) =>
  databases.asService(tenant, removeVisible, [seen])

export const deleteAllChanges = (databases: Pick<Databases, 'asService'>, tenant: Tenant) =>
  databases.asService(tenant, removeAll, [])
