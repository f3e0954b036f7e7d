// The TypeBox builders that the contract uses, with the types of TypeBox. Loading TypeBox takes a quarter of a second of CPU
// time in every process, and its result is plain JSON Schema.
import type { Type as TypeBox } from 'typebox'

type Builders = Pick<
  typeof TypeBox,
  | 'Array'
  | 'Boolean'
  | 'Enum'
  | 'Integer'
  | 'Literal'
  | 'Null'
  | 'Number'
  | 'Object'
  | 'Optional'
  | 'Record'
  | 'String'
  | 'Union'
  | 'Unknown'
  | 'Unsafe'
>
type Schema = Readonly<Record<string, unknown>>

const optional = new WeakSet<object>()
const simple =
  (type: string) =>
  (options: Schema = {}): Schema => ({ type, ...options })

function object(properties: Record<string, Schema>, options: Schema = {}): Schema {
  const required = Object.keys(properties).filter(name => !optional.has(properties[name]!))
  return { type: 'object', ...(required.length > 0 && { required }), properties, ...options }
}

/** Copies the schema, because the given one may be required elsewhere. */
function markOptional(schema: Schema): Schema {
  const marked = { ...schema }
  optional.add(marked)
  return marked
}

export const Type = {
  Array: (items: Schema, options: Schema = {}) => ({ type: 'array', items, ...options }),
  Boolean: simple('boolean'),
  Enum: (values: readonly unknown[], options: Schema = {}) => ({ enum: [...values], ...options }),
  Integer: simple('integer'),
  Literal: (value: unknown, options: Schema = {}) => ({ type: typeof value, const: value, ...options }),
  Null: simple('null'),
  Number: simple('number'),
  Object: object,
  Optional: markOptional,
  Record: (key: Schema, value: Schema, options: Schema = {}) => ({
    type: 'object',
    patternProperties: { [(key['pattern'] as string | undefined) ?? '^.*$']: value },
    ...options,
  }),
  String: simple('string'),
  Union: (anyOf: readonly Schema[], options: Schema = {}) => ({ anyOf, ...options }),
  Unknown: (options: Schema = {}) => ({ ...options }),
  Unsafe: (schema: Schema) => ({ ...schema }),
} as unknown as Builders
