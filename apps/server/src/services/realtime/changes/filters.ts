// Filters of subscriptions, `column=op.value`: one or more conditions, combined with AND. Equality on simple types is
// decided here by comparing JSON text. Postgres evaluates all other conditions, once per batch.
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

const maxCharacters = 10_000
const maxValues = 100
const maxConditions = 20
const isOperands = new Set(['null', 'true', 'false', 'unknown', 'not_null'])

/** The message is sent to the client. */
export class InvalidFilter extends Error {}

export function parseFilter(text: string): Condition[] {
  if (text.length > maxCharacters) throw new InvalidFilter(`A filter has at most ${maxCharacters} characters`)
  const conditions = rejoinUnquotedCommas(splitList(text)).map(parseCondition)
  if (conditions.length > maxConditions)
    throw new InvalidFilter(`A filter has at most ${maxConditions} conditions`)
  return conditions
}

/** A comma without a condition after it belongs to the value before it, which the client should have quoted. */
function rejoinUnquotedCommas(parts: readonly string[]): string[] {
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
    throw new InvalidFilter(`The filter ${JSON.stringify(text)} must have the form column=operator.value`)
  if (!isOperator(operator!))
    throw new InvalidFilter(
      `Operator ${JSON.stringify(operator)} is unknown; there are ${Object.keys(operators).join(', ')}`,
    )
  const values = operator === 'in' ? splitInList(value) : [unquote(value)]
  if (values.length > maxValues) throw new InvalidFilter(`A list in a filter has at most ${maxValues} values`)
  if (operator === 'is' && !isOperands.has(values[0]!.toLowerCase()))
    throw new InvalidFilter('The operator "is" takes null, not_null, true, false or unknown')
  if (text.includes('\0')) throw new InvalidFilter('A filter cannot hold a NUL character')
  return { column, operator, isNegated: negation !== undefined, values }
}

const isOperator = (name: string): name is Operator => Object.hasOwn(operators, name)

function splitInList(text: string): string[] {
  const inner = /^\((.*)\)$/s.exec(text.trim())?.[1]
  if (inner === undefined) throw new InvalidFilter('A list is written as in.(a,b,c)')
  return inner === '' ? [] : splitList(inner).map(unquote)
}

/** Splits at commas outside of quotes and parentheses. */
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

/** The condition in SQL. The value is an untyped literal, so Postgres gives it the type of the column. */
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

/** Whether comparing JSON text decides the condition. */
export const isDecidedLocally = (condition: Condition, table: TableFacts): boolean =>
  expectedValues(condition, table) !== undefined

const expectedByCondition = new WeakMap<
  Condition,
  { type: string; expected: ReadonlySet<string> | undefined }
>()

/** The values of an equality in the JSON form of Postgres. Undefined if only Postgres can decide the condition. */
export function expectedValues(
  condition: Condition,
  { columns }: TableFacts,
): ReadonlySet<string> | undefined {
  const column = columns.find(({ name }) => name === condition.column)
  if (!column?.isPlain) return
  const cached = expectedByCondition.get(condition)
  if (cached?.type === column.type) return cached.expected
  const expected = isEquality(condition) ? jsonOf(condition.values, column.type) : undefined
  expectedByCondition.set(condition, { type: column.type, expected })
  return expected
}

const isEquality = ({ operator }: Condition) => operator === 'eq' || operator === 'neq' || operator === 'in'

const toJson: Readonly<Record<string, (value: string) => string | undefined>> = {
  smallint: integerText,
  integer: integerText,
  bigint: integerText,
  boolean: value => (value === 'true' || value === 'false' ? value : undefined),
  uuid: value =>
    /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i.test(value)
      ? JSON.stringify(value.toLowerCase())
      : undefined,
}

/** Postgres evaluates values in any other notation. */
function integerText(value: string): string | undefined {
  return /^[+-]?\d{1,18}$/.test(value) ? String(BigInt(value.replace('+', ''))) : undefined
}

function jsonOf(values: readonly string[], type: string): ReadonlySet<string> | undefined {
  const texts = values.map(toJson[type] ?? (value => JSON.stringify(value)))
  return texts.includes(undefined as never) ? undefined : new Set(texts as string[])
}

/** Compares JSON text. As in SQL, a null value neither equals nor differs from anything. */
export function holds(
  { operator, isNegated }: Condition,
  expected: ReadonlySet<string>,
  value: string | undefined,
): boolean {
  if (value === undefined || value === 'null') return false
  return (expected.has(value) !== (operator === 'neq')) !== isNegated
}
