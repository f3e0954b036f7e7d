// The auth events of a project, and the current position in its database.
import { type Databases, statement } from '#src/tenancy/databases.ts'
import type { Tenant } from '#src/tenancy/directory.ts'
import { type Cursor, outboxReader } from '#src/tenancy/outbox-reading.ts'
import type { AuthEventRow } from './payload.ts'

type AsService = Pick<Databases, 'asService'>

const iso = (time: string) =>
  `pg_catalog.to_char(${time} at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"')`

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
