// Finds what must be dropped before something else can be dropped or changed.
import type { Sliced } from '#src/kernel/slices.ts'
import { groupBy, sliceCounter } from './collections.ts'
import type { TableChange } from './column-changes.ts'
import type { Definition } from './definitions-store.ts'
import type { Schema } from './schema.ts'

/** Ids of everything on which these definitions depend, also by way of others. */
export function* neededBy({ needs }: Pick<Schema, 'needs'>, ids: readonly string[]): Sliced<Set<string>> {
  const isComplete = sliceCounter()
  const needed = yield* groupBy(needs, each => each.from)
  const found = new Set<string>()
  const waiting = [...ids]
  for (let id = waiting.pop(); id !== undefined; id = waiting.pop()) {
    if (isComplete()) yield
    for (const { to } of needed.get(id) ?? []) {
      if (isComplete()) yield
      if (found.has(to)) continue
      found.add(to)
      waiting.push(to)
    }
  }
  return found
}

/** Ids of these definitions and of all that depend on them, or on a column that is dropped or changes its type. */
export function* removedWith(
  { definitions, needs }: Pick<Schema, 'definitions' | 'needs'>,
  ids: readonly string[],
  tables: ReadonlyMap<string, TableChange>,
  canBeRemoved: (definition: Definition) => boolean,
): Sliced<Set<string>> {
  const isComplete = sliceCounter()
  const byId = new Map<string, Definition>()
  for (const definition of definitions) {
    if (isComplete()) yield
    byId.set(definition.id, definition)
  }
  const dependents = yield* groupBy(needs, each => each.to)
  const removed = new Set(ids)
  const waiting = [...ids]
  const remove = (id: string) => {
    const definition = byId.get(id)
    if (!definition || removed.has(id) || !canBeRemoved(definition)) return
    removed.add(id)
    waiting.push(id)
  }
  for (const [table, { dropped, retyped }] of tables)
    for (const { from, columns } of dependents.get(table) ?? []) {
      if (isComplete(1 + columns.length)) yield
      const isOf = (changed: ReadonlySet<string>) => columns.some(column => changed.has(column))
      if (isOf(dropped) || (isOf(retyped) && blocksType(from, byId.get(from)))) remove(from)
    }
  for (let id = waiting.pop(); id !== undefined; id = waiting.pop()) {
    if (isComplete()) yield
    for (const { from } of dependents.get(id) ?? []) {
      if (isComplete()) yield
      remove(from)
    }
  }
  return removed
}

/** Postgres changes the type below indexes and most constraints, and refuses it below all else. */
const blocksType = (id: string, definition: Definition | undefined) =>
  /^(?:pg_rewrite|pg_policy|pg_trigger|pg_proc|pg_attrdef):/.test(id) ||
  definition?.rank === 7 ||
  definition?.rank === 10
