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
  subscriber: ChangeSubscriber,
  captured: Captured,
  store: ChangesStore,
  gate: Gate,
  tenant: Tenant,
): Promise<string | undefined> {
  for (const binding of subscriber.bindings) {
    const wrong = await bindingFault(binding, subscriber, captured, store, gate, tenant)
    if (wrong !== undefined) return wrong
  }
  return
}

async function bindingFault(
  binding: Binding,
  { caller }: ChangeSubscriber,
  captured: Captured,
  store: ChangesStore,
  gate: Gate,
  tenant: Tenant,
): Promise<string | undefined> {
  const { schema, table, filter } = binding
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
  if (conditions.length === 0) return
  const facts = (await store.facts([found.relid])).get(found.relid)
  if (!facts) return `There is no table public.${table}; changes will come when there is`
  return filterFault(conditions, facts, selectable(facts, caller.role), gate, tenant)
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
  for (const condition of conditions) {
    if (isLookedUp(condition, table)) continue
    const answer = await gate.match(
      tenant,
      relationOf(table),
      identifier(table.name),
      [conditionSql(condition)],
      [],
    )
    if (!answer) return `The filter on ${condition.column} does not fit the type of that column`
  }
  return
}
