// Generates the type `Database` in the format of supabase-js, with its helper types.
import { createHash } from 'node:crypto'
import type { Sliced } from '#src/kernel/slices.ts'
import { type Description, isCallable, type Relation } from '#src/query/description.ts'
import { functionType } from './function-types.ts'
import { helpers } from './helper-types.ts'
import { relationType } from './relation-types.ts'
import { block, indent, key, list, quote } from './text.ts'
import { createValueTypes, type ValueTypes } from './value-types.ts'

/** The PostgREST version that the row API is compatible with. Client libraries read it. */
const postgrestVersion = '14'

/** Relations and functions per slice. */
export const writtenAtOnce = 20

/** Runs in slices, because a project may have thousands of tables. */
export function* typescript(description: Description): Sliced<string> {
  const values = createValueTypes(description)
  const schemas: string[] = []
  for (const schema of description.schemas) schemas.push(yield* schemaType(schema, description, values))
  const body = `export type Json =
  | string
  | number
  | boolean
  | null
  | { [key: string]: Json | undefined }
  | Json[]

export type Database = {
  // createClient<Database> reads the supported features from it.
  __InternalSupabase: {
    PostgrestVersion: ${quote(postgrestVersion)}
  }
${schemas.join('\n')}
}

${helpers(description.schemas[0] ?? 'public')}

export const Constants = ${constants(description)} as const
`
  const mark = yield* fingerprint(body)
  return `// Made by plinth gen types typescript, not by hand. Schema ${mark}\n\n${body}`
}

const hashedAtOnce = 1024 * 1024

export function* fingerprint(text: string): Sliced<string> {
  const hash = createHash('sha256')
  for (let at = 0; at < text.length; ) {
    const end = at + hashedAtOnce
    // A lone surrogate would be replaced before hashing.
    const isCut = (text.charCodeAt(end) & 0xfc00) === 0xdc00
    hash.update(text.slice(at, isCut ? end + 1 : end))
    at = isCut ? end + 1 : end
    yield
  }
  return hash.digest('hex').slice(0, 12)
}

/** One schema, indented as a member of `Database`. */
function* schemaType(schema: string, description: Description, values: ValueTypes): Sliced<string> {
  const own = <T extends { schema: string }>(all: readonly T[]) => all.filter(each => each.schema === schema)
  const relations = own(description.relations)
  const [tables, views] = [true, false].map(isTable =>
    relations.filter(({ kind }) => (kind === 'table') === isTable),
  ) as [Relation[], Relation[]]
  const routines = [...Map.groupBy(own(description.functions).filter(isCallable), ({ name }) => name)]
  const typeOf = (each: Relation) => [each.name, relationType(each, values)] as const
  const groups = [
    yield* group('Tables', tables, typeOf),
    yield* group('Views', views, typeOf),
    yield* group('Functions', routines, ([name, overloads]) => [name, functionType(overloads, values)]),
    yield* group('Enums', own(description.enums), ({ name, labels }) => [
      name,
      labels.map(quote).join(' | ') || 'never',
    ]),
    yield* group('CompositeTypes', own(description.composites), ({ name, attributes }) => {
      const lines = attributes.map(each => `${key(each.name)}: ${values.typeOf(each.type)} | null`)
      return [name, block(lines)]
    }),
  ]
  return `  ${key(schema)}: {\n${groups.join('\n')}\n  }`
}

/** A group of named types in a schema. */
function* group<T>(
  name: string,
  all: readonly T[],
  write: (each: T) => readonly [name: string, type: string],
): Sliced<string> {
  const lines: string[] = []
  for (const each of all) {
    const [member, type] = write(each)
    lines.push(indent(`${key(member)}: ${type}`, 3))
    if (lines.length % writtenAtOnce === 0) yield
  }
  // An empty group is written as `[_ in never]: never`.
  if (lines.length === 0) lines.push(indent('[_ in never]: never', 3))
  return `    ${name}: {\n${lines.join('\n')}\n    }`
}

function constants({ schemas, enums }: Description): string {
  const of = (schema: string) =>
    enums.filter(each => each.schema === schema).map(({ name, labels }) => `${key(name)}: ${list(labels)},`)
  return block(schemas.map(schema => `${key(schema)}: ${block([`Enums: ${block(of(schema))},`])},`))
}
