// Matches changes against the bindings of a channel, by the rules of specification 1 §6.
import type { Role } from '@plinth/contract/route.ts'
import { identifier } from '#src/kernel/postgres/sql.ts'
import type { Binding } from '../subscriber.ts'
import { type Change, selectableColumns } from './encode.ts'
import { type Condition, conditionSql, expectedValues, holds, isDecidedLocally } from './filters.ts'
import { columnsOf } from './row-text.ts'
import type { TableFacts } from './store.ts'

/** A binding with its filter parsed. */
export interface ParsedBinding {
  readonly binding: Binding
  /** Undefined if the filter is invalid; then the binding matches nothing. */
  readonly conditions: readonly Condition[] | undefined
}

/** Results of the conditions that Postgres evaluated, by SQL text. */
export type ConditionResults = ReadonlyMap<Change, ReadonlyMap<string, boolean>>

const isService = (role: Role) => role === 'service_role'

/** Rules 5, 7 and 8, and whether the role may select from the table at all. */
export function mayReceive(change: Change, role: Role): boolean {
  const { table, keys } = change
  if (isService(role)) return true
  if (!table.isSecured && !table.isPublic) return false
  if (keys && table.key.length === 0) return false
  return selectableColumns(table, role).length > 0
}

const covers = (binding: Binding, { event, table }: Change): boolean =>
  (binding.event === '*' || binding.event === event) && coversTable(binding, table)

export const coversTable = (
  { schema, table }: Binding,
  found: { readonly schema: string; readonly name: string },
): boolean =>
  (schema === '*' || schema === found.schema) &&
  (table === undefined || table === '*' || table === found.name)

/** Filters apply to the new row, for a DELETE to the old row. */
export function matches(
  parsed: ParsedBinding,
  change: Change,
  role: Role,
  results: ConditionResults,
): boolean {
  const { conditions } = parsed
  if (!conditions || !covers(parsed.binding, change)) return false
  if (conditions.length === 0) return true
  if (!conditions.every(condition => mayFilter(condition, change, role))) return false
  return conditions.every(condition =>
    isDecidedLocally(condition, change.table)
      ? holds(condition, expectedValues(condition, change.table)!, columnValue(change, condition.column))
      : (results.get(change)?.get(conditionSql(condition)) ?? false),
  )
}

function mayFilter({ column }: Condition, { table, event, keys }: Change, role: Role): boolean {
  const isKey = table.key.includes(column)
  if (keys && !isKey) return false
  if (event === 'DELETE' && !isService(role) && !isKey) return false
  return isService(role)
    ? table.columns.some(({ name }) => name === column)
    : table.columns.some(each => each.name === column && each[role as 'anon'])
}

const columnsByChange = new WeakMap<Change, Map<string, string>>()
function columnValue(change: Change, column: string): string | undefined {
  let columns = columnsByChange.get(change)
  if (!columns) {
    columns = columnsOf(filterRow(change) ?? '{}')
    columnsByChange.set(change, columns)
  }
  return columns.get(column)
}

/** The row that filters apply to, as JSON text. */
function filterRow({ event, keys, ...change }: Change): string | undefined {
  const side = event === 'DELETE' ? 'old' : 'new'
  return keys ? keys[side] : change[side]
}

export const relationOf = ({ schema, name }: TableFacts) => `${identifier(schema)}.${identifier(name)}`
