// The statement of a function call.
import { identifier, literal } from '#src/kernel/postgres/sql.ts'
import { answerSql, csvSql, type Form, isCurrentSql, textSql, valueTextSql } from './answer-sql.ts'
import type { Catalog, Parameter, Routine } from './catalog.ts'
import type { Level } from './level.ts'
import { levelSql, outputNames, pageSql } from './level-sql.ts'
import { wholeRows } from './read-sql.ts'
import { json, jsonb } from './value-sql.ts'
import { qualified, Writer } from './writer.ts'

/** Arguments by name in a JSON text, by name with a value each, or one value for the only parameter. */
export type Arguments =
  | NamedArguments
  | { readonly kind: 'values'; readonly given: readonly { parameter: Parameter; slot: number }[] }
  | { readonly kind: 'whole'; readonly type: string; readonly slot: number }

interface NamedArguments {
  readonly kind: 'named'
  readonly given: readonly Parameter[]
  /** An array, whose first object has the arguments. */
  readonly isArray: boolean
  /** Every value is a string, also those of JSON parameters. */
  readonly isText: boolean
  readonly slot: number
}

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
  const from = args.kind === 'named' ? argumentRows(writer, args) : ''
  const count = 'pg_catalog.count(*)'
  const common = { count, settings, maxRows, isOneRow: form.kind === 'object' && routine.isSet }
  const isCurrent = isCurrentSql(catalog)
  if (!level) {
    const text = scalarText(routine, form, catalog, alias)
    const answer = answerSql({ ...common, text, total: isCounted ? count : 'null' })
    // A record has no known columns, so it cannot stand in FROM.
    const source =
      routine.returns === 'record'
        ? `(select ${call} as v${from && ` from ${from}`}) ${alias}`
        : `${from && `${from}, lateral `}${call} as ${alias}(v)`
    return { sql: `select ${answer} from ${source} where ${isCurrent}`, writer }
  }
  const source = `${from && `${from}, lateral `}${call} as ${alias}`
  const takesRow = form.kind === 'handled' && form.takesRow
  const all = takesRow
    ? wholeRows(writer, level, source, alias, false)
    : levelSql(writer, level, source, alias, [], false)
  const counted = '(select pg_catalog.count(*) from called)'
  const total = isCounted
    ? counted
    : isCapped
      ? `case when ${count} = ${level.limit} then ${counted} end`
      : 'null'
  const text = textSql(form, 'r', outputNames(level), catalog, takesRow ? 'r.v' : undefined)
  const answer = answerSql({ ...common, text, total })
  const page = `select * from called ${pageSql(writer, level)}`
  return {
    sql: `with called as materialized (${all}) select ${answer} from (${page}) r where ${isCurrent}`,
    writer,
  }
}

/** The text of a function that returns no rows with columns: its value, or the list of its values. */
function scalarText({ name, returns, isSet }: Routine, form: Form, catalog: Catalog, alias: string): string {
  const value = `${alias}.v`
  if (returns === 'void' || form.kind === 'none') return 'null'
  if (form.kind === 'csv') return csvSql([name], `${value}::text`)
  if (form.kind === 'value') return valueTextSql(form, value)
  if (form.kind === 'handled') return textSql(form, '', [], catalog, value)
  return isSet && form.kind !== 'object'
    ? `coalesce(pg_catalog.json_agg(${value}), '[]')`
    : `coalesce(pg_catalog.json_agg(${value}) -> 0, 'null')`
}

function argumentsSql(writer: Writer, args: Arguments): string {
  if (args.kind === 'whole') return `${writer.parameter(args.slot)}::${args.type}`
  const named =
    args.kind === 'named'
      ? args.given.map(parameter => ({ parameter, sql: argumentSql(writer, parameter, args) }))
      : args.given.map(({ parameter, slot }) => ({
          parameter,
          sql: `${writer.parameter(slot)}::${parameter.type}`,
        }))
  return named
    .toSorted((a, b) => Number(a.parameter.name !== '') - Number(b.parameter.name !== ''))
    .map(({ parameter: { name, isVariadic }, sql }) => {
      // An unnamed parameter is the first one, and is given by its position.
      const target = name === '' ? '' : `${identifier(name)} => `
      return `${isVariadic ? 'variadic ' : ''}${target}${sql}`
    })
    .join(', ')
}

const isJson = ({ typeOid }: Parameter): boolean => typeOid === json || typeOid === jsonb

function argumentSql(writer: Writer, parameter: Parameter, args: NamedArguments): string {
  if (isRepeatable(parameter, args)) return repeatedSql(writer, parameter, args.slot)
  const value = parameter.name === '' ? 'u.v' : `a.${identifier(parameter.name)}`
  return args.isText && isJson(parameter) ? `${value}::${parameter.type}` : value
}

/** Fields of a form can have the same name, one for each element of a variadic parameter. */
const isRepeatable = ({ isVariadic }: Parameter, { isText, isArray }: NamedArguments): boolean =>
  isVariadic && isText && !isArray

/** All fields of the name, or a single one with the text of an array. */
function repeatedSql(writer: Writer, { name, type }: Parameter, slot: number): string {
  const isArrayText = "pg_catalog.count(*) = 1 and pg_catalog.min(value) like '{%'"
  return `(select case when ${isArrayText} then pg_catalog.min(value)::${type} else pg_catalog.array_agg(value)::${type} end
    from pg_catalog.json_each_text(${writer.parameter(slot)}::json) where key = ${literal(name)})`
}

/** The named arguments as one row `a`, and the unnamed one, which a column name cannot express, as `u`. */
function argumentRows(writer: Writer, args: NamedArguments): string {
  const { isArray, isText, slot } = args
  const given = args.given.filter(parameter => !isRepeatable(parameter, args))
  if (given.length === 0) return ''
  const body = `${writer.parameter(slot)}::json`
  const row = isArray ? `(${body}) -> 0` : body
  const typeOf = (parameter: Parameter) => (isText && isJson(parameter) ? 'text' : parameter.type)
  const named = given.filter(({ name }) => name !== '')
  const unnamed = given.find(({ name }) => name === '')
  const columns = named.map(parameter => `${identifier(parameter.name)} ${typeOf(parameter)}`)
  const rows: string[] = []
  if (named.length > 0) rows.push(`pg_catalog.json_to_record(${row}) as a(${columns.join(', ')})`)
  if (unnamed)
    rows.push(
      `pg_catalog.json_to_record(pg_catalog.json_build_object('v', (${row}) -> '')) as u(v ${typeOf(unnamed)})`,
    )
  return rows.join(', ')
}
