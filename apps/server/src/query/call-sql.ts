// The statement of a function call. Columns of the answer are body, rows returned, rows in all, guard, response
// headers, response status.
import { identifier } from '#src/kernel/postgres/sql.ts'
import { atMostSql, bodySql, csvSql, type Form, guardSql, onlyOneSql, responseSql } from './answer-sql.ts'
import type { Catalog, Parameter, Routine } from './catalog.ts'
import { levelSql, outputNames, pageSql } from './level-sql.ts'
import type { Level } from './plan.ts'
import { qualified, Writer } from './writer.ts'

/** Where the arguments are: named in a JSON object, named in the query string, or the whole body as the only one. */
export type Arguments =
  | { readonly kind: 'object'; readonly given: readonly Parameter[] }
  | { readonly kind: 'values'; readonly given: readonly { parameter: Parameter; slot: number }[] }
  | { readonly kind: 'body'; readonly type: string }

export interface CallAnswer {
  readonly form: Form
  readonly isCounted: boolean
  /** The cap, when it and not the client set the page's size. */
  readonly isCapped: boolean
  readonly mostRows?: number | undefined
}

export function callSql(
  catalog: Catalog,
  routine: Routine,
  level: Level | undefined,
  args: Arguments,
  { form, isCounted, isCapped, mostRows }: CallAnswer,
): { sql: string; writer: Writer } {
  const writer = new Writer(catalog.extension('vector'))
  const alias = writer.alias()
  const call = `${qualified(routine)}(${argumentsSql(writer, args)})`
  const from =
    args.kind === 'object' && args.given.length > 0 ? `${argumentRow(writer, args.given)}, lateral ` : ''
  const tail = `${guardSql(catalog)}, ${responseSql}`
  const most = mostRows === undefined ? '' : `, ${atMostSql('pg_catalog.count(*)', mostRows)}`
  if (!level) {
    const body = scalarBody(routine, form, alias)
    return {
      sql: `select ${body}, pg_catalog.count(*), null, ${tail}${most} from ${from}${call} as ${alias}(v)`,
      writer,
    }
  }
  const names = outputNames(level)
  const all = levelSql(writer, level, `${from}${call} as ${alias}`, alias, [], false)
  const inAll = '(select pg_catalog.count(*) from called)'
  const total = isCounted
    ? inAll
    : isCapped
      ? `case when pg_catalog.count(*) = ${level.limit} then ${inAll} end`
      : 'null'
  const plain = bodySql(form, 'r', names, catalog)
  const body = form.kind === 'object' && routine.isSet ? onlyOneSql('pg_catalog.count(*)', plain) : plain
  return {
    sql: `with called as materialized (${all}) select ${body}, pg_catalog.count(*), ${total}, ${tail}${most} from (select * from called ${pageSql(writer, level)}) r`,
    writer,
  }
}

/** A function that returns no rows with columns: its value, or the list of its values. */
function scalarBody({ name, returns, isSet }: Routine, form: Form, alias: string): string {
  if (returns === 'void' || form.kind === 'none') return 'null'
  if (form.kind === 'csv') return csvSql([name], `${alias}.v::text`)
  return isSet
    ? `coalesce(pg_catalog.json_agg(${alias}.v), '[]')`
    : `coalesce(pg_catalog.json_agg(${alias}.v) -> 0, 'null')`
}

function argumentsSql(writer: Writer, args: Arguments): string {
  if (args.kind === 'body') return `${writer.parameter('body')}::${args.type}`
  const named =
    args.kind === 'object'
      ? args.given.map(parameter => ({ parameter, sql: `a.${identifier(parameter.name)}` }))
      : args.given.map(({ parameter, slot }) => ({
          parameter,
          sql: `${writer.parameter(slot)}::${parameter.type}`,
        }))
  return named
    .map(
      ({ parameter: { name, isVariadic }, sql }) =>
        `${isVariadic ? 'variadic ' : ''}${identifier(name)} => ${sql}`,
    )
    .join(', ')
}

const argumentRow = (writer: Writer, given: readonly Parameter[]): string =>
  `pg_catalog.json_to_record(${writer.parameter('body')}::json) as a(${given
    .map(({ name, type }) => `${identifier(name)} ${type}`)
    .join(', ')})`
