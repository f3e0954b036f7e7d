// What was read in one look, told: messages to their channels, row changes to those who may see them.
import type { Tenant } from '#src/tenancy/directory.ts'
import type { ChangeSubscriber, SentMessage } from '../subscriber.ts'
import type { Conditions } from './conditions.ts'
import { dispatch } from './dispatch.ts'
import type { Gate } from './gate.ts'
import type { Groups } from './groups.ts'
import { columnsOf } from './row-text.ts'
import type { ChangesStore, NotedChange, TableFacts } from './store.ts'
import type { Change } from './telling.ts'

export interface Round {
  readonly store: ChangesStore
  readonly gate: Gate
  readonly conditions: Conditions
  readonly groups: Groups
  readonly tenant: Tenant
  /** Of realtime.messages. */
  readonly messages: string | undefined
  message(message: SentMessage): void
  /** That something did not reach a subscriber. */
  excuse(subscriber: ChangeSubscriber, message: string): void
}

export async function tellRound(round: Round, noted: readonly NotedChange[]): Promise<void> {
  const { store, messages } = round
  for (const change of noted)
    if (change.relid === messages && change.event === 'INSERT') await tellMessage(round, change)
  const rows = noted.filter(({ relid }) => relid !== messages)
  if (rows.length === 0) return
  const facts = await store.facts([...new Set(rows.map(({ relid }) => relid))])
  let changes: Change[] = []
  let bytes = 0
  for (const change of rows) {
    const table = facts.get(change.relid)
    // A table that is gone, or is switched off since, says no more.
    if (!table?.isCaptured) continue
    changes.push({ ...change, table, ...(change.isOversized && (await oversized(round, change, table))) })
    bytes += (changes.at(-1)!.newRow?.length ?? 0) + (changes.at(-1)!.oldRow?.length ?? 0)
    if (bytes < mostBytes) continue
    await tellChanges(round, changes)
    changes = []
    bytes = 0
  }
  await tellChanges(round, changes)
}

/** Of large rows, so much at once. */
const mostBytes = 4 * 1024 * 1024

async function tellChanges(
  { gate, conditions, tenant, groups, excuse }: Round,
  changes: readonly Change[],
): Promise<void> {
  if (changes.length === 0) return
  const { failed, dropped } = await dispatch(gate, conditions, tenant, groups, inShape(changes))
  for (const [subscriber, table] of failed)
    excuse(
      subscriber,
      `Changes of ${table} were not delivered: its policies failed for this subscriber, or its rows could not be read`,
    )
  for (const subscriber of dropped)
    excuse(subscriber, 'Changes may have been lost: policies or filters could not be asked in time')
}

/** A row of other columns than the table has now cannot be read as one of its rows, but by the names of its columns. */
function inShape(changes: readonly Change[]): Change[] {
  const isOther = ({ table, new: after, old }: Change) =>
    [after, old].some(
      row =>
        row !== undefined &&
        [...columnsOf(row).keys()].join('\0') !== table.columns.map(({ name }) => name).join('\0'),
    )
  const others = new Set(changes.filter(isOther).map(({ relid }) => relid))
  return changes.map(change =>
    others.has(change.relid)
      ? { ...change, newRow: change.new, oldRow: change.old, isOfOtherColumns: true }
      : change,
  )
}

/** Told by its key, and judged as a whole; where that was too large to be kept, as what has its key now. */
async function oversized({ store, gate, tenant }: Round, { id, event }: NotedChange, table: TableFacts) {
  const row = await store.readOversized(id)
  const keyOf = (line: string | undefined) =>
    line === undefined ? undefined : gate.jsonOf(tenant, table, line, table.key)
  const keys = { new: await keyOf(row?.newRow), old: await keyOf(row?.oldRow) }
  const isRead = (line: string | undefined, key: string | undefined) =>
    line === undefined || key !== undefined
  return {
    keys,
    isUnreadable: !row || !isRead(row.newRow, keys.new) || !isRead(row.oldRow, keys.old),
    isKeyOnly: row?.isLarge === true,
    newRow: row?.newRow,
    // Whether it was seen before cannot be said any more.
    oldRow: row?.isLarge && event === 'UPDATE' ? undefined : row?.oldRow,
  }
}

async function tellMessage(round: Round, change: NotedChange): Promise<void> {
  const row = change.isOversized ? await largeMessage(round, change) : change.new
  if (row === undefined) return
  const columns = columnsOf(row)
  const value = (name: string) => JSON.parse(columns.get(name) ?? 'null') as unknown
  if (value('extension') !== 'broadcast') return
  round.message({
    id: String(value('id')),
    topic: String(value('topic')),
    event: String(value('event') ?? ''),
    payload: columns.get('payload') ?? 'null',
    isPrivate: value('private') === true,
  })
}

async function largeMessage(
  { store, gate, tenant }: Round,
  { id }: NotedChange,
): Promise<string | undefined> {
  const row = await store.readOversized(id)
  if (!row?.newRow || row.isLarge) return
  return row.new ?? gate.jsonOf(tenant, messagesTable, row.newRow, messageColumns)
}

const messagesTable = { schema: 'realtime', name: 'messages' }
const messageColumns = ['id', 'topic', 'extension', 'event', 'payload', 'private']
