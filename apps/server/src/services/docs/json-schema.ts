// Columns and types as JSON Schema, for OpenAPI 3.1.
import { baseOf, type Column, type Description } from '#src/query/description.ts'

export type Json = Record<string, unknown>

export interface SchemaWriter {
  typeSchema(type: number): Json
  columnSchema(column: Column): Json
}

export function createSchemaWriter({ types, composites }: Description): SchemaWriter {
  function typeSchema(type: number, depth = 0): Json {
    const info = baseOf(type, types)
    if (!info || depth > 8) return {}
    switch (info.kind) {
      case 'array':
        return { type: 'array', items: typeSchema(info.of, depth + 1) }
      case 'enum':
        return { type: 'string', enum: info.labels }
      case 'composite': {
        const composite = composites.find(each => each.schema === info.schema && each.name === info.name)
        if (!composite) return { type: 'object' }
        const properties = composite.attributes.map(each => [
          each.name,
          nullable(typeSchema(each.type, depth + 1)),
        ])
        return { type: 'object', properties: Object.fromEntries(properties) }
      }
      case 'range':
        return { type: 'string', format: info.name }
      case 'pseudo':
        return info.name === 'record' ? { type: 'object' } : {}
      case 'base':
      case 'domain':
        return info.castsToJson ? {} : (scalars[info.name] ?? { type: 'string', format: info.name })
    }
  }

  return {
    typeSchema,
    columnSchema({ type, isNullable, sqlType, comment, default: value, isGenerated, identity }) {
      const schema = typeSchema(type)
      const maxLength = /^character(?: varying)?\((\d+)\)$/.exec(sqlType)?.[1]
      return {
        ...(isNullable ? nullable(schema) : schema),
        ...(maxLength && { maxLength: Number(maxLength) }),
        ...(comment !== null && { description: comment }),
        ...((isGenerated || identity === 'always') && { readOnly: true }),
        ...(value !== null && !isGenerated && { 'x-default': value }),
        'x-type': sqlType,
      }
    },
  }
}

/** Null is a type of its own in JSON Schema, and one more value of an enum. */
function nullable(schema: Json): Json {
  if (typeof schema['type'] !== 'string') return schema
  const labels = schema['enum']
  return {
    ...schema,
    type: [schema['type'], 'null'],
    ...(Array.isArray(labels) && { enum: [...labels, null] }),
  }
}

const scalars: Readonly<Record<string, Json>> = {
  bool: { type: 'boolean' },
  int2: { type: 'integer', minimum: -32768, maximum: 32767 },
  int4: { type: 'integer', format: 'int32' },
  int8: { type: 'integer', format: 'int64' },
  float4: { type: 'number', format: 'float' },
  float8: { type: 'number', format: 'double' },
  numeric: { type: 'number' },
  text: { type: 'string' },
  varchar: { type: 'string' },
  bpchar: { type: 'string' },
  citext: { type: 'string' },
  name: { type: 'string' },
  uuid: { type: 'string', format: 'uuid' },
  date: { type: 'string', format: 'date' },
  timestamp: { type: 'string', format: 'timestamp' },
  timestamptz: { type: 'string', format: 'date-time' },
  json: {},
  jsonb: {},
}
