// Delivers one batch of the outbox: messages that SQL sent to their topics, row changes to the subscribers that may see
// them.
import type { Tenant } from '#src/tenancy/directory.ts'
import type { ChangeSubscriber, SentMessage } from '../subscriber.ts'
import type { Conditions } from './conditions.ts'
import { dispatch } from './dispatch.ts'
import type { Change } from './encode.ts'
import type { Groups } from './groups.ts'
import type { PolicyChecks } from './policy-checks.ts'
import { columnsOf } from './row-text.ts'
import type { CapturedChange, ChangesStore, TableFacts } from './store.ts'

export interface BatchContext {
  readonly store: ChangesStore
  readonly policyChecks: PolicyChecks
  readonly conditions: Conditions
  readonly groups: Groups
  readonly tenant: Tenant
  /** The relid of realtime.messages. */
  readonly messages: string | undefined
  message(message: SentMessage): void
  /** Tells a subscriber that changes did not reach it. */
  reportLoss(subscriber: ChangeSubscriber, message: string): void
}

export async function deliverBatch(
  context: BatchContext,
  captured: readonly CapturedChange[],
): Promise<void> {
  const { store, messages } = context
  for (const change of captured)
    if (change.relid === messages && change.event === 'INSERT') await deliverMessage(context, change)
  const rows = captured.filter(({ relid }) => relid !== messages)
  if (rows.length === 0) return
  const facts = await store.facts([...new Set(rows.map(({ relid }) => relid))])
  let changes: Change[] = []
  let bytes = 0
  for (const change of rows) {
    const table = facts.get(change.relid)
    // The table was dropped, or its capture was switched off, after the change.
    if (!table?.isCaptured) continue
    changes.push({
      ...change,
      table,
      ...(change.isOversized && (await readOversized(context, change, table))),
    })
    bytes += (changes.at(-1)!.newRow?.length ?? 0) + (changes.at(-1)!.oldRow?.length ?? 0)
    if (bytes < maxChunkBytes) continue
    await deliverChanges(context, changes)
    changes = []
    bytes = 0
  }
  await deliverChanges(context, changes)
}

/** Large rows are delivered in chunks of this size, to bound the memory. */
const maxChunkBytes = 4 * 1024 * 1024

async function deliverChanges(
  { policyChecks, conditions, tenant, groups, reportLoss }: BatchContext,
  changes: readonly Change[],
): Promise<void> {
  if (changes.length === 0) return
  const { failed, dropped } = await dispatch(
    policyChecks,
    conditions,
    tenant,
    groups,
    withJsonRowsIfAltered(changes),
  )
  for (const [subscriber, table] of failed)
    reportLoss(
      subscriber,
      `Changes of ${table} were not delivered: its policies failed for this subscriber, or its rows could not be read`,
    )
  for (const subscriber of dropped)
    reportLoss(subscriber, 'Changes may have been lost: policies or filters could not be asked in time')
}

/** After ALTER TABLE, an earlier row does not fit the table's row type. It is then passed as JSON, by column name. */
function withJsonRowsIfAltered(changes: readonly Change[]): Change[] {
  const isAltered = ({ table, new: after, old }: Change) =>
    [after, old].some(
      row =>
        row !== undefined &&
        [...columnsOf(row).keys()].join('\0') !== table.columns.map(({ name }) => name).join('\0'),
    )
  const alteredTables = new Set(changes.filter(isAltered).map(({ relid }) => relid))
  return changes.map(change =>
    alteredTables.has(change.relid)
      ? { ...change, newRow: change.new, oldRow: change.old, hasOtherColumns: true }
      : change,
  )
}

/**
 * An oversized change is delivered with its key only, but its visibility is checked on the whole row. For rows over about
 * 1 MB only the key is stored, and visibility is checked on the current row with that key.
 */
async function readOversized(
  { store, policyChecks, tenant }: BatchContext,
  { id, event }: CapturedChange,
  table: TableFacts,
) {
  const row = await store.readOversized(id)
  const keyOf = (line: string | undefined) =>
    line === undefined ? undefined : policyChecks.readColumns(tenant, table, line, table.key)
  const keys = { new: await keyOf(row?.newRow), old: await keyOf(row?.oldRow) }
  const isRead = (line: string | undefined, key: string | undefined) =>
    line === undefined || key !== undefined
  return {
    keys,
    isUnreadable: !row || !isRead(row.newRow, keys.new) || !isRead(row.oldRow, keys.old),
    isKeyOnly: row?.isLarge === true,
    newRow: row?.newRow,
    // The old version of the row is gone, so its visibility cannot be checked.
    oldRow: row?.isLarge && event === 'UPDATE' ? undefined : row?.oldRow,
  }
}

async function deliverMessage(context: BatchContext, change: CapturedChange): Promise<void> {
  const row = change.isOversized ? await readLargeMessage(context, change) : change.new
  if (row === undefined) return
  const columns = columnsOf(row)
  const value = (name: string) => JSON.parse(columns.get(name) ?? 'null') as unknown
  if (value('extension') !== 'broadcast') return
  context.message({
    id: String(value('id')),
    topic: String(value('topic')),
    event: String(value('event') ?? ''),
    payload: columns.get('payload') ?? 'null',
    isPrivate: value('private') === true,
  })
}

async function readLargeMessage(
  { store, policyChecks, tenant }: BatchContext,
  { id }: CapturedChange,
): Promise<string | undefined> {
  const row = await store.readOversized(id)
  if (!row?.newRow || row.isLarge) return
  return row.new ?? policyChecks.readColumns(tenant, messagesTable, row.newRow, messageColumns)
}

const messagesTable = { schema: 'realtime', name: 'messages' }
const messageColumns = ['id', 'topic', 'extension', 'event', 'payload', 'private']
