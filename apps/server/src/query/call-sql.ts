// The statement of a function call.
import { identifier } from '#src/kernel/postgres/sql.ts'
import { answerSql, csvSql, type Form, onlyOneSql, textSql } from './answer-sql.ts'
import type { Catalog, Parameter, Routine } from './catalog.ts'
import type { Level } from './level.ts'
import { levelSql, outputNames, pageSql } from './level-sql.ts'
import { qualified, Writer } from './writer.ts'

/** Arguments by name in one JSON object, by name with a value each, or one value for the only parameter. */
export type Arguments =
  | { readonly kind: 'object'; readonly given: readonly Parameter[]; readonly slot: number }
  | { readonly kind: 'values'; readonly given: readonly { parameter: Parameter; slot: number }[] }
  | { readonly kind: 'whole'; readonly type: string; readonly slot: number }

export interface CallAnswer {
  readonly form: Form
  readonly isCounted: boolean
  /** The platform, not the client, chose the size of the page. */
  readonly isCapped: boolean
  readonly maxRows?: number | undefined
  readonly settings: readonly string[]
}

export function callSql(
  catalog: Catalog,
  routine: Routine,
  level: Level | undefined,
  args: Arguments,
  { form, isCounted, isCapped, maxRows, settings }: CallAnswer,
): { sql: string; writer: Writer } {
  const writer = new Writer(catalog.extension('vector'))
  const alias = writer.alias()
  const call = `${qualified(routine)}(${argumentsSql(writer, args)})`
  const from = args.kind === 'object' && args.given.length > 0 ? `${argumentRow(writer, args)}, lateral ` : ''
  const count = 'pg_catalog.count(*)'
  if (!level) {
    const text = scalarText(routine, form, alias)
    const answer = answerSql(catalog, { text, count, total: 'null', settings, maxRows })
    return { sql: `select ${answer} from ${from}${call} as ${alias}(v)`, writer }
  }
  const names = outputNames(level)
  const all = levelSql(writer, level, `${from}${call} as ${alias}`, alias, [], false)
  const counted = '(select pg_catalog.count(*) from called)'
  const total = isCounted
    ? counted
    : isCapped
      ? `case when ${count} = ${level.limit} then ${counted} end`
      : 'null'
  const rows = textSql(form, 'r', names, catalog)
  const text = form.kind === 'object' && routine.isSet ? onlyOneSql(count, rows) : rows
  const answer = answerSql(catalog, { text, count, total, settings, maxRows })
  return {
    sql: `with called as materialized (${all}) select ${answer} from (select * from called ${pageSql(writer, level)}) r`,
    writer,
  }
}

/** The text of a function that returns no rows with columns: its value, or the list of its values. */
function scalarText({ name, returns, isSet }: Routine, form: Form, alias: string): string {
  if (returns === 'void' || form.kind === 'none') return 'null'
  if (form.kind === 'csv') return csvSql([name], `${alias}.v::text`)
  return isSet
    ? `coalesce(pg_catalog.json_agg(${alias}.v), '[]')`
    : `coalesce(pg_catalog.json_agg(${alias}.v) -> 0, 'null')`
}

function argumentsSql(writer: Writer, args: Arguments): string {
  if (args.kind === 'whole') return `${writer.parameter(args.slot)}::${args.type}`
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

const argumentRow = (writer: Writer, { given, slot }: Arguments & { kind: 'object' }): string =>
  `pg_catalog.json_to_record(${writer.parameter(slot)}::json) as a(${given
    .map(({ name, type }) => `${identifier(name)} ${type}`)
    .join(', ')})`
