// The schema as Drizzle takes it: tables, views, enums and relations to query with. Indexes, checks and policies are
// left to the migrations that made them.
import type { Column, Description, Relation, Relationship, TypeInfo } from '#src/query/description.ts'
import { baseOf } from '#src/query/description.ts'
import { camel, createNames } from './drizzle-names.ts'
import { fingerprint } from './typescript.ts'

interface Written {
  relation: Relation
  /** The constant it is exported as. */
  name: string
  /** Property per column. */
  keys: ReadonlyMap<string, string>
}

export function drizzle(description: Description): string {
  const { schemas, relations, enums, types } = description
  const names = createNames()
  const used = new Set<string>()
  const custom = new Map<string, string>()
  const use = (builder: string) => {
    used.add(builder)
    return builder
  }

  const schemaNames = new Map(
    schemas
      .filter(schema => schema !== 'public')
      .map(schema => [schema, names.take(`${camel(schema)}Schema`)]),
  )
  const enumNames = new Map(
    enums.map(({ schema, name }) => [
      `${schema}.${name}`,
      names.take(camel(name), `${camel(schema)}_${name}`, 'Enum'),
    ]),
  )
  const written: Written[] = relations.map(relation => ({
    relation,
    name: names.take(
      camel(relation.name),
      `${camel(relation.schema)}_${relation.name}`,
      relation.kind === 'table' ? 'Table' : 'View',
    ),
    keys: keysOf(relation.columns),
  }))
  const find = (schema: string, name: string) =>
    written.find(({ relation }) => relation.schema === schema && relation.name === name)

  const inSchema = (schema: string, plain: string, ofSchema: string) => {
    const own = schemaNames.get(schema)
    return own ? `${own}.${ofSchema}` : use(plain)
  }

  function columnBuilder(column: Column): string {
    const info = baseOf(column.type, types)
    const element = info?.kind === 'array' ? baseOf(info.of, types) : info
    const dimension = info?.kind === 'array' ? '.array()' : ''
    return `${elementBuilder(column, element)}${dimension}`
  }

  function elementBuilder(column: Column, info: TypeInfo | undefined): string {
    const at = JSON.stringify(column.name)
    const known = info?.kind === 'enum' ? enumNames.get(`${info.schema}.${info.name}`) : undefined
    if (known) return `${known}(${at})`
    const scalar = info?.kind === 'base' && info.schema === 'pg_catalog' ? scalars[info.name] : undefined
    if (scalar && !(column.isSerial && serials[info!.name])) {
      const options = scalar.options?.(argumentsOf(column.sqlType)) ?? ''
      return `${use(scalar.builder)}(${at}${options && `, ${options}`})`
    }
    if (scalar)
      return `${use(serials[info!.name]!)}(${at}${info!.name === 'int8' ? `, { mode: 'number' }` : ''})`
    const [dimensions] = argumentsOf(column.sqlType)
    if (info?.name === 'vector' && dimensions) return `${use('vector')}(${at}, { dimensions: ${dimensions} })`
    return `${customBuilder(info?.kind === 'base' ? info.name : column.sqlType.replace(/\[\]$/, ''), info)}(${at})`
  }

  /** Whatever Drizzle has no builder for is text under its own name. */
  function customBuilder(sqlType: string, info: TypeInfo | undefined): string {
    const existing = custom.get(sqlType)
    if (existing) return existing.split(' ')[1]!
    use('customType')
    const name = names.take(`${camel(sqlType.replace(/\W+/g, '_'))}Type`)
    const data = info?.name === 'bytea' ? 'Uint8Array' : 'string'
    custom.set(
      sqlType,
      `const ${name} = customType<{ data: ${data} }>({ dataType: () => ${JSON.stringify(sqlType)} })`,
    )
    return name
  }

  function columnLine(column: Column, { relation, keys }: Written): string {
    const isOnlyKey =
      relation.primaryKey?.columns.length === 1 && relation.primaryKey.columns[0] === column.name
    const chain = [
      columnBuilder(column),
      column.identity === 'always' && '.generatedAlwaysAsIdentity()',
      column.identity === 'by default' && '.generatedByDefaultAsIdentity()',
      column.isGenerated && `.generatedAlwaysAs(${sqlText(column.default ?? '')})`,
      column.default !== null &&
        !column.isSerial &&
        !column.isGenerated &&
        `.default(${sqlText(column.default)})`,
      !column.isNullable && !isOnlyKey && '.notNull()',
      isOnlyKey && '.primaryKey()',
    ]
    return `  ${keys.get(column.name)}: ${chain.filter(Boolean).join('')},`
  }

  const sqlText = (expression: string) => {
    used.add('sql')
    return `sql\`${expression.replace(/[\\`]|\$\{/g, '\\$&')}\``
  }

  function relationText(each: Written): string {
    const { relation, name } = each
    const columns = `{\n${relation.columns.map(column => columnLine(column, each)).join('\n')}\n}`
    const at = JSON.stringify(relation.name)
    if (relation.kind === 'view')
      return `export const ${name} = ${inSchema(relation.schema, 'pgView', 'view')}(${at}, ${columns}).existing()`
    if (relation.kind === 'materialized view')
      return `export const ${name} = ${inSchema(relation.schema, 'pgMaterializedView', 'materializedView')}(${at}, ${columns}).existing()`
    const extras = constraints(each)
    if (extras.length > 0) used.add('type PgTableExtraConfigValue')
    // Two tables may refer to each other; with a type written out neither is needed for the other's.
    const more =
      extras.length > 0
        ? `, (table): PgTableExtraConfigValue[] => [\n${extras.map(line => `  ${line},`).join('\n')}\n]`
        : ''
    return `export const ${name} = ${inSchema(relation.schema, 'pgTable', 'table')}(${at}, ${columns}${more})`
  }

  function constraints({ relation, keys }: Written): string[] {
    const of = (columns: readonly string[]) => columns.map(column => `table.${keys.get(column)}`).join(', ')
    const lines: string[] = []
    const { primaryKey } = relation
    if (primaryKey && primaryKey.columns.length > 1)
      lines.push(
        `${use('primaryKey')}({ columns: [${of(primaryKey.columns)}], name: ${JSON.stringify(primaryKey.name)} })`,
      )
    for (const { name, columns } of relation.uniques)
      lines.push(`${use('unique')}(${JSON.stringify(name)}).on(${of(columns)})`)
    for (const each of relation.relationships) {
      const target = each.isDirect ? find(each.referencedSchema, each.referencedRelation) : undefined
      if (!target) continue
      const foreign = each.referencedColumns.map(column => `${target.name}.${target.keys.get(column)}`)
      const acts = [
        actions[each.onUpdate] && `.onUpdate('${actions[each.onUpdate]}')`,
        actions[each.onDelete] && `.onDelete('${actions[each.onDelete]}')`,
      ]
      lines.push(
        `${use('foreignKey')}({ columns: [${of(each.columns)}], foreignColumns: [${foreign.join(', ')}], name: ${JSON.stringify(each.name)} })${acts.filter(Boolean).join('')}`,
      )
    }
    return lines
  }

  const tables = written.map(relationText)
  const related = relationTexts(written, find, names)
  if (related.length > 0) used.add('relations')
  const enumTexts = enums.map(
    ({ schema, name, labels }) =>
      `export const ${enumNames.get(`${schema}.${name}`)} = ${inSchema(schema, 'pgEnum', 'enum')}(${JSON.stringify(name)}, [${labels.map(label => JSON.stringify(label)).join(', ')}])`,
  )
  const schemaTexts = [...schemaNames].map(
    ([schema, name]) => `export const ${name} = ${use('pgSchema')}(${JSON.stringify(schema)})`,
  )
  const body = [
    schemaTexts.join('\n'),
    enumTexts.join('\n'),
    [...custom.values()].join('\n'),
    ...tables,
    ...related,
  ]
    .filter(text => text !== '')
    .join('\n\n')
  const head = imports(used)
  return `// Made by plinth gen types drizzle, not by hand. Schema ${fingerprint(body)}\n${head}\n${body}\n`
}

function imports(used: ReadonlySet<string>): string {
  const isCore = (name: string) => name === 'sql' || name === 'relations'
  const line = (names: string[], from: string) =>
    names.length > 0 ? `import { ${names.toSorted().join(', ')} } from '${from}'\n` : ''
  return (
    line([...used].filter(isCore), 'drizzle-orm') +
    line(
      [...used].filter(name => !isCore(name)),
      'drizzle-orm/pg-core',
    )
  )
}

function keysOf(columns: readonly Column[]): Map<string, string> {
  const keys = createNames([])
  return new Map(columns.map(({ name }) => [name, keys.take(camel(name))]))
}

/** Both ends of every foreign key between tables, under the constraint's name, so that several can be told apart. */
function relationTexts(
  written: readonly Written[],
  find: (schema: string, name: string) => Written | undefined,
  names: ReturnType<typeof createNames>,
): string[] {
  const lines = new Map<
    Written,
    { taken: ReturnType<typeof createNames>; own: string[]; uses: Set<string> }
  >()
  const place = (each: Written) => {
    const existing = lines.get(each)
    if (existing) return existing
    const made = { taken: createNames([...each.keys.values()]), own: [] as string[], uses: new Set<string>() }
    lines.set(each, made)
    return made
  }
  for (const child of written)
    for (const key of child.relation.relationships) {
      const parent = key.isDirect ? find(key.referencedSchema, key.referencedRelation) : undefined
      if (!parent) continue
      const relationName = JSON.stringify(key.name)
      const here = place(child)
      here.uses.add('one')
      const fields = key.columns.map(column => `${child.name}.${child.keys.get(column)}`).join(', ')
      const references = key.referencedColumns
        .map(column => `${parent.name}.${parent.keys.get(column)}`)
        .join(', ')
      const toOne = here.taken.take(referenceName(key), parent.name, 'Row')
      here.own.push(
        `${toOne}: one(${parent.name}, { fields: [${fields}], references: [${references}], relationName: ${relationName} }),`,
      )
      const there = place(parent)
      const isOnly = child.relation.relationships.filter(isSameEnd(key)).length === 1 && child !== parent
      const toMany = there.taken.take(child.name, `${child.name}_${toOne}`, 'Rows')
      // A single row at this end can only be declared without naming the constraint.
      if (key.isOneToOne && isOnly) {
        there.uses.add('one')
        there.own.push(`${toMany}: one(${child.name}),`)
      } else {
        there.uses.add('many')
        there.own.push(`${toMany}: many(${child.name}, { relationName: ${relationName} }),`)
      }
    }
  return written.flatMap(each => {
    const found = lines.get(each)
    if (!found) return []
    const uses = [...found.uses].toSorted().reverse().join(', ')
    const name = names.take(`${each.name}Relations`)
    return `export const ${name} = relations(${each.name}, ({ ${uses} }) => ({\n${found.own.map(line => `  ${line}`).join('\n')}\n}))`
  })
}

const isSameEnd = (one: Relationship) => (other: Relationship) =>
  other.isDirect &&
  other.referencedSchema === one.referencedSchema &&
  other.referencedRelation === one.referencedRelation

/** `author_id` points at an author. */
const referenceName = ({ columns, referencedRelation }: Relationship): string => {
  const [only, ...others] = columns
  const stem = others.length === 0 ? /^(.+)_id$/i.exec(only ?? '')?.[1] : undefined
  return camel(stem ?? referencedRelation)
}

interface Scalar {
  builder: string
  options?: (args: readonly string[], sqlType?: string) => string
}

const argumentsOf = (sqlType: string): string[] => /\(([^)]*)\)/.exec(sqlType)?.[1]?.split(',') ?? []
const length = ([size]: readonly string[]) => (size ? `{ length: ${size} }` : '')
const withZone = ([precision]: readonly string[], rest: string) =>
  `{ ${[precision && `precision: ${precision}`, rest].filter(Boolean).join(', ')} }`

const scalars: Readonly<Record<string, Scalar>> = {
  bool: { builder: 'boolean' },
  int2: { builder: 'smallint' },
  int4: { builder: 'integer' },
  int8: { builder: 'bigint', options: () => `{ mode: 'number' }` },
  float4: { builder: 'real' },
  float8: { builder: 'doublePrecision' },
  numeric: {
    builder: 'numeric',
    options: ([precision, scale]) =>
      precision ? `{ precision: ${precision}${scale ? `, scale: ${scale}` : ''} }` : '',
  },
  text: { builder: 'text' },
  varchar: { builder: 'varchar', options: length },
  bpchar: { builder: 'char', options: length },
  uuid: { builder: 'uuid' },
  date: { builder: 'date' },
  time: { builder: 'time', options: ([precision]) => (precision ? `{ precision: ${precision} }` : '') },
  timetz: { builder: 'time', options: args => withZone(args, 'withTimezone: true') },
  timestamp: { builder: 'timestamp', options: args => withZone(args, `mode: 'string'`) },
  timestamptz: {
    builder: 'timestamp',
    options: args => withZone(args, `withTimezone: true, mode: 'string'`),
  },
  interval: { builder: 'interval' },
  json: { builder: 'json' },
  jsonb: { builder: 'jsonb' },
  inet: { builder: 'inet' },
  cidr: { builder: 'cidr' },
  macaddr: { builder: 'macaddr' },
  macaddr8: { builder: 'macaddr8' },
  point: { builder: 'point' },
}
const serials: Readonly<Record<string, string>> = { int2: 'smallserial', int4: 'serial', int8: 'bigserial' }
const actions: Readonly<Record<string, string>> = {
  c: 'cascade',
  r: 'restrict',
  n: 'set null',
  d: 'set default',
}
