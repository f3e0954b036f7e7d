// Finds out why a subscription will receive no changes. The message is sent to the subscriber.
import { identifier } from '#src/kernel/postgres/sql.ts'
import type { Tenant } from '#src/tenancy/directory.ts'
import type { Binding, ChangeSubscriber } from '../subscriber.ts'
import type { Captured } from './capture.ts'
import { selectableColumns } from './encode.ts'
import { type Condition, conditionSql, InvalidFilter, isDecidedLocally, parseFilter } from './filters.ts'
import { relationOf } from './matching.ts'
import type { PolicyChecks } from './policy-checks.ts'
import type { ChangesStore, TableFacts } from './store.ts'

/** Undefined if the subscription is valid. */
export async function findSubscriptionError(
  { bindings, caller }: ChangeSubscriber,
  captured: Captured,
  store: ChangesStore,
  policyChecks: PolicyChecks,
  tenant: Tenant,
): Promise<string | undefined> {
  const filters = new Map<string, Condition[]>()
  for (const binding of bindings) {
    const found = checkBinding(binding, captured)
    if (typeof found === 'string') return found
    if (found) filters.set(found.relid, [...(filters.get(found.relid) ?? []), ...found.conditions])
  }
  if (filters.size === 0) return
  const facts = await store.facts([...filters.keys()])
  for (const [relid, conditions] of filters) {
    const table = facts.get(relid)
    const error =
      table &&
      (await findFilterError(conditions, table, selectableColumns(table, caller.role), policyChecks, tenant))
    if (error !== undefined) return error
  }
  return
}

/** The error of a binding, or the conditions that still have to be checked against the table. */
function checkBinding(
  { schema, table, filter }: Binding,
  captured: Captured,
): string | { relid: string; conditions: Condition[] } | undefined {
  if (schema !== 'public' && schema !== '*')
    return `Changes are captured in schema public only, not in ${schema}`
  let conditions: Condition[] = []
  try {
    if (filter) conditions = parseFilter(filter)
  } catch (error) {
    if (error instanceof InvalidFilter) return error.message
    throw error
  }
  if (table === undefined || table === '*') return
  const found = captured.tables.values().find(each => each.schema === 'public' && each.name === table)
  if (!found) return `There is no table public.${table}; changes will come when there is`
  if (!found.isWanted) return `Changes of public.${table} are switched off`
  return conditions.length > 0 ? { relid: found.relid, conditions } : undefined
}

async function findFilterError(
  conditions: readonly Condition[],
  table: TableFacts,
  permitted: readonly string[],
  policyChecks: PolicyChecks,
  tenant: Tenant,
): Promise<string | undefined> {
  const unknown = conditions.find(({ column }) => !permitted.includes(column))
  if (unknown)
    return `The filter names ${unknown.column}, which is no column of ${table.name} for this subscriber`
  const evaluated = conditions.filter(condition => !isDecidedLocally(condition, table))
  if (evaluated.length === 0) return
  const sql = [...new Set(evaluated.map(conditionSql))]
  if (await policyChecks.evaluate(tenant, relationOf(table), identifier(table.name), sql, [])) return
  const columns = [...new Set(evaluated.map(({ column }) => column))].join(', ')
  return `The filter on ${columns} does not fit the type of that column`
}
