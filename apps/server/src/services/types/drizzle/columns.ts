// Maps columns to Drizzle builders. A type without a builder becomes a custom text type.
import { baseOf, type Column, type Description, type TypeInfo } from '#src/query/description.ts'
import { camel, type Names } from './names.ts'

export interface Columns {
  /** Without name: `integer("age").notNull()`. */
  build(column: Column, isPrimaryKey: boolean): string
  /** Declarations of custom types. */
  customTypes(): string[]
}

export function createColumns(
  types: Description['types'],
  enumNames: ReadonlyMap<string, string>,
  names: Names,
  use: (builder: string) => string,
): Columns {
  const custom = new Map<string, { name: string; text: string }>()

  function builder(column: Column): string {
    const info = baseOf(column.type, types)
    if (info?.kind !== 'array') return element(column, info)
    return `${element(column, baseOf(info.of, types))}.array()`
  }

  function element(column: Column, info: TypeInfo | undefined): string {
    const at = JSON.stringify(column.name)
    const known = info?.kind === 'enum' ? enumNames.get(`${info.schema}.${info.name}`) : undefined
    if (known) return `${known}(${at})`
    const args = /\(([^)]*)\)/.exec(column.sqlType)?.[1]?.split(',') ?? []
    const isBuiltIn = info?.kind === 'base' && info.schema === 'pg_catalog'
    const scalar = isBuiltIn ? (column.isSerial && serials[info.name]) || scalars[info.name] : undefined
    if (scalar) {
      const options = scalar.options?.(args)
      return `${use(scalar.builder)}(${at}${options ? `, ${options}` : ''})`
    }
    if (info?.name === 'vector' && args[0]) return `${use('vector')}(${at}, { dimensions: ${args[0]} })`
    return `${customType(info?.kind === 'base' ? info.name : column.sqlType.replace(/\[\]$/, ''), info)}(${at})`
  }

  function customType(sqlType: string, info: TypeInfo | undefined): string {
    const existing = custom.get(sqlType)
    if (existing) return existing.name
    const name = names.take(`${camel(sqlType)}Type`)
    const data = info?.name === 'bytea' ? 'Uint8Array' : 'string'
    const text = `const ${name} = ${use('customType')}<{ data: ${data} }>({ dataType: () => ${JSON.stringify(sqlType)} })`
    custom.set(sqlType, { name, text })
    return name
  }

  function sqlText(expression: string): string {
    return `${use('sql')}\`${expression.replace(/[\\`]|\$\{/g, '\\$&')}\``
  }

  return {
    build(column, isPrimaryKey) {
      const { identity, isGenerated, isSerial, isNullable, default: value } = column
      const chain = [
        builder(column),
        identity === 'always' && '.generatedAlwaysAsIdentity()',
        identity === 'by default' && '.generatedByDefaultAsIdentity()',
        isGenerated && `.generatedAlwaysAs(${sqlText(value ?? '')})`,
        value !== null && !isSerial && !isGenerated && `.default(${sqlText(value)})`,
        !isNullable && !isPrimaryKey && '.notNull()',
        isPrimaryKey && '.primaryKey()',
      ]
      return chain.filter(Boolean).join('')
    },
    customTypes: () => [...custom.values()].map(({ text }) => text),
  }
}

interface Scalar {
  builder: string
  /** Options from the type modifier, such as the length. */
  options?: (args: readonly string[]) => string
}

const asNumber = () => `{ mode: 'number' }`
const length = ([size]: readonly string[]) => (size ? `{ length: ${size} }` : '')
const precise =
  (rest: string) =>
  ([precision]: readonly string[]) => {
    const parts = [precision && `precision: ${precision}`, rest].filter(Boolean)
    return parts.length > 0 ? `{ ${parts.join(', ')} }` : ''
  }

const scalars: Readonly<Record<string, Scalar>> = {
  bool: { builder: 'boolean' },
  int2: { builder: 'smallint' },
  int4: { builder: 'integer' },
  int8: { builder: 'bigint', options: asNumber },
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
  time: { builder: 'time', options: precise('') },
  timetz: { builder: 'time', options: precise('withTimezone: true') },
  timestamp: { builder: 'timestamp', options: precise(`mode: 'string'`) },
  timestamptz: { builder: 'timestamp', options: precise(`withTimezone: true, mode: 'string'`) },
  interval: { builder: 'interval' },
  json: { builder: 'json' },
  jsonb: { builder: 'jsonb' },
  inet: { builder: 'inet' },
  cidr: { builder: 'cidr' },
  macaddr: { builder: 'macaddr' },
  macaddr8: { builder: 'macaddr8' },
  point: { builder: 'point' },
}
const serials: Readonly<Record<string, Scalar>> = {
  int2: { builder: 'smallserial' },
  int4: { builder: 'serial' },
  int8: { builder: 'bigserial', options: asNumber },
}
