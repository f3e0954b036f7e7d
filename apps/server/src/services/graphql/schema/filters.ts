// Input types of filters on values.

import type { GraphQLInputType } from 'graphql'
import {
  GraphQLEnumType,
  type GraphQLInputFieldConfigMap,
  GraphQLInputObjectType,
  GraphQLList,
} from 'graphql'
import type { ScalarName, ValueType } from './model.ts'
import { filterName } from './type-names.ts'

const equality = ['eq', 'neq', 'in', 'is']
const order = ['eq', 'neq', 'lt', 'lte', 'gt', 'gte', 'in', 'is']

const operators: Record<ScalarName, readonly string[]> = {
  Int: order,
  BigInt: order,
  BigFloat: order,
  Float: order,
  String: [...order, 'startsWith', 'like', 'ilike', 'regex', 'iregex'],
  Boolean: ['eq', 'is'],
  UUID: equality,
  Date: order,
  Time: order,
  Datetime: order,
  JSON: [],
  Opaque: ['eq', 'is'],
}
const listOperators = ['contains', 'containedBy', 'overlaps', 'eq', 'is']

export const filterIs = new GraphQLEnumType({ name: 'FilterIs', values: { NULL: {}, NOT_NULL: {} } })

/** Undefined for types without operators. */
export type FilterOf = (type: ValueType) => GraphQLInputObjectType | undefined

export function createFilters(inputType: (of: ValueType['of']) => GraphQLInputType): FilterOf {
  const known = new Map<string, GraphQLInputObjectType>()

  function fieldsOf({ of, isList }: ValueType): GraphQLInputFieldConfigMap {
    const element = inputType(of)
    const list = new GraphQLList(element)
    const names = isList ? listOperators : typeof of === 'string' ? operators[of] : equality
    return Object.fromEntries(
      names.map(name => {
        const type = name === 'is' ? filterIs : isList || name === 'in' ? list : element
        return [name, { type }]
      }),
    )
  }

  return type => {
    const { of, isList } = type
    if (of === 'JSON') return
    const name = filterName(typeof of === 'string' ? of : of.name, isList)
    const filter = known.get(name) ?? new GraphQLInputObjectType({ name, fields: fieldsOf(type) })
    known.set(name, filter)
    return filter
  }
}
