// Finds the fields of an entity by name.
import type { ColumnField, Entity, LinkField } from './model.ts'

interface ByName {
  readonly columns: ReadonlyMap<string, ColumnField>
  readonly links: ReadonlyMap<string, LinkField>
}

const known = new WeakMap<Entity, ByName>()

export function fieldsByName(entity: Entity): ByName {
  const found = known.get(entity)
  if (found) return found
  const named = <F extends { name: string }>(fields: readonly F[]) =>
    new Map(fields.map(field => [field.name, field]))
  const made = { columns: named(entity.columns), links: named(entity.links) }
  known.set(entity, made)
  return made
}
