// Generates a Drizzle schema: tables, views, enums and relations for queries. Indexes, checks and policies are omitted, because
// migrations manage them.
import type { Sliced } from '#src/kernel/slices.ts'
import type { Column, Description } from '#src/query/description.ts'
import { fingerprint } from '../typescript/document.ts'
import { createColumns } from './columns.ts'
import { camel, createNames } from './names.ts'
import { eachInSlices, type Find, relationTexts, type Written } from './relations.ts'

/** Runs in slices, because a project may have thousands of tables. */
export function* drizzle(description: Description): Sliced<string> {
  const { schemas, relations, enums, types } = description
  const names = createNames()
  const used = new Set<string>()
  const use = (name: string) => {
    used.add(name)
    return name
  }
  const schemaNames = new Map(
    schemas
      .filter(schema => schema !== 'public')
      .map(schema => [schema, names.take(`${camel(schema)}Schema`)]),
  )
  /** Drizzle has different functions for schema public and for other schemas. */
  const maker = (schema: string, plain: string, ofSchema: string) => {
    const own = schemaNames.get(schema)
    return own ? `${own}.${ofSchema}` : use(plain)
  }
  const enumNames = new Map(
    enums.map(({ schema, name }) => [
      `${schema}.${name}`,
      names.take(camel(name), `${camel(schema)}_${name}`, 'Enum'),
    ]),
  )
  const columns = createColumns(types, enumNames, names, use)
  const written = yield* eachInSlices(relations, (relation): Written => {
    const ending = relation.kind === 'table' ? 'Table' : 'View'
    const name = names.take(camel(relation.name), `${camel(relation.schema)}_${relation.name}`, ending)
    return { relation, name, keys: keysOf(relation.columns) }
  })
  const places = new Map(written.map(each => [placeOf(each.relation.schema, each.relation.name), each]))
  const find: Find = (schema, name) => places.get(placeOf(schema, name))

  function relationText(each: Written): string {
    const { relation, name, keys } = each
    const [only, ...others] = relation.primaryKey?.columns ?? []
    const isKey = (column: Column) => others.length === 0 && column.name === only
    const lines = relation.columns.map(
      column => `  ${keys.get(column.name)}: ${columns.build(column, isKey(column))},`,
    )
    const shape = `${JSON.stringify(relation.name)}, {\n${lines.join('\n')}\n}`
    const { schema, kind } = relation
    if (kind === 'view')
      return `export const ${name} = ${maker(schema, 'pgView', 'view')}(${shape}).existing()`
    if (kind === 'materialized view')
      return `export const ${name} = ${maker(schema, 'pgMaterializedView', 'materializedView')}(${shape}).existing()`
    const extras = constraintTexts(each, find, use)
    // Tables may reference each other. An explicit type avoids circular type inference.
    const more =
      extras.length > 0
        ? `, (table): ${use('PgTableExtraConfigValue')}[] => [\n${extras.map(line => `  ${line},`).join('\n')}\n]`
        : ''
    return `export const ${name} = ${maker(schema, 'pgTable', 'table')}(${shape}${more})`
  }

  const tables = yield* eachInSlices(written, relationText)
  const ends = yield* relationTexts(written, find, names)
  if (ends.length > 0) use('relations')
  const enumTexts = enums.map(({ schema, name, labels }) => {
    const values = labels.map(label => JSON.stringify(label)).join(', ')
    return `export const ${enumNames.get(`${schema}.${name}`)} = ${maker(schema, 'pgEnum', 'enum')}(${JSON.stringify(name)}, [${values}])`
  })
  const schemaTexts = [...schemaNames].map(
    ([schema, name]) => `export const ${name} = ${use('pgSchema')}(${JSON.stringify(schema)})`,
  )
  const parts = [
    schemaTexts.join('\n'),
    enumTexts.join('\n'),
    columns.customTypes().join('\n'),
    ...tables,
    ...ends,
  ]
  const body = parts.filter(text => text !== '').join('\n\n')
  const mark = yield* fingerprint(body)
  return `// Made by plinth gen types drizzle, not by hand. Schema ${mark}\n${importTexts(used)}\n${body}\n`
}

const placeOf = (schema: string, name: string) => `${schema}\0${name}`

function constraintTexts({ relation, keys }: Written, find: Find, use: (name: string) => string): string[] {
  const own = (columns: readonly string[]) => columns.map(column => `table.${keys.get(column)}`).join(', ')
  const { primaryKey, uniques, relationships } = relation
  const lines: string[] = []
  if (primaryKey && primaryKey.columns.length > 1)
    lines.push(
      `${use('primaryKey')}({ columns: [${own(primaryKey.columns)}], name: ${JSON.stringify(primaryKey.name)} })`,
    )
  for (const { name, columns } of uniques)
    lines.push(`${use('unique')}(${JSON.stringify(name)}).on(${own(columns)})`)
  for (const key of relationships) {
    const target = key.isDirect ? find(key.referencedSchema, key.referencedRelation) : undefined
    if (!target) continue
    const foreign = key.referencedColumns
      .map(column => `${target.name}.${target.keys.get(column)}`)
      .join(', ')
    const onUpdate = actions[key.onUpdate] ? `.onUpdate('${actions[key.onUpdate]}')` : ''
    const onDelete = actions[key.onDelete] ? `.onDelete('${actions[key.onDelete]}')` : ''
    lines.push(
      `${use('foreignKey')}({ columns: [${own(key.columns)}], foreignColumns: [${foreign}], name: ${JSON.stringify(key.name)} })${onUpdate}${onDelete}`,
    )
  }
  return lines
}

const actions: Readonly<Record<string, string>> = {
  c: 'cascade',
  r: 'restrict',
  n: 'set null',
  d: 'set default',
}

function keysOf(columns: readonly Column[]): Map<string, string> {
  const keys = createNames([])
  return new Map(columns.map(({ name }) => [name, keys.take(camel(name))]))
}

function importTexts(used: ReadonlySet<string>): string {
  const isCore = (name: string) => name === 'sql' || name === 'relations'
  const line = (names: readonly string[], from: string) =>
    names.length > 0 ? `import { ${names.join(', ')} } from '${from}'\n` : ''
  const all = [...used].toSorted()
  const builders = all
    .filter(name => !isCore(name))
    .map(name => (name === 'PgTableExtraConfigValue' ? `type ${name}` : name))
  return line(all.filter(isCore), 'drizzle-orm') + line(builders, 'drizzle-orm/pg-core')
}
