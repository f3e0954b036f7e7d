// What was read in one look, told: messages to their channels, row changes to those who may see them.
import type { Tenant } from '#src/tenancy/directory.ts'
import type { ChangeSubscriber, SentMessage } from '../subscriber.ts'
import { dispatch } from './dispatch.ts'
import type { Gate } from './gate.ts'
import type { Groups } from './groups.ts'
import { columnsOf } from './row-text.ts'
import type { ChangesStore, NotedChange, TableFacts } from './store.ts'
import type { Change } from './telling.ts'

export interface Round {
  readonly store: ChangesStore
  readonly gate: Gate
  readonly groups: Groups
  readonly tenant: Tenant
  /** Of realtime.messages. */
  readonly messages: string | undefined
  message(message: SentMessage): void
  /** That something did not reach a subscriber. */
  excuse(subscriber: ChangeSubscriber, message: string): void
}

export async function tellRound(round: Round, noted: readonly NotedChange[]): Promise<void> {
  const { gate, groups, tenant, messages, excuse } = round
  for (const change of noted)
    if (change.relid === messages && change.event === 'INSERT') await tellMessage(round, change)
  const changes = await withTables(
    round,
    noted.filter(({ relid }) => relid !== messages),
  )
  if (changes.length === 0) return
  const { failed, dropped } = await dispatch(gate, tenant, groups, inShape(changes))
  for (const [subscriber, table] of failed)
    excuse(subscriber, `Changes of ${table} were not delivered: its policies failed for this subscriber`)
  for (const subscriber of dropped)
    excuse(subscriber, 'Changes may have been lost: policies could not be asked in time')
}

/** A table that is gone, or is switched off since, says no more. */
async function withTables(round: Round, noted: readonly NotedChange[]): Promise<Change[]> {
  if (noted.length === 0) return []
  const facts = await round.store.facts([...new Set(noted.map(({ relid }) => relid))])
  const changes: Change[] = []
  for (const change of noted) {
    const table = facts.get(change.relid)
    if (!table?.isCaptured) continue
    changes.push({ ...change, table, ...(change.isOversized && (await oversized(round, change, table))) })
  }
  return changes
}

/** A row of other columns than the table has now cannot be read as one of its rows, but by the names of its columns. */
function inShape(changes: readonly Change[]): Change[] {
  const isOther = ({ table, new: after, old }: Change) =>
    [after, old].some(
      row =>
        row !== undefined &&
        [...columnsOf(row).keys()].join() !== table.columns.map(({ name }) => name).join(),
    )
  const others = new Set(changes.filter(isOther).map(({ relid }) => relid))
  return changes.map(change =>
    others.has(change.relid) ? { ...change, newRow: change.new, oldRow: change.old } : change,
  )
}

/** Told by its key, and judged as a whole unless it is too large even for that. */
async function oversized({ store, gate, tenant }: Round, { id }: NotedChange, table: TableFacts) {
  const row = await store.readOversized(id)
  const keyOf = (line: string | undefined) =>
    line === undefined ? undefined : gate.jsonOf(tenant, table, line, table.key)
  return {
    keys: { new: await keyOf(row?.newRow), old: await keyOf(row?.oldRow) },
    newRow: row?.isLarge ? undefined : row?.newRow,
    oldRow: row?.isLarge ? undefined : row?.oldRow,
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
