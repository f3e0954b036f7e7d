// The values of arguments: literals of the document, or variables. A plan serves other variables of the same shape, so
// each value remembers where it comes from.
import {
  coerceInputLiteral,
  type GraphQLInputType,
  isInputObjectType,
  isListType,
  isNonNullType,
  Kind,
  type ObjectValueNode,
  type ValueNode,
} from 'graphql'

/** Where to find a value at run time. Plain data, so that a plan can pass between threads. */
export type Origin =
  | { readonly constant: unknown }
  | { readonly variable: string; readonly path: readonly (string | number)[] }
  | { readonly list: readonly Origin[] }
  | { readonly object: readonly (readonly [name: string, Origin])[] }

/** Coerced values of an operation's variables. Absent ones have no key. */
export type Variables = Readonly<Record<string, unknown>>

/** The value of an argument, or a part of it. */
export interface Given {
  /** For the variables of this compilation. */
  readonly value: unknown
  readonly origin: Origin
  /** The given fields of an input object. */
  fields(): readonly (readonly [name: string, Given])[]
  /** A single value counts as a list of one. */
  items(): readonly Given[]
}

export function fromVariable(name: string, path: readonly (string | number)[], value: unknown): Given {
  return {
    value,
    origin: { variable: name, path },
    fields: () =>
      Object.entries(value as object)
        .filter(([, each]) => each !== undefined)
        .map(([key, each]) => [key, fromVariable(name, [...path, key], each)] as const),
    items: () =>
      Array.isArray(value) ? value.map((each, index) => fromVariable(name, [...path, index], each)) : [],
  }
}

export const constant = (value: unknown): Given => ({
  value,
  origin: { constant: value },
  fields: () => Object.entries(value as object).map(([key, each]) => [key, constant(each)] as const),
  items: () => (Array.isArray(value) ? value : [value]).map(constant),
})

/** Undefined if it is a variable without a value. The document has been validated, so the literal fits the type. */
export function fromLiteral(
  node: ValueNode,
  type: GraphQLInputType,
  variables: Variables,
): Given | undefined {
  if (isNonNullType(type)) return fromLiteral(node, type.ofType, variables)
  if (node.kind === Kind.VARIABLE) {
    const { value: name } = node.name
    return name in variables ? fromVariable(name, [], variables[name]) : undefined
  }
  if (node.kind === Kind.NULL) return constant(null)
  if (isListType(type)) {
    const nodes = node.kind === Kind.LIST ? node.values : [node]
    // A variable without a value is null in a list.
    const items = nodes.map(each => fromLiteral(each, type.ofType, variables) ?? constant(null))
    return composed(
      items.map(each => each.value),
      { list: items.map(({ origin }) => origin) },
      [],
      items,
    )
  }
  if (isInputObjectType(type)) {
    const fields = (node as ObjectValueNode).fields.flatMap(field => {
      const name = field.name.value
      const given = fromLiteral(field.value, type.getFields()[name]!.type, variables)
      return given ? [[name, given] as const] : []
    })
    return composed(
      Object.fromEntries(fields.map(([name, given]) => [name, given.value])),
      { object: fields.map(([name, given]) => [name, given.origin]) },
      fields,
      [],
    )
  }
  return constant(coerceInputLiteral(node, type))
}

function composed(
  value: unknown,
  origin: Origin,
  fields: readonly (readonly [string, Given])[],
  items: readonly Given[],
): Given {
  const self: Given = {
    value,
    origin,
    fields: () => fields,
    items: () => (Array.isArray(value) ? items : [self]),
  }
  return self
}

/** The value at run time. */
export function resolve(origin: Origin, variables: Variables): unknown {
  if ('constant' in origin) return origin.constant
  if ('list' in origin) return origin.list.map(each => resolve(each, variables))
  if ('object' in origin)
    return Object.fromEntries(origin.object.map(([name, each]) => [name, resolve(each, variables)]))
  let value: unknown = variables[origin.variable]
  for (const key of origin.path) value = (value as Record<string | number, unknown> | null | undefined)?.[key]
  return value
}
