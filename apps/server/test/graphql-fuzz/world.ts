// A random schema with random rows, policies and column grants.
import type { Random } from '../fuzz/random.ts'

export type ColumnType = 'int' | 'bigint' | 'text' | 'bool' | 'numeric'

export interface FuzzColumn {
  readonly name: string
  readonly type: ColumnType
  readonly isNotNull: boolean
}

/** A foreign key from `table` to the column `id` of `target`. */
export interface FuzzKey {
  readonly table: string
  readonly column: string
  readonly target: string
}

export interface FuzzTable {
  readonly name: string
  readonly columns: readonly FuzzColumn[]
  /** Columns that anon may not read. */
  readonly hidden: readonly string[]
}

export interface FuzzSchema {
  readonly tables: readonly FuzzTable[]
  readonly keys: readonly FuzzKey[]
  readonly sql: string
}

/** A row as strings, numbers, booleans and nulls. Big numbers are strings, as in GraphQL. */
export type FuzzRow = Readonly<Record<string, string | number | boolean | null>>

const users = ['11111111-1111-4111-8111-111111111111', '22222222-2222-4222-8222-222222222222'] as const
export const fuzzUsers: readonly string[] = users

export function randomSchema(random: Random): FuzzSchema {
  const names = ['apples', 'boxes', 'crates', 'depots']
  const keys: FuzzKey[] = []
  const statements: string[] = []
  const tables = names.map((name, place): FuzzTable => {
    const own = Array.from({ length: random.int(1, 4) }, (_, index): FuzzColumn => {
      const type = random.pick(['int', 'bigint', 'text', 'bool', 'numeric'] as const)
      return { name: `${type[0]}${index}`, type, isNotNull: random.chance(0.3) }
    })
    const targets = random.sample(names.slice(0, place), random.int(0, 2))
    for (const target of targets) keys.push({ table: name, column: `${target}_id`, target })
    const columns: FuzzColumn[] = [
      { name: 'id', type: 'int', isNotNull: true },
      { name: 'owner', type: 'text', isNotNull: false },
      ...own,
      ...targets.map(target => ({ name: `${target}_id`, type: 'int' as const, isNotNull: false })),
    ]
    const definitions = columns.map(
      each =>
        `${each.name} ${each.type}${each.name === 'id' ? ' primary key' : each.isNotNull ? ' not null' : ''}${
          each.name.endsWith('_id') ? ` references ${each.name.slice(0, -3)}` : ''
        }`,
    )
    statements.push(`create table ${name} (${definitions.join(', ')})`)
    const policy = random.pick(['true', 'id % 2 = 0', 'owner = auth.uid()::text', 'owner is null or id < 5'])
    if (random.chance(0.9)) statements.push(`create policy p on ${name} for select using (${policy})`)
    const hidden = random.chance(0.4) ? [random.pick(own).name] : []
    if (hidden.length > 0) {
      const shown = columns.filter(each => !hidden.includes(each.name)).map(each => each.name)
      statements.push(`revoke select on ${name} from anon; grant select (${shown.join()}) on ${name} to anon`)
    }
    return { name, columns, hidden }
  })
  for (const table of tables) statements.push(...insertsOf(table, random))
  return { tables, keys, sql: statements.join(';\n') }
}

function insertsOf({ name, columns }: FuzzTable, random: Random): string[] {
  const rows = Array.from({ length: random.int(0, 14) }, (_, index) =>
    columns.map(column => {
      if (column.name === 'id') return String(index + 1)
      if (!column.isNotNull && random.chance(0.25)) return 'null'
      if (column.name === 'owner') return `'${random.pick(users)}'`
      // Every table has at least this many rows, or the key is null.
      if (column.name.endsWith('_id'))
        return `(select max(id) from ${column.name.slice(0, -3)} where id <= ${random.int(1, 14)})`
      return literalOf(column.type, random)
    }),
  )
  return rows.map(values => `insert into ${name} values (${values.join(', ')})`)
}

export const words = ['a', 'ab', 'abc', 'b', 'ba', 'c', 'ca', 'd']

function literalOf(type: ColumnType, random: Random): string {
  switch (type) {
    case 'int':
      return String(random.int(-3, 6))
    case 'bigint':
      return `${random.int(0, 3)}00000000000`
    case 'text':
      return `'${random.pick(words)}'`
    case 'bool':
      return String(random.chance(0.5))
    case 'numeric':
      return `${random.int(-2, 2)}.${random.int(0, 3)}0`
  }
}
