// Why a subscription will hear nothing, for whoever made it.
import { identifier } from '#src/kernel/postgres/sql.ts'
import type { Tenant } from '#src/tenancy/directory.ts'
import type { Binding, ChangeSubscriber } from '../subscriber.ts'
import type { Captured } from './capture.ts'
import { BadFilter, type Condition, conditionSql, isLookedUp, parseFilter } from './filters.ts'
import type { Gate } from './gate.ts'
import { relationOf } from './matching.ts'
import type { ChangesStore, TableFacts } from './store.ts'
import { selectable } from './telling.ts'

/** Undefined when nothing is. */
export async function whatIsWrong(
  { bindings, caller }: ChangeSubscriber,
  captured: Captured,
  store: ChangesStore,
  gate: Gate,
  tenant: Tenant,
): Promise<string | undefined> {
  const filters = new Map<string, Condition[]>()
  for (const binding of bindings) {
    const found = look(binding, captured)
    if (typeof found === 'string') return found
    if (found) filters.set(found.relid, [...(filters.get(found.relid) ?? []), ...found.conditions])
  }
  if (filters.size === 0) return
  const facts = await store.facts([...filters.keys()])
  for (const [relid, conditions] of filters) {
    const table = facts.get(relid)
    const fault =
      table && (await filterFault(conditions, table, selectable(table, caller.role), gate, tenant))
    if (fault !== undefined) return fault
  }
  return
}

/** What is wrong with a binding in itself, or the filter that is left to be looked at. */
function look(
  { schema, table, filter }: Binding,
  captured: Captured,
): string | { relid: string; conditions: Condition[] } | undefined {
  if (schema !== 'public' && schema !== '*')
    return `Changes are captured in schema public only, not in ${schema}`
  let conditions: Condition[] = []
  try {
    if (filter) conditions = parseFilter(filter)
  } catch (error) {
    if (error instanceof BadFilter) return error.message
    throw error
  }
  if (table === undefined || table === '*') return
  const found = captured.tables.values().find(each => each.schema === 'public' && each.name === table)
  if (!found) return `There is no table public.${table}; changes will come when there is`
  if (!found.isWanted) return `Changes of public.${table} are switched off`
  return conditions.length > 0 ? { relid: found.relid, conditions } : undefined
}

async function filterFault(
  conditions: readonly Condition[],
  table: TableFacts,
  may: readonly string[],
  gate: Gate,
  tenant: Tenant,
): Promise<string | undefined> {
  const strange = conditions.find(({ column }) => !may.includes(column))
  if (strange)
    return `The filter names ${strange.column}, which is no column of ${table.name} for this subscriber`
  const asked = conditions.filter(condition => !isLookedUp(condition, table))
  if (asked.length === 0) return
  const sql = [...new Set(asked.map(conditionSql))]
  if (await gate.match(tenant, relationOf(table), identifier(table.name), sql, [])) return
  const columns = [...new Set(asked.map(({ column }) => column))].join(', ')
  return `The filter on ${columns} does not fit the type of that column`
}
