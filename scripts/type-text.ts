// Writes the TypeScript type of a schema of the contract.

/** The part of JSON Schema that the contract uses. Any other schema throws an error instead of producing a wrong type. */
export interface Schema {
  type?: string
  description?: string
  properties?: Record<string, Schema>
  required?: readonly string[]
  items?: Schema
  anyOf?: readonly Schema[]
  enum?: readonly unknown[]
}

export function interfaceText(name: string, schema: Schema): string {
  if (schema.type !== 'object' || !schema.properties) throw new Error(`${name} is not an object with fields`)
  return `export interface ${name} ${fields(schema, '')}\n`
}

export function typeText(schema: Schema, indent = ''): string {
  if (schema.anyOf) return schema.anyOf.map(each => typeText(each, indent)).join(' | ')
  if (schema.enum) return schema.enum.map(each => JSON.stringify(each)).join(' | ')
  if (schema.properties) return fields(schema, indent)
  switch (schema.type) {
    case 'string':
    case 'boolean':
    case 'null':
      return schema.type
    case 'integer':
    case 'number':
      return 'number'
    case 'array':
      return `Array<${typeText(schema.items ?? {}, indent)}>`
    case undefined:
      return 'unknown'
    default:
      throw new Error(`No TypeScript type for ${JSON.stringify(schema)}`)
  }
}

function fields({ properties = {}, required = [] }: Schema, indent: string): string {
  const inner = `${indent}  `
  const lines = Object.entries(properties).map(([name, schema]) => {
    const comment = schema.description
      ? `${inner}/** ${schema.description.replaceAll('*/', '*\\/')} */\n`
      : ''
    const optionalMark = required.includes(name) ? '' : '?'
    return `${comment}${inner}${name}${optionalMark}: ${typeText(schema, inner)}\n`
  })
  return `{\n${lines.join('')}${indent}}`
}
