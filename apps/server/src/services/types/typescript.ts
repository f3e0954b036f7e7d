// The type `Database` as client libraries of this kind take it: names, shapes and helper types are theirs.
import { createHash } from 'node:crypto'
import {
  baseOf,
  type Column,
  type Description,
  inputs,
  isCallable,
  outputs,
  type Relation,
  type Relationship,
  type Routine,
} from '#src/query/description.ts'

/** The version of PostgREST whose behaviour the row API has, as client libraries ask for it. */
const postgrestVersion = '14'

export function typescript(description: Description): string {
  const writer = createWriter(description)
  const schemas = description.schemas.map(schema => indent(`${key(schema)}: ${writer.schema(schema)}`))
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

function createWriter(description: Description) {
  const { relations, functions, enums, composites, types } = description
  const byOid = new Map(relations.map(relation => [relation.oid, relation]))
  const isDescribed = (schema: string) => description.schemas.includes(schema)

  /** As it comes out of, and goes into, JSON. */
  function typeOf(type: number): string {
    const info = baseOf(type, types)
    if (!info) return 'unknown'
    switch (info.kind) {
      case 'array': {
        const element = typeOf(info.of)
        return /[|&]/.test(element) && !element.startsWith('{') ? `(${element})[]` : `${element}[]`
      }
      case 'enum':
        return isDescribed(info.schema)
          ? `Database[${quote(info.schema)}]["Enums"][${quote(info.name)}]`
          : info.labels.map(quote).join(' | ') || 'never'
      case 'composite': {
        const relation = byOid.get(info.relation)
        if (relation) return rowOf(relation)
        const isKnown = composites.some(each => each.schema === info.schema && each.name === info.name)
        return isKnown ? `Database[${quote(info.schema)}]["CompositeTypes"][${quote(info.name)}]` : 'Json'
      }
      case 'pseudo':
        return pseudo[info.name] ?? 'unknown'
      case 'range':
        return 'string'
      case 'base':
      case 'domain':
        return info.castsToJson ? 'Json' : (scalars[info.name] ?? 'string')
    }
  }

  const rowOf = ({ schema, name, kind }: Relation) =>
    `Database[${quote(schema)}][${quote(kind === 'table' ? 'Tables' : 'Views')}][${quote(name)}]["Row"]`

  const columnType = ({ type, isNullable }: Column) => `${typeOf(type)}${isNullable ? ' | null' : ''}`

  function relationType(relation: Relation): string {
    const row = [
      ...relation.columns.map(column => `${key(column.name)}: ${columnType(column)}`),
      ...relation.computed.map(({ name, type }) => `${key(name)}: ${typeOf(type)} | null`),
    ]
    const isTable = relation.kind === 'table'
    const given = relation.columns.filter(
      ({ isGenerated, identity, isUpdatable }) =>
        !isGenerated && identity !== 'always' && (isTable || isUpdatable),
    )
    const mayBeLeftOut = ({ isNullable, default: value, identity }: Column) =>
      !isTable || isNullable || value !== null || identity !== null
    const insert = given.map(
      each => `${key(each.name)}${mayBeLeftOut(each) ? '?' : ''}: ${writtenType(each, isTable)}`,
    )
    const update = given.map(each => `${key(each.name)}?: ${writtenType(each, isTable)}`)
    return block([
      `Row: ${block(row.toSorted(byText))}`,
      ...(isTable || relation.isInsertable ? [`Insert: ${block(insert.toSorted(byText))}`] : []),
      ...(isTable || relation.isUpdatable ? [`Update: ${block(update.toSorted(byText))}`] : []),
      `Relationships: ${relationshipsType(relation)}`,
      ...(relation.computed.length > 0
        ? [`ComputedFields: ${relation.computed.map(({ name }) => quote(name)).join(' | ')}`]
        : []),
    ])
  }

  /** What a view takes is for the table below it, or its trigger, to judge. */
  const writtenType = (column: Column, isTable: boolean) =>
    isTable ? columnType(column) : `${typeOf(column.type)} | null`

  /** Only within a schema: an embed never crosses it. */
  function relationshipsType({ relationships, schema }: Relation): string {
    const own = relationships.filter(({ referencedSchema }) => referencedSchema === schema)
    return own.length === 0
      ? '[]'
      : `[\n${own.map(each => indent(`${relationshipType(each)},`)).join('\n')}\n]`
  }

  const relationshipType = (each: Relationship) =>
    block([
      `foreignKeyName: ${quote(each.name)}`,
      `columns: ${list(each.columns)}`,
      `isOneToOne: ${each.isOneToOne}`,
      `referencedRelation: ${quote(each.referencedRelation)}`,
      `referencedColumns: ${list(each.referencedColumns)}`,
    ])

  function functionType(overloads: readonly Routine[]): string {
    if (overloads.length === 1) return signature(overloads[0]!)
    const bySignature = Map.groupBy(overloads, each =>
      inputs(each)
        .map(({ name }) => name)
        .toSorted()
        .join('\0'),
    )
    // Those that differ only in types cannot be told apart by a call over HTTP.
    const members = [...bySignature.values()].map(alike =>
      alike.length === 1 ? signature(alike[0]!) : ambiguous(alike),
    )
    return members.length === 1 ? members[0]! : `\n${members.map(each => indent(`| ${each}`)).join('\n')}`
  }

  const ambiguous = (alike: readonly Routine[]) =>
    block([
      `Args: ${argsType(alike[0]!)}`,
      `Returns: { error: true } & ${quote(`${alike.length} functions named ${alike[0]!.name} take parameters of these names: rename some of the parameters`)}`,
    ])

  function signature(routine: Routine): string {
    const options = setofOptions(routine)
    return block([
      `Args: ${argsType(routine)}`,
      `Returns: ${returnsType(routine, options?.isOneToOne ?? false)}`,
      ...(options
        ? [
            `SetofOptions: ${block([
              `from: ${quote(options.from)}`,
              `to: ${quote(options.to)}`,
              `isOneToOne: ${options.isOneToOne}`,
              `isSetofReturn: ${options.isSetofReturn}`,
            ])}`,
          ]
        : []),
    ])
  }

  function argsType(routine: Routine): string {
    const given = inputs(routine)
    if (given.length === 0) return 'never'
    return `{ ${given
      .map(({ name, type, hasDefault }) => `${key(name)}${hasDefault ? '?' : ''}: ${typeOf(type)}`)
      .toSorted(byText)
      .join('; ')} }`
  }

  function returnsType(routine: Routine, isOneToOne: boolean): string {
    const many = routine.returnsSet && !isOneToOne ? '[]' : ''
    const declared = outputs(routine)
    if (types.get(routine.returnType)?.name === 'record' && declared.length > 0)
      return `${block(declared.map(({ name, type }) => `${key(name)}: ${typeOf(type)}`).toSorted(byText))}${many}`
    const relation = byOid.get(types.get(routine.returnType)?.relation ?? 0)
    if (relation)
      return `${block(relation.columns.map(each => `${key(each.name)}: ${columnType(each)}`).toSorted(byText))}${many}`
    const value = typeOf(routine.returnType)
    return many && /[|&]/.test(value) ? `(${value})${many}` : `${value}${many}`
  }

  /** Which relation's rows it returns, and which one's row it takes. */
  function setofOptions(routine: Routine) {
    const to = byOid.get(types.get(routine.returnType)?.relation ?? 0)
    if (!to || to.schema !== routine.schema) return
    const given = inputs(routine)
    const from = given.length === 1 ? byOid.get(types.get(given[0]!.type)?.relation ?? 0) : undefined
    return {
      from: from?.schema === routine.schema ? from.name : '*',
      to: to.name,
      isOneToOne: !routine.returnsSet || routine.isOneRow,
      isSetofReturn: routine.returnsSet,
    }
  }

  return {
    schema(schema: string): string {
      const own = relations.filter(each => each.schema === schema)
      const callable = functions.filter(each => each.schema === schema && isCallable(each))
      const byName = Map.groupBy(callable, ({ name }) => name)
      return block([
        `Tables: ${members(own.filter(({ kind }) => kind === 'table').map(each => [each.name, relationType(each)]))}`,
        `Views: ${members(own.filter(({ kind }) => kind !== 'table').map(each => [each.name, relationType(each)]))}`,
        `Functions: ${members([...byName].map(([name, overloads]) => [name, functionType(overloads)]))}`,
        `Enums: ${members(
          enums
            .filter(each => each.schema === schema)
            .map(({ name, labels }) => [name, labels.map(quote).join(' | ') || 'never']),
        )}`,
        `CompositeTypes: ${members(
          composites
            .filter(each => each.schema === schema)
            .map(({ name, attributes }) => [
              name,
              block(attributes.map(each => `${key(each.name)}: ${typeOf(each.type)} | null`)),
            ]),
        )}`,
      ])
    },
  }
}

const scalars: Readonly<Record<string, string>> = {
  bool: 'boolean',
  int2: 'number',
  int4: 'number',
  int8: 'number',
  float4: 'number',
  float8: 'number',
  numeric: 'number',
  json: 'Json',
  jsonb: 'Json',
}
const pseudo: Readonly<Record<string, string>> = { void: 'undefined', record: 'Record<string, unknown>' }

const quote = (text: string): string => JSON.stringify(text)
const list = (names: readonly string[]) => `[${names.map(quote).join(', ')}]`
const key = (name: string): string => (/^[A-Za-z_$][\w$]*$/.test(name) ? name : quote(name))
const indent = (text: string): string => text.replace(/^(?=.)/gm, '  ')
const block = (lines: readonly string[]): string =>
  lines.length === 0 ? '{}' : `{\n${lines.map(indent).join('\n')}\n}`
const members = (entries: readonly (readonly [string, string])[]): string =>
  entries.length === 0
    ? '{\n  [_ in never]: never\n}'
    : block(entries.map(([name, type]) => `${key(name)}: ${type}`))
const byText = (a: string, b: string) => (a < b ? -1 : a > b ? 1 : 0)

function constants({ schemas, enums }: Description): string {
  const of = (schema: string) =>
    enums.filter(each => each.schema === schema).map(({ name, labels }) => `${key(name)}: ${list(labels)},`)
  return block(schemas.map(schema => `${key(schema)}: ${block([`Enums: ${block(of(schema))},`])},`))
}

/** `Tables<'name'>` means the first schema, `Tables<{ schema: 'other' }, 'name'>` any. */
const helpers = (first: string): string => `type Schemas = Omit<Database, "__InternalSupabase">
type DefaultSchema = Schemas[${quote(first)}]
type Readable<S extends keyof Schemas> = Schemas[S]["Tables"] & Schemas[S]["Views"]
type Named<Group, Name> = Name extends keyof Group ? Group[Name] : never

export type Tables<
  Place extends keyof (DefaultSchema["Tables"] & DefaultSchema["Views"]) | { schema: keyof Schemas },
  Name extends Place extends { schema: keyof Schemas } ? keyof Readable<Place["schema"]> : never = never,
> = (
  Place extends { schema: keyof Schemas }
    ? Named<Readable<Place["schema"]>, Name>
    : Named<DefaultSchema["Tables"] & DefaultSchema["Views"], Place>
) extends { Row: infer Row }
  ? Row
  : never

export type TablesInsert<
  Place extends keyof DefaultSchema["Tables"] | { schema: keyof Schemas },
  Name extends Place extends { schema: keyof Schemas } ? keyof Schemas[Place["schema"]]["Tables"] : never = never,
> = (
  Place extends { schema: keyof Schemas }
    ? Named<Schemas[Place["schema"]]["Tables"], Name>
    : Named<DefaultSchema["Tables"], Place>
) extends { Insert: infer Insert }
  ? Insert
  : never

export type TablesUpdate<
  Place extends keyof DefaultSchema["Tables"] | { schema: keyof Schemas },
  Name extends Place extends { schema: keyof Schemas } ? keyof Schemas[Place["schema"]]["Tables"] : never = never,
> = (
  Place extends { schema: keyof Schemas }
    ? Named<Schemas[Place["schema"]]["Tables"], Name>
    : Named<DefaultSchema["Tables"], Place>
) extends { Update: infer Update }
  ? Update
  : never

export type Enums<
  Place extends keyof DefaultSchema["Enums"] | { schema: keyof Schemas },
  Name extends Place extends { schema: keyof Schemas } ? keyof Schemas[Place["schema"]]["Enums"] : never = never,
> = Place extends { schema: keyof Schemas }
  ? Named<Schemas[Place["schema"]]["Enums"], Name>
  : Named<DefaultSchema["Enums"], Place>

export type CompositeTypes<
  Place extends keyof DefaultSchema["CompositeTypes"] | { schema: keyof Schemas },
  Name extends Place extends { schema: keyof Schemas }
    ? keyof Schemas[Place["schema"]]["CompositeTypes"]
    : never = never,
> = Place extends { schema: keyof Schemas }
  ? Named<Schemas[Place["schema"]]["CompositeTypes"], Name>
  : Named<DefaultSchema["CompositeTypes"], Place>`
