// Realtime settings of tables: whether row changes are captured, and whether a table without row-level security is
// public. The project's owner reads them. Only the platform writes them, so tenant SQL cannot change them.
import type { RealtimeTable, RealtimeTableInput } from '@plinth/contract/realtime.ts'
import { Refusal } from '#src/kernel/errors.ts'
import { createLimiter } from '#src/kernel/limiter.ts'
import { guardedSettings, type Session, withClient } from '#src/kernel/postgres/database.ts'
import { sqlState } from '#src/kernel/postgres/database-error.ts'
import type { ServerAddress } from '#src/kernel/postgres/server-address.ts'
import { type OwnerWork, refused } from '#src/planes/management/owner-work.ts'
import type { Paging } from '#src/planes/management/paging.ts'
import { requireTable, unknown } from '#src/services/schema/service.ts'
import type { Tenant } from '#src/tenancy/directory.ts'
import * as store from './tables-store.ts'

export type RealtimeTables = ReturnType<typeof realtimeTables>

interface Options {
  owner: OwnerWork
  /** Of the Postgres server, as superuser. */
  address: ServerAddress
  /** Makes the feeds of the project read the settings again. Resolves when the triggers match the settings. */
  changed(tenant: Tenant): Promise<void> | void
}

const connectionSettings = { ...guardedSettings, statement_timeout: '10s', lock_timeout: '3s' }
const maxWaiting = 20

export function realtimeTables({ owner, address, changed }: Options) {
  const limit = createLimiter({ perKey: 1, maxWaiting })

  return {
    list: (id: string, page: Paging) =>
      owner.look(id, async session => ({ ...(await store.listTables(session, page)), ...page })),

    async set(id: string, name: string, update: RealtimeTableInput): Promise<RealtimeTable> {
      const tenant = await owner.tenant(id)
      const table = await limit(tenant.id, () =>
        withClient(address, tenant.ref, connectionSettings, session => updateTable(session, name, update)),
      )
      await changed(tenant)
      return table
    },
  }
}

/** On an error the connection closes with the transaction open, which rolls it back. */
async function updateTable(
  session: Session,
  name: string,
  update: RealtimeTableInput,
): Promise<RealtimeTable> {
  await session.script('begin')
  await requireCapturable(session, name)
  await store.lockTable(session, name).catch(error => refused(droppedOr(error, name)))
  // Another relation may have taken the name before the lock. From here on the name is stable.
  const relation = await requireCapturable(session, name)
  await store.saveTable(session, relation, update).catch(error => refused(error))
  const table = (await store.readTable(session, relation))!
  await session.script('commit')
  return table
}

/** A concurrent transaction may have dropped the table after the lookup. */
const droppedOr = (error: unknown, name: string) =>
  sqlState(error) === '42P01'
    ? unknown('table_not_found', 'The schema "public" has no table', name, [])
    : error

const hints = {
  view: 'Set it for the tables that the view reads',
  materialized_view: 'Set it for the tables that the view reads',
  foreign_table: 'Its rows are changed where nothing here learns of it',
}

/** The oid of a table whose changes can be captured. */
async function requireCapturable(session: Session, name: string): Promise<number> {
  const { oid, kind } = await requireTable(session, 'public', name)
  if (kind !== 'table' && kind !== 'partitioned_table')
    throw notCapturable(name, `a ${kind.replace('_', ' ')}`, hints[kind])
  if (!(await store.readTable(session, oid)))
    throw notCapturable(name, 'part of an extension', 'Make a table of your own for what is to be sent')
  return oid
}

const notCapturable = (name: string, what: string, hint: string) =>
  new Refusal(
    'invalid_request',
    `${JSON.stringify(name)} is ${what}: only tables of the project send changes. ${hint}`,
    { hint },
  )
