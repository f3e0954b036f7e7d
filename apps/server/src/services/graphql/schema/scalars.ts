// Scalar types. Their input is kept as text or number, as Postgres reads it.
import {
  GraphQLBoolean,
  GraphQLError,
  GraphQLFloat,
  GraphQLID,
  GraphQLInt,
  GraphQLScalarType,
  GraphQLString,
  Kind,
} from 'graphql'
import type { ScalarName } from './model.ts'

type Read = (value: unknown) => string | undefined

const textOf: Read = value => (typeof value === 'string' ? value : undefined)

const numberText =
  (form: RegExp): Read =>
  value => {
    const text = typeof value === 'number' || typeof value === 'bigint' ? String(value) : textOf(value)
    return text !== undefined && text.length <= 1000 && form.test(text) ? text : undefined
  }

/** Numbers of a document are read as they are written, because JavaScript would round them. */
function scalar(name: string, description: string, read: Read): GraphQLScalarType {
  const coerced = (value: unknown, shown: string) => {
    const text = read(value)
    if (text === undefined) throw new GraphQLError(`${name} cannot represent the value ${shown}`)
    return text
  }
  return new GraphQLScalarType({
    name,
    description,
    coerceInputValue: value => coerced(value, JSON.stringify(value)?.slice(0, 100) ?? 'undefined'),
    coerceInputLiteral(node) {
      const isText = node.kind === Kind.STRING || node.kind === Kind.INT || node.kind === Kind.FLOAT
      const isNumber = node.kind !== Kind.STRING
      const value = isText ? (isNumber && read(0) === undefined ? undefined : node.value) : undefined
      return coerced(value, isText ? JSON.stringify(node.value.slice(0, 100)) : `of kind ${node.kind}`)
    },
  })
}

export const cursor = scalar('Cursor', 'An opaque string that marks a place in a collection', textOf)

export const scalars: Record<ScalarName, GraphQLScalarType> = {
  Int: GraphQLInt,
  Float: GraphQLFloat,
  String: GraphQLString,
  Boolean: GraphQLBoolean,
  BigInt: scalar('BigInt', 'An integer of any size, as a string', numberText(/^[+-]?\d+$/)),
  BigFloat: scalar(
    'BigFloat',
    'A number of any precision, as a string',
    numberText(/^(?:[+-]?(?:\d+\.?\d*|\.\d+)(?:e[+-]?\d+)?|[+-]?infinity|nan)$/i),
  ),
  UUID: scalar('UUID', 'A universally unique identifier', textOf),
  Date: scalar('Date', 'A date: 2026-01-31', textOf),
  Time: scalar('Time', 'A time of day: 12:30:00', textOf),
  Datetime: scalar('Datetime', 'A date and time: 2026-01-31T12:30:00+00:00', textOf),
  JSON: scalar('JSON', 'JSON as a string', textOf),
  Opaque: scalar('Opaque', 'Any other type of Postgres, in its text form', textOf),
}

export const id = GraphQLID
