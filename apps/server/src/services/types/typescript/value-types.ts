// Maps Postgres types to the TypeScript types of their JSON values.
import { baseOf, type Column, type Description, type Relation } from '#src/query/description.ts'
import { quote } from './text.ts'

export interface ValueTypes {
  /** The type in JSON, for reads and writes. */
  typeOf(type: number): string
  columnType(column: Pick<Column, 'type' | 'isNullable'>): string
  /** The relation that this row type belongs to. */
  relationOf(type: number): Relation | undefined
}

export function createValueTypes({ relations, enums, composites, types }: Description): ValueTypes {
  /** All types of a schema share one namespace. */
  const named = new Set([...enums, ...composites].map(placeOf))
  const byOid = new Map(relations.map(relation => [relation.oid, relation]))

  function typeOf(type: number): string {
    const info = baseOf(type, types)
    if (!info) return 'unknown'
    switch (info.kind) {
      case 'array': {
        const element = typeOf(info.of)
        return /[|&]/.test(element) && !element.startsWith('{') ? `(${element})[]` : `${element}[]`
      }
      case 'enum':
        return named.has(placeOf(info))
          ? `Database[${quote(info.schema)}]["Enums"][${quote(info.name)}]`
          : info.labels.map(quote).join(' | ') || 'never'
      case 'composite': {
        const relation = byOid.get(info.relation)
        if (relation) return rowOf(relation)
        return named.has(placeOf(info))
          ? `Database[${quote(info.schema)}]["CompositeTypes"][${quote(info.name)}]`
          : 'Json'
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

  const columnType: ValueTypes['columnType'] = ({ type, isNullable }) =>
    `${typeOf(type)}${isNullable ? ' | null' : ''}`

  return { typeOf, columnType, relationOf: type => byOid.get(types.get(type)?.relation ?? 0) }
}

interface Place {
  schema: string
  name: string
}
const placeOf = ({ schema, name }: Place) => `${schema}\0${name}`

const rowOf = ({ schema, name, kind }: Relation) =>
  `Database[${quote(schema)}][${quote(kind === 'table' ? 'Tables' : 'Views')}][${quote(name)}]["Row"]`

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
