// The shape of variables: everything about them that a plan depends on. Requests with the same shape share a plan.
import {
  type GraphQLInputType,
  isEnumType,
  isInputObjectType,
  isListType,
  isNonNullType,
  isScalarType,
} from 'graphql'
import type { Deciding } from './compilation.ts'
import type { Variables } from './given.ts'
import { nodeIdIn } from './values.ts'

export function shapeOf(
  types: ReadonlyMap<string, GraphQLInputType>,
  variables: Variables,
  deciding: Deciding,
): string {
  const parts: unknown[] = [[...deciding]]
  for (const [name, type] of types) {
    if (!(name in variables)) continue
    const value = variables[name]
    const how = deciding.get(name)
    if (how === 'value') parts.push([name, '=', value])
    else if (how === 'table' && value !== null) parts.push([name, '=', nodeIdShape(value)])
    else parts.push([name, valueShape(type, value)])
  }
  return JSON.stringify(parts)
}

function nodeIdShape(value: unknown): unknown[] {
  const [schema, table, ...key] = nodeIdIn(value)
  return [schema, table, key.length]
}

/** 1 for any value of a scalar or a list of scalars, which are one parameter each. */
function valueShape(type: GraphQLInputType, value: unknown): unknown {
  if (value === null || value === undefined) return null
  if (isNonNullType(type)) return valueShape(type.ofType, value)
  if (isEnumType(type)) return value
  if (isListType(type)) return listShape(type.ofType, value as readonly unknown[])
  if (!isInputObjectType(type)) return 1
  const fields = type.getFields()
  return Object.entries(value).map(([name, each]) => [name, valueShape(fields[name]!.type, each)])
}

function listShape(type: GraphQLInputType, values: readonly unknown[]): unknown {
  const element = isNonNullType(type) ? type.ofType : type
  if (isScalarType(element)) return 1
  if (!isInputObjectType(element) || !element.name.endsWith('InsertInput'))
    return values.map(each => valueShape(element, each))
  const counts = new Map<string, number>()
  for (const each of values)
    for (const name of Object.keys(each as object)) counts.set(name, (counts.get(name) ?? 0) + 1)
  return [values.length, ...counts]
}
