// What a change looks like to those who hear of it. Encoded once for all who may see the same of it.
import type { Role } from '@plinth/contract/route.ts'
import { encodeMessage, type Version } from '../wire.ts'
import { columnsOf, rowOf } from './row-text.ts'
import type { NotedChange, TableFacts } from './store.ts'

export interface Audience {
  readonly topic: string
  readonly version: Version
  readonly isLegacy: boolean
}

/** A change and all that is known of it. */
export interface Change extends NotedChange {
  readonly table: TableFacts
  /** Of an oversized one: the key columns, as rows. */
  readonly keys?: { readonly new: string | undefined; readonly old: string | undefined }
  /** Not even that could be read. */
  readonly isUnreadable?: boolean
  /** The rows hold nothing but their keys. */
  readonly isKeyOnly?: boolean
  /** The table may have other columns by now than the row has. */
  readonly isOfOtherColumns?: boolean
}

/** Columns a role may be told. */
export const selectable = ({ columns, ...table }: TableFacts, role: Role): string[] =>
  columns
    .filter(column => !column.isVirtual && (role === 'service_role' || (table[role] && column[role])))
    .map(({ name }) => name)

/** The frame for those with this role who asked for these columns (all, when undefined), with or without the old row. */
export function tell(
  audience: Audience,
  change: Change,
  role: Role,
  wish: { ids: readonly number[]; select: readonly string[] | undefined },
  showsOld: boolean,
): Buffer {
  const { table, event, keys } = change
  const may = selectable(table, role)
  const names = wish.select
    ? may.filter(name => wish.select!.includes(name) || table.key.includes(name))
    : may
  const isWhole = names.length === table.columns.length && !change.isOfOtherColumns
  const shown = (row: string | undefined, only: readonly string[]) =>
    row === undefined ? 'null' : isWhole && only === names ? row : rowOf(columnsOf(row), only)
  const keyNames = names.filter(name => table.key.includes(name))
  const hasKeyOnly = keys !== undefined || (event === 'DELETE' && role !== 'service_role')
  const after = shown(keys ? keys.new : change.new, keys ? keyNames : names)
  const before = showsOld ? shown(keys ? keys.old : change.old, hasKeyOnly ? keyNames : names) : 'null'
  const data =
    `{"schema":${JSON.stringify(table.schema)},"table":${JSON.stringify(table.name)}` +
    `,"commit_timestamp":"${change.at}","type":"${event}","eventType":"${event}"` +
    `,"columns":[${names.map(columnText).join(',')}]` +
    `,"record":${after},"old_record":${before},"new":${after},"old":${before}` +
    `,"errors":${keys ? '["payload_too_large"]' : 'null'}}`
  const { version, topic, isLegacy } = audience
  return isLegacy
    ? encodeMessage(version, topic, event, data)
    : encodeMessage(version, topic, 'postgres_changes', `{"ids":[${wish.ids.join(',')}],"data":${data}}`)
}

const columnText = (name: string) => `{"name":${JSON.stringify(name)},"type":"unknown"}`
