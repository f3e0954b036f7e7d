// `column=op.value` of a subscription: one condition or several, all of which must hold. Postgres decides what a value
// means in a column; equality of plain values is then looked up here, the rest is asked of Postgres for each batch.
import { identifier, literal } from '#src/kernel/postgres/sql.ts'
import type { TableFacts } from './store.ts'

export interface Condition {
  readonly column: string
  readonly operator: Operator
  readonly isNegated: boolean
  readonly values: readonly string[]
}

const operators = {
  eq: '=',
  neq: '<>',
  lt: '<',
  lte: '<=',
  gt: '>',
  gte: '>=',
  in: 'in',
  like: 'like',
  ilike: 'ilike',
  match: '~',
  imatch: '~*',
  is: 'is',
  isdistinct: 'is distinct from',
} as const
type Operator = keyof typeof operators

const mostCharacters = 10_000
const mostValues = 100
const mostConditions = 20
const isValues = new Set(['null', 'true', 'false', 'unknown', 'not_null'])

/** Why a filter is none; the text is for whoever wrote it. */
export class BadFilter extends Error {}

export function parseFilter(text: string): Condition[] {
  if (text.length > mostCharacters) throw new BadFilter(`A filter has at most ${mostCharacters} characters`)
  const conditions = joinValues(splitList(text)).map(parseCondition)
  if (conditions.length > mostConditions)
    throw new BadFilter(`A filter has at most ${mostConditions} conditions`)
  return conditions
}

/** A comma that no condition follows belongs to the value before it, which should have been quoted. */
function joinValues(parts: readonly string[]): string[] {
  const joined: string[] = []
  for (const part of parts) {
    if (joined.length === 0 || /^\s*[^=\s]+=(not\.)?[a-z]+\./.test(part)) joined.push(part)
    else joined.push(`${joined.pop()},${part}`)
  }
  return joined
}

function parseCondition(text: string): Condition {
  const equals = text.indexOf('=')
  const [, negation, operator, value] = /^(not\.)?([a-z]+)\.(.*)$/s.exec(text.slice(equals + 1)) ?? []
  const column = text.slice(0, Math.max(0, equals)).trim()
  if (column === '' || value === undefined)
    throw new BadFilter(`The filter ${JSON.stringify(text)} must have the form column=operator.value`)
  if (!isOperator(operator!))
    throw new BadFilter(
      `Operator ${JSON.stringify(operator)} is unknown; there are ${Object.keys(operators).join(', ')}`,
    )
  const values = operator === 'in' ? splitInList(value) : [unquote(value)]
  if (values.length > mostValues) throw new BadFilter(`A list in a filter has at most ${mostValues} values`)
  if (operator === 'is' && !isValues.has(values[0]!.toLowerCase()))
    throw new BadFilter('The operator "is" takes null, not_null, true, false or unknown')
  if (text.includes('\0')) throw new BadFilter('A filter cannot hold a NUL character')
  return { column, operator, isNegated: negation !== undefined, values }
}

const isOperator = (name: string): name is Operator => Object.hasOwn(operators, name)

function splitInList(text: string): string[] {
  const inner = /^\((.*)\)$/s.exec(text.trim())?.[1]
  if (inner === undefined) throw new BadFilter('A list is written as in.(a,b,c)')
  return inner === '' ? [] : splitList(inner).map(unquote)
}

/** At commas that stand outside of quotes and parentheses. */
function splitList(text: string): string[] {
  const parts: string[] = []
  let part = ''
  let depth = 0
  let isQuoted = false
  for (let index = 0; index < text.length; index++) {
    const char = text[index]!
    if (char === '\\' && isQuoted) part += char + (text[++index] ?? '')
    else if (char === ',' && !isQuoted && depth === 0) {
      parts.push(part)
      part = ''
    } else {
      if (char === '"') isQuoted = !isQuoted
      else if (!isQuoted && char === '(') depth++
      else if (!isQuoted && char === ')') depth--
      part += char
    }
  }
  return [...parts, part]
}

const unquote = (text: string): string =>
  /^".*"$/s.test(text) && text.length > 1 ? text.slice(1, -1).replace(/\\(.)/gs, '$1') : text

/** The condition on a relation that has the table's columns; Postgres gives the value the column's type. */
export function conditionSql({ column, operator, isNegated, values }: Condition): string {
  const name = identifier(column)
  const written = values.map(literal)
  const condition =
    operator === 'in'
      ? written.length > 0
        ? `${name} in (${written.join(', ')})`
        : 'false'
      : operator === 'is'
        ? `${name} is ${values[0]!.toLowerCase().replace('not_null', 'not null')}`
        : `${name} ${operators[operator]} ${written[0]}`
  return isNegated ? `not (${condition})` : `(${condition})`
}

/** Whether the condition can be decided by comparing JSON texts. */
export const isLookedUp = (condition: Condition, table: TableFacts): boolean =>
  wantedValues(condition, table) !== undefined

const known = new WeakMap<Condition, { type: string; wanted: ReadonlySet<string> | undefined }>()

/** The values of an equality as Postgres writes them in JSON; undefined where only Postgres can tell. */
export function wantedValues(condition: Condition, { columns }: TableFacts): ReadonlySet<string> | undefined {
  const column = columns.find(({ name }) => name === condition.column)
  if (!column?.isPlain) return
  const before = known.get(condition)
  if (before?.type === column.type) return before.wanted
  const wanted = isEquality(condition) ? jsonOf(condition.values, column.type) : undefined
  known.set(condition, { type: column.type, wanted })
  return wanted
}

const isEquality = ({ operator }: Condition) => operator === 'eq' || operator === 'neq' || operator === 'in'

const readers: Readonly<Record<string, (value: string) => string | undefined>> = {
  smallint: integerText,
  integer: integerText,
  bigint: integerText,
  boolean: value => (value === 'true' || value === 'false' ? value : undefined),
  uuid: value =>
    /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i.test(value)
      ? JSON.stringify(value.toLowerCase())
      : undefined,
}

/** In another spelling, a value is left to Postgres. */
function integerText(value: string): string | undefined {
  return /^[+-]?\d{1,18}$/.test(value) ? String(BigInt(value.replace('+', ''))) : undefined
}

function jsonOf(values: readonly string[], type: string): ReadonlySet<string> | undefined {
  const texts = values.map(readers[type] ?? (value => JSON.stringify(value)))
  return texts.includes(undefined as never) ? undefined : new Set(texts as string[])
}

/** By values as JSON text. A missing one equals nothing, and differs from nothing either. */
export function holds(
  { operator, isNegated }: Condition,
  wanted: ReadonlySet<string>,
  value: string | undefined,
): boolean {
  if (value === undefined || value === 'null') return false
  return (wanted.has(value) !== (operator === 'neq')) !== isNegated
}
