// Evaluates the filter conditions that only Postgres can decide, all in one query. If that query fails, each group gets its
// own, those with the fewest conditions first. A group whose query fails or times out is skipped for a while.
import { identifier } from '#src/kernel/postgres/sql.ts'
import type { Tenant } from '#src/tenancy/directory.ts'
import type { Change } from './encode.ts'
import { conditionSql, isDecidedLocally } from './filters.ts'
import type { Group, Groups } from './groups.ts'
import { type ConditionResults, coversTable, relationOf } from './matching.ts'
import type { PolicyChecks } from './policy-checks.ts'
import type { TableFacts } from './store.ts'

export interface EvaluatedConditions {
  readonly results: ConditionResults
  /** Groups whose conditions could not be evaluated. */
  readonly unevaluated: ReadonlySet<Group>
}

export type Conditions = ReturnType<typeof createConditions>

const maxConditions = 1000
const perGroupBudgetMs = 2000
const backOffMs = 60_000

export function createConditions(policyChecks: PolicyChecks) {
  const backedOffUntil = new Map<string, number>()

  async function evaluate(
    tenant: Tenant,
    groups: Groups,
    changes: readonly Change[],
  ): Promise<EvaluatedConditions> {
    const results = new Map<Change, Map<string, boolean>>()
    const unevaluated = new Set<Group>()
    for (const [table, tableChanges] of Map.groupBy(changes, ({ table }) => table)) {
      const pending = new Map<Group, string[]>()
      for (const group of groups) {
        const conditions = conditionsOn(group, table)
        if (conditions.length === 0) continue
        if (isBackedOff(group)) unevaluated.add(group)
        else pending.set(group, conditions)
      }
      if (pending.size === 0) continue
      const readable = tableChanges.filter(change => filterRow(change) !== undefined)
      const query = async (conditions: readonly string[]): Promise<boolean> => {
        const rows = await policyChecks.evaluate(
          tenant,
          relationOf(table),
          identifier(table.name),
          conditions,
          readable.map(change => filterRow(change)!),
        )
        if (!rows) return false
        for (const [index, change] of readable.entries()) {
          const byCondition = results.get(change) ?? new Map<string, boolean>()
          results.set(change, byCondition)
          for (const [at, condition] of conditions.entries())
            byCondition.set(condition, rows[index]![at] === '1')
        }
        return true
      }
      const all = [...new Set([...pending.values()].flat())]
      if (all.length > maxConditions || !(await query(all)))
        for (const group of await evaluateEach(pending, query)) unevaluated.add(group)
    }
    return { results, unevaluated }
  }

  function isBackedOff({ key }: Group): boolean {
    if ((backedOffUntil.get(key) ?? 0) < performance.now()) backedOffUntil.delete(key)
    return backedOffUntil.has(key)
  }

  /** Returns the groups that could not be evaluated. */
  async function evaluateEach(
    pending: ReadonlyMap<Group, string[]>,
    query: (conditions: readonly string[]) => Promise<boolean>,
  ): Promise<Group[]> {
    const unevaluated: Group[] = []
    const until = performance.now() + perGroupBudgetMs
    for (const [group, conditions] of [...pending].toSorted(([, a], [, b]) => a.length - b.length)) {
      const isAttempted = performance.now() < until && conditions.length <= maxConditions
      if (isAttempted && (await query(conditions))) continue
      if (isAttempted) backedOffUntil.set(group.key, performance.now() + backOffMs)
      unevaluated.push(group)
    }
    return unevaluated
  }

  return evaluate
}

function conditionsOn({ bindings }: Group, table: TableFacts): string[] {
  const found = new Set<string>()
  for (const { binding, conditions } of bindings)
    if (coversTable(binding, table))
      for (const condition of conditions ?? [])
        if (
          table.columns.some(({ name }) => name === condition.column) &&
          !isDecidedLocally(condition, table)
        )
          found.add(conditionSql(condition))
  return [...found]
}

const filterRow = ({ event, newRow, oldRow }: Change) => (event === 'DELETE' ? oldRow : newRow)
