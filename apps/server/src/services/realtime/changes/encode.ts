// Encodes a change as a frame. Subscribers that see the same columns share one frame.
import type { Role } from '@plinth/contract/route.ts'
import { encodeMessage, type Version } from '../wire.ts'
import { columnsOf, rowOf } from './row-text.ts'
import type { CapturedChange, TableFacts } from './store.ts'

export interface FrameTarget {
  readonly topic: string
  readonly version: Version
  readonly isLegacy: boolean
}

/** A captured change with the table's metadata. */
export interface Change extends CapturedChange {
  readonly table: TableFacts
  /** Set for an oversized change: rows with only the key columns. */
  readonly keys?: { readonly new: string | undefined; readonly old: string | undefined }
  /** Not even the keys could be read. */
  readonly isUnreadable?: boolean
  /** The stored rows have only the key columns. */
  readonly isKeyOnly?: boolean
  /** The columns of the row may differ from the current columns of the table. */
  readonly hasOtherColumns?: boolean
}

/** The columns that a role may select. */
export const selectableColumns = ({ columns, ...table }: TableFacts, role: Role): string[] =>
  columns
    .filter(column => !column.isVirtual && (role === 'service_role' || (table[role] && column[role])))
    .map(({ name }) => name)

/** The frame for subscribers with this role that selected these columns (undefined: all), with or without the old row. */
export function encodeChange(
  target: FrameTarget,
  change: Change,
  role: Role,
  match: { ids: readonly number[]; select: readonly string[] | undefined },
  showsOld: boolean,
): Buffer {
  const { table, event, keys } = change
  const permitted = selectableColumns(table, role)
  const names = match.select
    ? permitted.filter(name => match.select!.includes(name) || table.key.includes(name))
    : permitted
  const isWhole = names.length === table.columns.length && !change.hasOtherColumns
  const encodeRow = (row: string | undefined, only: readonly string[]) =>
    row === undefined ? 'null' : isWhole && only === names ? row : rowOf(columnsOf(row), only)
  const keyNames = names.filter(name => table.key.includes(name))
  const hasKeyOnly = keys !== undefined || (event === 'DELETE' && role !== 'service_role')
  const after = encodeRow(keys ? keys.new : change.new, keys ? keyNames : names)
  const before = showsOld ? encodeRow(keys ? keys.old : change.old, hasKeyOnly ? keyNames : names) : 'null'
  const data =
    `{"schema":${JSON.stringify(table.schema)},"table":${JSON.stringify(table.name)}` +
    `,"commit_timestamp":"${change.at}","type":"${event}","eventType":"${event}"` +
    `,"columns":[${names.map(encodeColumn).join(',')}]` +
    `,"record":${after},"old_record":${before},"new":${after},"old":${before}` +
    `,"errors":${keys ? '["payload_too_large"]' : 'null'}}`
  const { version, topic, isLegacy } = target
  return isLegacy
    ? encodeMessage(version, topic, event, data)
    : encodeMessage(version, topic, 'postgres_changes', `{"ids":[${match.ids.join(',')}],"data":${data}}`)
}

const encodeColumn = (name: string) => `{"name":${JSON.stringify(name)},"type":"unknown"}`
