// Types of the aggregates of a table.
import {
  GraphQLBoolean,
  type GraphQLFieldConfigMap,
  GraphQLInt,
  GraphQLNonNull,
  GraphQLObjectType,
  type GraphQLOutputType,
} from 'graphql'
import { withMeaning } from './extensions.ts'
import { type ColumnField, type Entity, isScalar, type ValueType } from './model.ts'
import { scalars } from './scalars.ts'

const isNumeric = ({ type }: ColumnField) => isScalar(type, 'Int', 'BigInt', 'BigFloat', 'Float')
const isComparable = (field: ColumnField) =>
  isNumeric(field) || isScalar(field.type, 'String', 'Boolean', 'Date', 'Time', 'Datetime')

export function aggregateType(
  entity: Entity,
  scalar: (of: ValueType['of']) => GraphQLOutputType,
): GraphQLObjectType {
  const { name, columns } = entity
  const result = (
    suffix: string,
    of: readonly ColumnField[],
    typeOf: (field: ColumnField) => GraphQLOutputType,
  ) =>
    new GraphQLObjectType({
      name: `${name}${suffix}AggregateResult`,
      fields: Object.fromEntries(
        of.map(field => [
          field.name,
          { type: typeOf(field), extensions: withMeaning({ kind: 'aggregated column', field }) },
        ]),
      ),
    })
  const numeric = columns.filter(isNumeric)
  const comparable = columns.filter(isComparable)
  const fields: GraphQLFieldConfigMap<unknown, unknown> = {
    count: { type: new GraphQLNonNull(GraphQLInt), extensions: withMeaning({ kind: 'aggregate count' }) },
  }
  const add = (
    call: 'sum' | 'avg' | 'min' | 'max',
    suffix: string,
    of: readonly ColumnField[],
    typeOf: (field: ColumnField) => GraphQLOutputType,
  ) => {
    if (of.length > 0)
      fields[call] = {
        type: new GraphQLNonNull(result(suffix, of, typeOf)),
        extensions: withMeaning({ kind: 'aggregates', call }),
      }
  }
  add('sum', 'Sum', numeric, ({ type }) => (isScalar(type, 'Int') ? scalars.BigInt : scalars.BigFloat))
  add('avg', 'Avg', numeric, () => scalars.BigFloat)
  // Postgres has no minimum of booleans; it is that of their numbers.
  add('min', 'Min', comparable, ({ type }) => (isScalar(type, 'Boolean') ? GraphQLBoolean : scalar(type.of)))
  add('max', 'Max', comparable, ({ type }) => (isScalar(type, 'Boolean') ? GraphQLBoolean : scalar(type.of)))
  return new GraphQLObjectType({ name: `${name}Aggregate`, fields })
}
