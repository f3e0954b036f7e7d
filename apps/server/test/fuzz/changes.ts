// Writes whose outcome the oracle can find by itself. All of them end with `tx=rollback`: their answers tell what they
// did, and the database stays as it was.
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
  /** What is inserted or set, all with the same columns; none for a DELETE. */
  rows: readonly Readonly<Record<string, string | null>>[]
  /** What becomes of rows whose key is taken. */
  onConflict?: 'merge' | 'ignore'
  /** The columns of which; of the key when absent. */
  onConflictOf?: readonly string[]
  where: readonly Condition[]
  /** Columns to return. */
  select: readonly string[]
  isCounted: boolean
}

export function anyChange(from: Sources): Change {
  const { random } = from
  const method = random.pick(['POST', 'PATCH', 'PATCH', 'DELETE'] as const)
  const isOwn = method === 'PATCH' && random.chance(0.3)
  const table = isOwn ? tableNamed('people') : random.pick(writableTables)
  const count = method === 'POST' ? random.int(1, 3) : 1
  const columns = columnsToWrite(random, table, method)
  const rows = Array.from({ length: count }, () => newRow(random, table, columns))
  const hasKey = table.key.length > 0 && table.key.every(name => columns.includes(name))
  const isBySlug = columns.includes('slug') && random.chance(0.5)
  return {
    who: random.pick(everyone),
    method,
    table,
    rows: method === 'DELETE' ? [] : rows,
    ...(method === 'POST' &&
      (hasKey || isBySlug) &&
      random.chance(0.5) && { onConflict: random.pick(['merge', 'ignore']) }),
    ...(isBySlug && { onConflictOf: ['slug'] }),
    // The first is flat, as every change must have one.
    where: method === 'POST' ? [] : [test(from, table), ...conditions(from, table, [])],
    select: returned(random, table),
    isCounted: random.chance(0.3),
  }
}

/** Numbers the database gives would differ from one try to the next, so the key of notes is sent or not returned. */
function returned(random: Random, table: Table): string[] {
  const names = table.columns.filter(({ isComputed }) => !isComputed).map(({ name }) => name)
  const telling = table.name === 'notes' ? names.filter(name => name !== 'id') : names
  return random.sample(telling, random.int(1, 4))
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

export function writeChange({
  who,
  method,
  table,
  rows,
  onConflict,
  onConflictOf,
  where,
  select,
  isCounted,
}: Change): Wire {
  const bodies = rows.map(row => jsonRow(table, row))
  const query = { table, select: [], where, order: [] }
  const { params } = writeRead({ who, method: 'GET', shape: 'array', query })
  const preferences = [
    'return=representation',
    'tx=rollback',
    ...(isCounted ? ['count=exact'] : []),
    ...(onConflict ? [conflicts[onConflict]] : []),
  ]
  return {
    who,
    method,
    path: table.name,
    params: [
      ...params,
      ...(onConflict && onConflictOf ? [['on_conflict', onConflictOf.join(',')] as const] : []),
      ['select', select.join(',')],
    ],
    headers: { 'content-type': 'application/json', prefer: preferences.join(',') },
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
