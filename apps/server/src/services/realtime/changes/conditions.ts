// Conditions of filters that only Postgres can decide. All are asked at once; if that cannot be answered, group by group, the
// modest first, and a group whose filters take too long or make no sense is not asked about for a while.
import { identifier } from '#src/kernel/postgres/sql.ts'
import type { Tenant } from '#src/tenancy/directory.ts'
import { conditionSql, isLookedUp } from './filters.ts'
import type { Gate } from './gate.ts'
import type { Group, Groups } from './groups.ts'
import { type Answers, isOfTable, relationOf } from './matching.ts'
import type { TableFacts } from './store.ts'
import type { Change } from './telling.ts'

export interface Decided {
  readonly answers: Answers
  /** Groups about whose filters nothing is known. */
  readonly unasked: ReadonlySet<Group>
}

export type Conditions = ReturnType<typeof createConditions>

const mostAtOnce = 1000
const groupsMs = 2000
const restMs = 60_000

export function createConditions(gate: Gate) {
  const resting = new Map<string, number>()

  async function decide(tenant: Tenant, groups: Groups, changes: readonly Change[]): Promise<Decided> {
    const answers = new Map<Change, Map<string, boolean>>()
    const unasked = new Set<Group>()
    for (const [table, those] of Map.groupBy(changes, ({ table }) => table)) {
      const wanted = new Map<Group, string[]>()
      for (const group of groups) {
        const conditions = conditionsOn(group, table)
        if (conditions.length === 0) continue
        if (isResting(group)) unasked.add(group)
        else wanted.set(group, conditions)
      }
      if (wanted.size === 0) continue
      const readable = those.filter(change => filteredLine(change) !== undefined)
      const ask = async (conditions: readonly string[]): Promise<boolean> => {
        const lines = await gate.match(
          tenant,
          relationOf(table),
          identifier(table.name),
          conditions,
          readable.map(change => filteredLine(change)!),
        )
        if (!lines) return false
        for (const [index, change] of readable.entries()) {
          const known = answers.get(change) ?? new Map<string, boolean>()
          answers.set(change, known)
          for (const [at, condition] of conditions.entries()) known.set(condition, lines[index]![at] === '1')
        }
        return true
      }
      const all = [...new Set([...wanted.values()].flat())]
      if (all.length > mostAtOnce || !(await ask(all)))
        for (const group of await askEach(wanted, ask)) unasked.add(group)
    }
    return { answers, unasked }
  }

  function isResting({ key }: Group): boolean {
    if ((resting.get(key) ?? 0) < performance.now()) resting.delete(key)
    return resting.has(key)
  }

  /** Those that could not be. */
  async function askEach(
    wanted: ReadonlyMap<Group, string[]>,
    ask: (conditions: readonly string[]) => Promise<boolean>,
  ): Promise<Group[]> {
    const left: Group[] = []
    const until = performance.now() + groupsMs
    for (const [group, conditions] of [...wanted].toSorted(([, a], [, b]) => a.length - b.length)) {
      const isTried = performance.now() < until && conditions.length <= mostAtOnce
      if (isTried && (await ask(conditions))) continue
      if (isTried) resting.set(group.key, performance.now() + restMs)
      left.push(group)
    }
    return left
  }

  return decide
}

function conditionsOn({ wishes }: Group, table: TableFacts): string[] {
  const found = new Set<string>()
  for (const { binding, conditions } of wishes)
    if (isOfTable(binding, table))
      for (const condition of conditions ?? [])
        if (table.columns.some(({ name }) => name === condition.column) && !isLookedUp(condition, table))
          found.add(conditionSql(condition))
  return [...found]
}

const filteredLine = ({ event, newRow, oldRow }: Change) => (event === 'DELETE' ? oldRow : newRow)
