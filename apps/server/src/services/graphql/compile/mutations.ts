// The change that a field of a mutation asks for.
import type { Change, PayloadColumns } from '#src/query/items.ts'
import type { Where } from '#src/query/level.ts'
import type { ColumnField, Entity } from '../schema/model.ts'
import type { Compilation } from './compilation.ts'
import type { SelectedField } from './fields.ts'
import { filterOf } from './filters.ts'
import type { Given } from './given.ts'
import { DocumentProblem } from './problem.ts'

export interface WantedChange {
  readonly change: Change
  readonly where: readonly Where[]
  /** The index of the maximum number of rows in the values. */
  readonly atMost?: number
  /** How many rows the answer may show. */
  readonly rows: number
}

export function changeOf(
  compilation: Compilation,
  entity: Entity,
  kind: 'insert' | 'update' | 'delete',
  field: SelectedField,
): WantedChange {
  if (kind === 'insert') return insertOf(compilation, entity, field)
  const given = field.argument('atMost')
  const most = compilation.decides<number>(given) ?? 1
  if (most < 0) throw new DocumentProblem(`"atMost" of "${field.fieldName}" must not be negative`)
  const atMost = compilation.slot({ as: 'text', of: { constant: most } })
  const where = filterOf(compilation, entity, field.argument('filter'))
  compilation.countRows(most)
  if (kind === 'delete') return { change: { kind: 'delete' }, where, atMost, rows: most }
  const set = field.argument('set')!
  const names = set.fields().map(([name]) => ({ name, isSparse: false }))
  if (names.length === 0) throw new DocumentProblem(`"set" of "${field.fieldName}" has no field`)
  const payload = payloadOf(compilation, entity.updatable, set, names, false)
  return { change: { kind: 'update', payload }, where, atMost, rows: most }
}

function insertOf(compilation: Compilation, entity: Entity, field: SelectedField): WantedChange {
  const objects = field.argument('objects')!
  const items = objects.items()
  if (items.length === 0) throw new DocumentProblem(`"objects" of "${field.fieldName}" is empty`)
  const counts = new Map<string, number>()
  for (const item of items) for (const [name] of item.fields()) counts.set(name, (counts.get(name) ?? 0) + 1)
  const names = [...counts].map(([name, count]) => ({ name, isSparse: count < items.length }))
  const payload = payloadOf(compilation, entity.insertable, objects, names, true)
  const conflict = conflictOf(field.argument('onConflict'))
  compilation.countRows(items.length)
  return { change: { kind: 'insert', payload, conflict }, where: [], rows: items.length }
}

function conflictOf(given: Given | undefined) {
  if (!given || given.value === null) return
  const fields = new Map(given.fields())
  const columns = fields.get('columns')?.value as string[] | null | undefined
  return {
    merges: (fields.get('action')?.value ?? 'UPDATE') === 'UPDATE',
    columns: columns ?? undefined,
  }
}

/** Every value is text, as Postgres reads it. */
function payloadOf(
  compilation: Compilation,
  writable: readonly ColumnField[],
  given: Given,
  names: readonly { name: string; isSparse: boolean }[],
  isArray: boolean,
): PayloadColumns {
  const columnNames = new Map(writable.map(({ name, column }) => [name, column.name]))
  const columns = names.map(({ name }) => [name, columnNames.get(name)!] as const)
  return {
    columns: names.map(({ name, isSparse }) => ({ name: columnNames.get(name)!, isSparse })),
    isArray,
    isText: true,
    slot: compilation.slot({ as: isArray ? 'rows' : 'row', of: given.origin, columns }),
  }
}
