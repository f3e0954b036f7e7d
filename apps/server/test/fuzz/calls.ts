// Calls of functions.
import { conditions, type Sources } from './conditions.ts'
import { everyone, nameMark, valueMark, type Who } from './markers.ts'
import type { Query } from './query.ts'
import type { Random } from './random.ts'
import { tableNamed } from './schema.ts'
import { arrayLiteral, rightValue, wrongValue } from './values.ts'
import { type Wire, writeRead } from './wire.ts'

type Param = Wire['params'][number]
const choose = (random: Random, words: string) => random.pick(words.split(' '))
const json = { 'content-type': 'application/json' }

const functions =
  'add people_of find_people person total echo described who_am_i nothing write_line refused for_nobody exec_sql'

const statements = [
  'select 1 as one',
  'select count(*) from people',
  'select 1; select 2 as two',
  'create temp table x (a int); insert into x values (1) returning a',
  'select pg_sleep(0.01)',
  'select',
  'selec',
  '',
  ';',
  'select 1/0',
  'begin',
  'rollback',
  'begin; select 1; commit',
  'set role anon',
  'copy people to stdout',
  'copy people from stdin',
  'listen x',
  'prepare p as select 1',
  'declare c cursor with hold for select 1',
  'set search_path = nowhere',
  "do $$ begin raise exception 'no'; end $$",
]

/** Functions with every kind of signature, by GET, HEAD and POST, with valid and invalid arguments. */
export function anyCall(from: Sources): Wire {
  const { random } = from
  const name = choose(random, functions)
  const who = random.pick(everyone)
  const args = name === 'exec_sql' ? { sql: statementFor(random, who) } : argumentsOf(random, name)
  const isPost = random.chance(0.6) || name === 'exec_sql'
  const rows: readonly Param[] =
    name === 'people_of' || name === 'find_people'
      ? resultParams(from, name)
      : random.chance(0.1)
        ? [['select', 'id']]
        : []
  const entries = Object.entries(args).map(([key, value]): Param => [key, asText(value)])
  const common = { who, path: `rpc/${name}`, headers: callHeaders(random) }
  return isPost
    ? {
        ...common,
        method: 'POST',
        params: rows,
        body: JSON.stringify(args),
        headers: { ...json, ...common.headers },
      }
    : { ...common, method: random.chance(0.2) ? 'HEAD' : 'GET', params: [...entries, ...rows] }
}

/** Only service_role can run it. Statements of other callers do not reach Postgres. */
const statementFor = (random: Random, who: Who) =>
  who === 'service' ? random.pick(statements) : `select '${valueMark(random)}'`

const asText = (value: unknown) =>
  Array.isArray(value)
    ? arrayLiteral(value.map(String))
    : typeof value === 'string'
      ? value
      : JSON.stringify(value)

function argumentsOf(random: Random, name: string): Record<string, unknown> {
  const int = () => (random.chance(0.1) ? wrongValue('int', random) : Number(rightValue('int', random)))
  const strange = random.chance(0.05) ? { [nameMark(random)]: valueMark(random) } : {}
  const known: Record<string, () => Record<string, unknown>> = {
    add: () => ({ a: int(), ...(random.chance(0.5) && { b: 1 }) }),
    people_of: () => ({ team: int() }),
    find_people: () => ({
      needle: random.pick(['zq', rightValue('text', random)]),
      ...(random.chance(0.3) && { at_least: int() }),
    }),
    person: () => ({ wanted: int() }),
    total: () => ({ amounts: [int(), int()] }),
    echo: () => ({ a: [rightValue('text', random), null, { b: int() }] }),
    described: () => ({ x: int() }),
    write_line: () => ({ text: rightValue('text', random) }),
    refused: () => ({ code: choose(random, 'PT404 PT422 22023 42501 P0001') }),
  }
  return { ...known[name]?.(), ...strange }
}

function resultParams(from: Sources, name: string): Param[] {
  const { random } = from
  const table = tableNamed('people')
  const isWhole = name === 'people_of'
  const picked = isWhole
    ? table
    : { ...table, columns: table.columns.filter(each => ['id', 'name'].includes(each.name)) }
  const query: Query = { table: picked, select: [], where: conditions(from, picked, []), order: [] }
  const { params } = writeRead({ who: 'anon', method: 'GET', shape: 'array', query })
  const select: Param[] = random.chance(0.5) ? [['select', isWhole ? 'id,name,teams(name)' : 'id,name']] : []
  return [...params, ...select, ...(random.chance(0.3) ? [['limit', '3'] as const] : [])]
}

const callHeaders = (random: Random): Record<string, string> =>
  random.pick<Record<string, string>>([
    {},
    {},
    {},
    { prefer: 'count=exact' },
    { accept: 'application/vnd.pgrst.object+json' },
    { accept: 'text/csv' },
    { accept: 'text/plain' },
    { prefer: 'params=single-object' },
    { prefer: 'tx=rollback' },
    { prefer: 'handling=strict,max-affected=2' },
  ])
