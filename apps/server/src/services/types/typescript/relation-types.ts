// Types of tables and views: Row, Insert, Update and Relationships.
import type { Column, Relation, Relationship } from '#src/query/description.ts'
import { block, byText, indent, key, list, quote } from './text.ts'
import type { ValueTypes } from './value-types.ts'

export function relationType(relation: Relation, values: ValueTypes): string {
  const isTable = relation.kind === 'table'
  const given = relation.columns.filter(
    ({ isGenerated, identity, isUpdatable }) =>
      !isGenerated && identity !== 'always' && (isTable || isUpdatable),
  )
  // The underlying table or the trigger of a view decides which values are required.
  const written = (column: Column) =>
    isTable ? values.columnType(column) : `${values.typeOf(column.type)} | null`
  const insert = given.map(
    each => `${key(each.name)}${isTable && isRequired(each) ? '' : '?'}: ${written(each)}`,
  )
  const update = given.map(each => `${key(each.name)}?: ${written(each)}`)
  const { computed } = relation
  return block([
    `Row: ${rowType(relation, values)}`,
    ...(isTable || relation.isInsertable ? [`Insert: ${block(insert.toSorted(byText))}`] : []),
    ...(isTable || relation.isUpdatable ? [`Update: ${block(update.toSorted(byText))}`] : []),
    `Relationships: ${relationshipsType(relation)}`,
    ...(computed.length > 0
      ? [`ComputedFields: ${computed.map(({ name }) => quote(name)).join(' | ')}`]
      : []),
  ])
}

function rowType({ columns, computed }: Relation, { columnType, typeOf }: ValueTypes): string {
  const lines = [
    ...columns.map(column => `${key(column.name)}: ${columnType(column)}`),
    ...computed.map(({ name, type }) => `${key(name)}: ${typeOf(type)} | null`),
  ]
  return block(lines.toSorted(byText))
}

const isRequired = ({ isNullable, default: value, identity }: Column) =>
  !isNullable && value === null && identity === null

/** Only within a schema, because embeds do not cross schemas. */
function relationshipsType({ relationships, schema }: Relation): string {
  const own = relationships.filter(({ referencedSchema }) => referencedSchema === schema)
  if (own.length === 0) return '[]'
  return `[\n${own.map(each => indent(`${relationshipType(each)},`)).join('\n')}\n]`
}

const relationshipType = (each: Relationship): string =>
  block([
    `foreignKeyName: ${quote(each.name)}`,
    `columns: ${list(each.columns)}`,
    `isOneToOne: ${each.isOneToOne}`,
    `referencedRelation: ${quote(each.referencedRelation)}`,
    `referencedColumns: ${list(each.referencedColumns)}`,
  ])
