// The types of mutations of a table.
import {
  GraphQLEnumType,
  type GraphQLFieldConfigMap,
  GraphQLInputObjectType,
  type GraphQLInputType,
  GraphQLInt,
  GraphQLList,
  GraphQLNonNull,
  type GraphQLNullableInputType,
  type GraphQLNullableType,
  GraphQLObjectType,
} from 'graphql'
import { withMeaning } from './extensions.ts'
import type { ColumnField, Entity, ValueType } from './model.ts'

type Fields = GraphQLFieldConfigMap<unknown, unknown>

/** Types of the schema that mutations use. */
interface EntityTypes {
  row(entity: Entity): GraphQLObjectType
  filter(entity: Entity): GraphQLInputObjectType
  value(type: ValueType): GraphQLInputType & GraphQLNullableInputType
}

const nonNull = <T extends GraphQLNullableType>(type: T) => new GraphQLNonNull(type)
const listOf = <T extends GraphQLNullableType>(type: T) => new GraphQLList(nonNull(type))

const onConflictAction = new GraphQLEnumType({
  name: 'OnConflictAction',
  values: {
    UPDATE: { description: 'Updates the existing row with the given values' },
    NOTHING: { description: 'Keeps the existing row as it is' },
  },
})

/** Fields of the mutation. Only what the role may do. */
export function mutationsOf(entity: Entity, types: EntityTypes): Fields {
  const fields: Fields = {}
  const { name } = entity
  const response = (kind: string) =>
    new GraphQLObjectType({
      name: `${name}${kind}Response`,
      fields: () => ({
        affectedCount: { type: nonNull(GraphQLInt), description: 'Number of rows that changed' },
        records: { type: nonNull(listOf(types.row(entity))), description: 'The rows' },
      }),
    })
  const data = (kind: string, columns: readonly ColumnField[]) =>
    new GraphQLInputObjectType({
      name: `${name}${kind}Input`,
      fields: Object.fromEntries(
        columns.map(field => [
          field.name,
          {
            type: types.value(field.type),
            description: field.description,
          },
        ]),
      ),
    })
  const atMost = {
    type: nonNull(GraphQLInt),
    default: { value: 1 },
    description: 'The mutation fails if more rows match',
  }
  if (entity.insertable.length > 0)
    fields[`insertInto${name}Collection`] = {
      description: `Adds rows to ${name}`,
      type: response('Insert'),
      args: {
        objects: { type: nonNull(listOf(data('Insert', entity.insertable))) },
        ...conflictArgument(entity),
      },
      extensions: withMeaning({ kind: 'insert', entity }),
    }
  if (entity.updatable.length > 0)
    fields[`update${name}Collection`] = {
      description: `Changes rows of ${name}`,
      type: nonNull(response('Update')),
      args: {
        set: { type: nonNull(data('Update', entity.updatable)) },
        filter: { type: types.filter(entity) },
        atMost,
      },
      extensions: withMeaning({ kind: 'update', entity }),
    }
  if (entity.isDeletable)
    fields[`deleteFrom${name}Collection`] = {
      description: `Deletes rows of ${name}`,
      type: nonNull(response('Delete')),
      args: { filter: { type: types.filter(entity) }, atMost },
      extensions: withMeaning({ kind: 'delete', entity }),
    }
  return fields
}

function conflictArgument(entity: Entity) {
  const { name } = entity
  const column = new GraphQLEnumType({
    name: `${name}Column`,
    values: Object.fromEntries(
      entity.columns.map(field => [field.name, { value: field.column.name, description: field.description }]),
    ),
  })
  const type = new GraphQLInputObjectType({
    name: `${name}OnConflict`,
    fields: {
      columns: {
        type: listOf(column),
        description: 'Columns of a unique constraint; by default, the primary key',
      },
      action: { type: nonNull(onConflictAction), default: { value: 'UPDATE' } },
    },
  })
  return { onConflict: { type, description: 'What to do with rows that exist already' } }
}
