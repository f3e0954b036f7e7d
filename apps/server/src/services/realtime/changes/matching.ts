// Which bindings of a channel a change matches, by the rules of specification 1 §6.
import type { Role } from '@plinth/contract/route.ts'
import { identifier } from '#src/kernel/postgres/sql.ts'
import type { Binding } from '../subscriber.ts'
import { type Condition, conditionSql, holds, isLookedUp, wantedValues } from './filters.ts'
import { columnsOf } from './row-text.ts'
import type { TableFacts } from './store.ts'
import { type Change, selectable } from './telling.ts'

/** A binding with its filter read. */
export interface Wish {
  readonly binding: Binding
  /** Undefined where the filter is none: it matches nothing. */
  readonly conditions: readonly Condition[] | undefined
}

/** What Postgres said about conditions that are not looked up here. */
export type Answers = ReadonlyMap<Change, ReadonlyMap<string, boolean>>

const isService = (role: Role) => role === 'service_role'

/** Rules 5, 7 and 8, and whether the role may use the table at all. */
export function mayHear(change: Change, role: Role): boolean {
  const { table, keys } = change
  if (isService(role)) return true
  if (!table.isSecured && !table.isPublic) return false
  if (keys && table.key.length === 0) return false
  return selectable(table, role).length > 0
}

const isAbout = (binding: Binding, { event, table }: Change): boolean =>
  (binding.event === '*' || binding.event === event) && isOfTable(binding, table)

export const isOfTable = (
  { schema, table }: Binding,
  found: { readonly schema: string; readonly name: string },
): boolean =>
  (schema === '*' || schema === found.schema) &&
  (table === undefined || table === '*' || table === found.name)

/** Filters look at the row as it is now, those of a DELETE at the row that was. */
export function matches(wish: Wish, change: Change, role: Role, answers: Answers): boolean {
  const { conditions } = wish
  if (!conditions || !isAbout(wish.binding, change)) return false
  if (conditions.length === 0) return true
  if (!conditions.every(condition => mayFilter(condition, change, role))) return false
  return conditions.every(condition =>
    isLookedUp(condition, change.table)
      ? holds(condition, wantedValues(condition, change.table)!, columnText(change, condition.column))
      : (answers.get(change)?.get(conditionSql(condition)) ?? false),
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

const parsed = new WeakMap<Change, Map<string, string>>()
function columnText(change: Change, column: string): string | undefined {
  let columns = parsed.get(change)
  if (!columns) {
    columns = columnsOf(filteredRow(change) ?? '{}')
    parsed.set(change, columns)
  }
  return columns.get(column)
}

/** The row that filters look at, as it is told. */
function filteredRow({ event, keys, ...change }: Change): string | undefined {
  const side = event === 'DELETE' ? 'old' : 'new'
  return keys ? keys[side] : change[side]
}

export const relationOf = ({ schema, name }: TableFacts) => `${identifier(schema)}.${identifier(name)}`
