// Writes whose result the oracle can compute. They use `tx=rollback`, or a limit that they are known to exceed, so the
// answer shows the result and the database does not change.
import { conditions, type Sources, test } from './conditions.ts'
import { everyone, valueMark, type Who } from './markers.ts'
import type { Condition } from './query.ts'
import type { Random } from './random.ts'
import { type Kind, type Table, tableNamed, writableTables } from './schema.ts'
import { rightValue } from './values.ts'
import { type Wire, writeRead } from './wire.ts'

export interface Change {
  who: Who
  method: 'POST' | 'PATCH' | 'DELETE'
  table: Table
  columns: readonly string[]
  /** The inserted rows or the set values. Empty for a DELETE. */
  rows: readonly Readonly<Record<string, string | null>>[]
  /** Missing columns of rows become null or their default. */
  missing?: 'null' | 'default'
  /** The action for rows whose key exists. */
  onConflict?: 'merge' | 'ignore'
  /** The conflict columns, by default the primary key. */
  onConflictOf?: readonly string[]
  where: readonly Condition[]
  /** Columns to return. */
  select: readonly string[]
  isCounted: boolean
  /** Requires one row, or fewer rows than the change affects. */
  guard?: 'single' | 'fewer'
}

/** The exceeded limit that is sent instead of `tx=rollback`. */
export type BrokenGuard = { is: 'single' } | { is: 'fewer'; than: number }

export function anyChange(from: Sources): Change {
  const { random } = from
  const method = random.pick(['POST', 'PATCH', 'PATCH', 'DELETE'] as const)
  const isOwn = method === 'PATCH' && random.chance(0.3)
  const table = isOwn ? tableNamed('people') : random.pick(writableTables)
  const count = method === 'POST' ? random.int(1, 3) : 1
  const columns = columnsToWrite(random, table, method)
  const missing =
    method === 'POST' && random.chance(0.3) ? random.pick(['null', 'default'] as const) : undefined
  const present = () => (missing ? columns.filter(() => random.chance(0.7)) : columns)
  const rows = Array.from({ length: count }, () => newRow(random, table, present()))
  const hasKey = table.key.length > 0 && table.key.every(name => columns.includes(name))
  const isBySlug = columns.includes('slug') && random.chance(0.5)
  return {
    who: random.pick(everyone),
    method,
    table,
    columns,
    rows: method === 'DELETE' ? [] : rows,
    ...(missing && { missing }),
    ...(method === 'POST' &&
      (hasKey || isBySlug) &&
      random.chance(0.5) && { onConflict: random.pick(['merge', 'ignore']) }),
    ...(isBySlug && { onConflictOf: ['slug'] }),
    // Every change needs a filter outside of groups.
    where: method === 'POST' ? [] : [test(from, table), ...conditions(from, table, [])],
    select: returned(random, table),
    isCounted: random.chance(0.3),
    ...(random.chance(0.3) && { guard: random.pick(['single', 'fewer']) }),
  }
}

/** The guard that this number of rows violates, if any. */
export function brokenGuard({ guard }: Change, total: number): BrokenGuard | undefined {
  if (guard === 'single' && total !== 1) return { is: 'single' }
  return guard === 'fewer' && total > 0 ? { is: 'fewer', than: total } : undefined
}

/** The generated key of notes differs between attempts, so it is not returned. */
function returned(random: Random, table: Table): string[] {
  const names = table.columns.filter(({ isComputed }) => !isComputed).map(({ name }) => name)
  const stable = table.name === 'notes' ? names.filter(name => name !== 'id') : names
  return random.sample(stable, random.int(1, 4))
}

function columnsToWrite(random: Random, table: Table, method: string): string[] {
  const free = table.columns.filter(
    ({ name, isComputed }) => !isComputed && !/^is_open$|^owner$|^id$/.test(name),
  )
  const some = random.sample(free, random.int(1, 4)).map(({ name }) => name)
  const needed =
    method === 'POST' && random.chance(0.9)
      ? [...table.key, ...(table.name === 'notes' ? ['title'] : [])]
      : []
  return [...new Set([...needed, ...some])]
}

const newRow = (random: Random, table: Table, columns: readonly string[]) =>
  Object.fromEntries(
    columns.map(name => {
      const { kind } = table.columns.find(column => column.name === name)!
      return [name, random.chance(0.07) ? null : newValue(random, table, name, kind)]
    }),
  )

function newValue(random: Random, table: Table, name: string, kind: Kind): string {
  if (table.name === 'pairs' && kind === 'int') return String(random.int(0, 12))
  if (name === 'stars') return String(random.int(0, 10))
  if (name === 'slug') return `slug-${random.int(1, 60)}`
  if (name === 'title') return random.chance(0.1) ? 'forbidden' : valueMark(random)
  return rightValue(kind, random)
}

const conflicts = { merge: 'resolution=merge-duplicates', ignore: 'resolution=ignore-duplicates' }

export function writeChange(change: Change, guard?: BrokenGuard): Wire {
  const { who, method, table, columns, rows, missing, onConflict, onConflictOf, where, select } = change
  const bodies = rows.map(row => jsonRow(table, row))
  const filters = writeRead({
    who,
    method: 'GET',
    shape: 'array',
    query: { table, select: [], where, order: [] },
  })
  const preferences = [
    'return=representation',
    guard?.is === 'fewer' ? `handling=strict,max-affected=${guard.than - 1}` : guard ? '' : 'tx=rollback',
    change.isCounted ? 'count=exact' : '',
    missing === 'default' ? 'missing=default' : '',
    onConflict ? conflicts[onConflict] : '',
  ]
  return {
    who,
    method,
    path: table.name,
    params: [
      ...filters.params,
      ...(onConflict && onConflictOf ? [['on_conflict', onConflictOf.join(',')] as const] : []),
      ...(missing ? [['columns', columns.join(',')] as const] : []),
      ['select', select.join(',')],
    ],
    headers: {
      'content-type': 'application/json',
      prefer: preferences.filter(each => each !== '').join(','),
      ...(guard?.is === 'single' && { accept: 'application/vnd.pgrst.object+json' }),
    },
    ...(method !== 'DELETE' && { body: JSON.stringify(bodies.length === 1 ? bodies[0] : bodies) }),
  }
}

const jsonRow = (table: Table, row: Change['rows'][number]) =>
  Object.fromEntries(
    Object.entries(row).map(([name, value]) => {
      const { kind } = table.columns.find(column => column.name === name)!
      return [
        name,
        value !== null && (kind === 'jsonb' || kind === 'bool' || kind === 'int') ? JSON.parse(value) : value,
      ]
    }),
  )
