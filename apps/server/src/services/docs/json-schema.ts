// Columns and types as JSON Schema, for OpenAPI 3.1.
import { baseOf, type Column, type Description } from '#src/query/description.ts'

export type Json = Record<string, unknown>

export interface SchemaWriter {
  typeSchema(type: number): Json
  columnSchema(column: Column): Json
}

/** Maximum attributes and labels for one column, because nested composite types multiply them. */
export const maxParts = 1000
/** Maximum for all columns of a document. */
export const maxPartsInAll = 200_000

interface Parts {
  left: number
}

export function createSchemaWriter({ types, composites }: Description): SchemaWriter {
  const compositeAt = new Map(composites.map(each => [`${each.schema}\0${each.name}`, each]))

  let leftInAll = maxPartsInAll

  function typeSchema(type: number): Json {
    const allowed = Math.min(maxParts, leftInAll)
    const parts = { left: allowed }
    const schema = written(type, parts)
    leftInAll -= allowed - Math.max(0, parts.left)
    return schema
  }

  function written(type: number, parts: Parts): Json {
    const info = baseOf(type, types)
    if (!info) return {}
    switch (info.kind) {
      case 'array':
        return { type: 'array', items: --parts.left < 0 ? {} : written(info.of, parts) }
      case 'enum':
        parts.left -= info.labels.length
        return parts.left < 0 ? { type: 'string' } : { type: 'string', enum: info.labels }
      case 'composite': {
        const composite = compositeAt.get(`${info.schema}\0${info.name}`)
        parts.left -= composite?.attributes.length ?? 0
        if (!composite || parts.left < 0) return { type: 'object' }
        const properties = composite.attributes.map(each => [each.name, nullable(written(each.type, parts))])
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

/** In JSON Schema null is a separate type, and must be listed in an enum. */
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
