// The type `Database` as client libraries of this kind take it: names, shapes and helper types are theirs.
import { createHash } from 'node:crypto'
import { type Description, isCallable } from '#src/query/description.ts'
import { functionType } from './function-types.ts'
import { helpers } from './helper-types.ts'
import { relationType } from './relation-types.ts'
import { block, indent, key, list, members, quote } from './text.ts'
import { createValueTypes, type ValueTypes } from './value-types.ts'

/** The version of PostgREST whose behaviour the row API has, as client libraries ask for it. */
const postgrestVersion = '14'

export function typescript(description: Description): string {
  const values = createValueTypes(description)
  const schemas = description.schemas.map(schema =>
    indent(`${key(schema)}: ${schemaType(schema, description, values)}`),
  )
  const body = `export type Json =
  | string
  | number
  | boolean
  | null
  | { [key: string]: Json | undefined }
  | Json[]

export type Database = {
  // Lets createClient<Database> know what the server can do.
  __InternalSupabase: {
    PostgrestVersion: ${quote(postgrestVersion)}
  }
${schemas.join('\n')}
}

${helpers(description.schemas[0] ?? 'public')}

export const Constants = ${constants(description)} as const
`
  return `// Made by plinth gen types typescript, not by hand. Schema ${fingerprint(body)}\n\n${body}`
}

export const fingerprint = (text: string): string =>
  createHash('sha256').update(text).digest('hex').slice(0, 12)

function schemaType(schema: string, description: Description, values: ValueTypes): string {
  const own = <T extends { schema: string }>(all: readonly T[]) => all.filter(each => each.schema === schema)
  const relations = own(description.relations).map(each => ({
    isTable: each.kind === 'table',
    entry: [each.name, relationType(each, values)] as const,
  }))
  const routines = Map.groupBy(own(description.functions).filter(isCallable), ({ name }) => name)
  const enums = own(description.enums).map(
    ({ name, labels }) => [name, labels.map(quote).join(' | ') || 'never'] as const,
  )
  const composites = own(description.composites).map(({ name, attributes }) => {
    const lines = attributes.map(each => `${key(each.name)}: ${values.typeOf(each.type)} | null`)
    return [name, block(lines)] as const
  })
  return block([
    `Tables: ${members(relations.flatMap(({ isTable, entry }) => (isTable ? [entry] : [])))}`,
    `Views: ${members(relations.flatMap(({ isTable, entry }) => (isTable ? [] : [entry])))}`,
    `Functions: ${members([...routines].map(([name, overloads]) => [name, functionType(overloads, values)]))}`,
    `Enums: ${members(enums)}`,
    `CompositeTypes: ${members(composites)}`,
  ])
}

function constants({ schemas, enums }: Description): string {
  const of = (schema: string) =>
    enums.filter(each => each.schema === schema).map(({ name, labels }) => `${key(name)}: ${list(labels)},`)
  return block(schemas.map(schema => `${key(schema)}: ${block([`Enums: ${block(of(schema))},`])},`))
}
