// Inserts, updates, upserts and deletes, on writable and on other tables.
import { conditions, type Sources, test } from './conditions.ts'
import { everyone, nameMark, valueMark } from './markers.ts'
import type { Query } from './query.ts'
import type { Random } from './random.ts'
import { readableTables, type Table, writableTables } from './schema.ts'
import { rightValue, wrongValue } from './values.ts'
import { type Wire, writeRead } from './wire.ts'

type Param = Wire['params'][number]
const choose = (random: Random, words: string) => random.pick(words.split(' '))
const json = { 'content-type': 'application/json' }

/** Uses no values of the data, because a caller may see what it has written itself. */
export function anyWrite(from: Sources): Wire {
  const { random } = from
  const who = random.pick(everyone)
  // service_role could make hidden rows visible, and their canaries would then be correct.
  const table =
    who === 'service' || random.chance(0.8) ? random.pick(writableTables) : random.pick(readableTables)
  const method = choose(random, 'POST POST POST PATCH PATCH DELETE PUT')
  const isMany = method === 'POST' && random.chance(0.4)
  const rows = Array.from({ length: isMany ? random.int(0, 4) : 1 }, () => newRow(random, table))
  const body = method === 'DELETE' ? undefined : JSON.stringify(isMany ? rows : rows[0])
  const filters = method === 'POST' ? [] : writeFilters(from, table, method)
  const hasSelect = random.chance(0.3)
  return {
    who,
    method,
    path: table.name,
    params: [
      ...filters,
      ...(hasSelect
        ? [['select', table.columns[0]!.name.includes(' ') ? '*' : table.columns[0]!.name] as const]
        : []),
      ...(method === 'POST' ? insertParams(random, table, rows) : []),
    ],
    headers: { ...(body !== undefined && json), ...writeHeaders(random, hasSelect) },
    ...(body !== undefined && { body }),
  }
}

/** Does not set columns that determine who may see a row. */
function newRow(random: Random, table: Table): Record<string, unknown> {
  const free = table.columns.filter(
    ({ name, isComputed }) => !isComputed && !/^is_open$|owner|_id$|^id$/.test(name),
  )
  const row: Record<string, unknown> = {}
  for (const { name, kind } of random.sample(free, random.int(1, 5))) {
    const text = random.chance(0.05) ? (wrongValue(kind, random) ?? '') : rightValue(kind, random)
    row[name] = random.chance(0.1) ? null : jsonOf(kind, text)
  }
  if (table.name === 'notes' && random.chance(0.9)) Object.assign(row, note(random))
  if (table.name === 'pairs' && random.chance(0.9))
    Object.assign(row, { a: random.int(0, 5), b: random.int(0, 9) })
  if (random.chance(0.03))
    row[random.pick([nameMark(random), '__proto__', 'constructor', ''])] = valueMark(random)
  return row
}

const note = (random: Random) => ({
  title: random.pick(['forbidden', valueMark(random), valueMark(random), valueMark(random)]),
  stars: random.pick([1, 2, 3, 10]),
  ...(random.chance(0.3) && { slug: `slug-${random.int(1, 40)}` }),
})

function jsonOf(kind: string, text: string): unknown {
  if (kind !== 'jsonb' && kind !== 'bool') return text
  try {
    return JSON.parse(text)
  } catch {
    return text
  }
}

function writeFilters(from: Sources, table: Table, method: string): Param[] {
  const { random } = from
  if (method === 'PUT') return table.key.map(name => [name, `eq.${random.int(0, 9)}`] as const)
  const where = random.chance(0.1) ? conditions(from, table, []) : [test(from, table)]
  const query: Query = { table, select: [], where, order: [] }
  return [...writeRead({ who: 'anon', method: 'GET', shape: 'array', query }).params]
}

function insertParams(random: Random, table: Table, rows: Record<string, unknown>[]): Param[] {
  const keys = [...new Set(rows.flatMap(row => Object.keys(row)))]
  const conflict = random.pick(['', table.key.join(','), 'slug', nameMark(random), 'title'])
  return [
    ...(random.chance(0.4) ? [['columns', keys.map(key => JSON.stringify(key)).join(',')] as const] : []),
    ...(random.chance(0.2) ? [['on_conflict', conflict] as const] : []),
  ]
}

function writeHeaders(random: Random, hasSelect: boolean): Record<string, string> {
  const preferences = [
    hasSelect || random.chance(0.4)
      ? 'return=representation'
      : choose(random, 'return=minimal return=headers-only'),
    ...random.sample(
      [
        'count=exact',
        'missing=default',
        'tx=rollback',
        'handling=strict',
        'max-affected=3',
        'resolution=merge-duplicates',
        'resolution=ignore-duplicates',
      ],
      random.pick([0, 0, 1, 2]),
    ),
  ]
  const accept = random.chance(0.15) ? { accept: 'application/vnd.pgrst.object+json' } : {}
  return { prefer: preferences.join(','), ...accept }
}
