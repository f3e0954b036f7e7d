// Which tables of a project send changes of their rows, and to whom: looked at as the project's owner, switched by the
// platform itself. In SQL of the tenant's own there is no way to these switches.
import type { RealtimeTable, RealtimeTableWish } from '@plinth/contract/realtime.ts'
import { Refusal } from '#src/kernel/errors.ts'
import { guardedSettings, type Session, withClient } from '#src/kernel/postgres/database.ts'
import type { ServerAddress } from '#src/kernel/postgres/server-address.ts'
import { createTurnsByOwner } from '#src/kernel/turns.ts'
import { type OwnerWork, refused } from '#src/planes/management/owner-work.ts'
import type { Paging } from '#src/planes/management/paging.ts'
import { requireTable, unknown } from '#src/services/schema/service.ts'
import type { Tenant } from '#src/tenancy/directory.ts'
import * as store from './tables-store.ts'

export type RealtimeTables = ReturnType<typeof realtimeTables>

interface Options {
  owner: OwnerWork
  /** Of the server, as its superuser. */
  address: ServerAddress
  /** Whoever reads changes of the project looks at its switches again; done when triggers are as they should be. */
  changed(tenant: Tenant): Promise<void> | void
}

const settings = { ...guardedSettings, statement_timeout: '10s', lock_timeout: '3s' }
const atOnce = 1
const maxWaiting = 20

export function realtimeTables({ owner, address, changed }: Options) {
  const turn = createTurnsByOwner(atOnce, maxWaiting)

  return {
    list: (id: string, page: Paging) =>
      owner.look(id, async session => ({ ...(await store.listTables(session, page)), ...page })),

    async set(id: string, name: string, wish: RealtimeTableWish): Promise<RealtimeTable> {
      const tenant = await owner.tenant(id)
      const table = await turn(tenant.id, () =>
        withClient(address, tenant.ref, settings, session => switchTable(session, name, wish)),
      )
      await changed(tenant)
      return table
    },
  }
}

/** Without the last word the connection is closed with the transaction open, which undoes it. */
async function switchTable(session: Session, name: string, wish: RealtimeTableWish): Promise<RealtimeTable> {
  await session.script('begin')
  await requireSender(session, name)
  await store.keepTable(session, name).catch(error => refused(goneOr(error, name)))
  // Meanwhile something else may stand under the name; from here on it stays.
  const relation = await requireSender(session, name)
  await store.noteTable(session, relation, wish).catch(error => refused(error))
  const table = (await store.readTable(session, relation))!
  await session.script('commit')
  return table
}

/** Dropped by a transaction that was still under way when it was looked for. */
const goneOr = (error: Error & { code?: string }, name: string) =>
  error.code === '42P01' ? unknown('table_not_found', 'The schema "public" has no table', name, []) : error

const elsewhere = {
  view: 'Set it for the tables that the view reads',
  materialized_view: 'Set it for the tables that the view reads',
  foreign_table: 'Its rows are changed where nothing here learns of it',
}

/** The id of a table that can send changes. */
async function requireSender(session: Session, name: string): Promise<number> {
  const { oid, kind } = await requireTable(session, 'public', name)
  if (kind !== 'table' && kind !== 'partitioned_table')
    throw sendsNothing(name, `a ${kind.replace('_', ' ')}`, elsewhere[kind])
  if (!(await store.readTable(session, oid)))
    throw sendsNothing(name, 'part of an extension', 'Make a table of your own for what is to be sent')
  return oid
}

const sendsNothing = (name: string, what: string, hint: string) =>
  new Refusal(
    'invalid_request',
    `${JSON.stringify(name)} is ${what}: only tables of the project send changes. ${hint}`,
    { hint },
  )
