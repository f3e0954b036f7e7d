// The grammar of filters: `[not.]operator[(modifier)].value`, and groups of them. Values are collected in a list, and
// a filter holds the index of its value there.
import { Refusal } from '#src/kernel/errors.ts'
import { arrayLiteral } from '#src/kernel/postgres/array-literal.ts'
import type { Condition, Group, Operator, Test, Truth } from '#src/query/items.ts'
import { readField } from './field.ts'
import { Reader, unreadable } from './reader.ts'

interface OperatorRule {
  readonly operator: Operator
  readonly value: 'text' | 'pattern' | 'list' | 'truth' | 'vector'
  /** What stands in parentheses behind the operator: `any` or `all`, or the configuration of a text search. */
  readonly modifier?: 'quantifier' | 'configuration'
}

const rulesFor = (
  value: OperatorRule['value'],
  names: readonly Operator[],
  modifier?: OperatorRule['modifier'],
): [string, OperatorRule][] =>
  names.map(operator => [operator, { operator, value, ...(modifier && { modifier }) }])

const operators: ReadonlyMap<string, OperatorRule> = new Map([
  ...rulesFor('text', ['eq', 'gt', 'gte', 'lt', 'lte', 'match', 'imatch'], 'quantifier'),
  ...rulesFor('pattern', ['like', 'ilike'], 'quantifier'),
  ...rulesFor('text', ['fts', 'plfts', 'phfts', 'wfts'], 'configuration'),
  ...rulesFor('text', ['neq', 'isdistinct', 'cs', 'cd', 'ov', 'sl', 'sr', 'nxr', 'nxl', 'adj']),
  ...rulesFor('list', ['in']),
  ...rulesFor('truth', ['is']),
  ...rulesFor('vector', ['l2', 'cosine', 'ip']),
])

/** The values found so far, and the shape of the text: the same text without the values. */
export interface Found {
  readonly values: string[]
  shape: string
  /** Number of tests and groups. */
  conditions: number
}

export const nothingFound = (): Found => ({ values: [], shape: '', conditions: 0 })

const maxConditions = 1000

function countCondition(found: Found): void {
  if (++found.conditions <= maxConditions) return
  throw new Refusal('PGRST100', `The request has more than ${maxConditions} filters`, {
    hint: 'To compare with many values, give them as one list: id=in.(1,2,3).',
  })
}

type Operation = Omit<Test, 'kind' | 'field'>

/** Whether a parameter value begins with an operator. */
export function isOperation(text: string): boolean {
  const match = operatorHead.exec(text)
  return match !== null && operators.has(match[2]!)
}

const operatorHead = /^((?:not\.)*)([a-z0-9]+)(?:\(([^()]*)\))?\./

/** Reads a whole parameter value such as `not.eq.5`. Undefined if it does not begin with an operator. */
export function readOperation(text: string, found: Found): Operation | undefined {
  const match = operatorHead.exec(text)
  const rule = match ? operators.get(match[2]!) : undefined
  if (!rule) return
  const operation = operationOf(match!, rule, found, text)
  return withValue(operation, rule, text.slice(match![0].length), found, text)
}

/** Its `slot` is the next index of the values: `withValue` puts the value there. */
function operationOf(match: RegExpExecArray, rule: OperatorRule, found: Found, text: string): Operation {
  const [whole, not, , modifier] = match
  const { operator } = rule
  countCondition(found)
  const isNegated = (not!.length / 4) % 2 === 1
  found.shape += isNegated ? `\0not.${operator}` : `\0${operator}`
  if (modifier === undefined) return { isNegated, operator, slot: found.values.length }
  if (rule.modifier === 'configuration') {
    found.shape += '()'
    const config = found.values.push(modifier) - 1
    return { isNegated, operator, config, slot: config + 1 }
  }
  if (rule.modifier !== 'quantifier' || (modifier !== 'any' && modifier !== 'all'))
    throw unreadable(
      'filter',
      text,
      `"${whole}" is no operator; (any) and (all) go with comparisons and patterns`,
    )
  found.shape += `(${modifier})`
  return { isNegated, operator, quantifier: modifier, slot: found.values.length }
}

/** Adds the value to the list as Postgres reads it. The truth value of `is` belongs to the shape instead. */
function withValue(
  operation: Operation,
  rule: OperatorRule,
  value: string,
  found: Found,
  text: string,
): Operation {
  switch (rule.value) {
    case 'truth': {
      const truth = value.toLowerCase()
      if (!isTruth(truth)) throw unreadable('filter', text, '"is" takes null, true, false or unknown')
      found.shape += `.${truth}`
      return { ...operation, truth }
    }
    case 'pattern':
      found.values.push(value.replaceAll('*', '%'))
      return operation
    case 'list':
      found.values.push(listLiteral(value))
      return operation
    default:
      found.values.push(value)
      return operation
  }
}

const isTruth = (text: string): text is Truth =>
  text === 'null' || text === 'true' || text === 'false' || text === 'unknown'

function listLiteral(text: string): string {
  const elements = listElements(text)
  if (!elements)
    throw unreadable('filter', `in.${text}`, '"in" takes a list in parentheses, such as in.(1,2,3)')
  return arrayLiteral(elements)
}

const maxGroupDepth = 50

/** Reads the value of `or` and `and`, such as `(a.eq.1,not.and(b.gt.2,c.is.null))`. */
export function readGroup(text: string, joiner: 'and' | 'or', isNegated: boolean, found: Found): Group {
  const reader = new Reader(text, 'logic tree')
  reader.skipSpace()
  const group = readConditions(reader, joiner, isNegated, found, 0)
  reader.skipSpace()
  if (!reader.isAtEnd) reader.fail('expecting the end')
  return group
}

function readConditions(
  reader: Reader,
  joiner: 'and' | 'or',
  isNegated: boolean,
  found: Found,
  depth: number,
): Group {
  if (depth > maxGroupDepth) reader.fail(`groups nest at most ${maxGroupDepth} levels deep`)
  reader.skipSpace()
  reader.need('(')
  countCondition(found)
  found.shape += `\0${isNegated ? 'not.' : ''}${joiner}(`
  const conditions: Condition[] = []
  do {
    reader.skipSpace()
    conditions.push(readCondition(reader, found, depth))
    reader.skipSpace()
  } while (reader.take(','))
  reader.need(')')
  found.shape += '\0)'
  return { kind: 'group', joiner, isNegated, conditions }
}

const groupHead = /((?:not\.)*)(and|or)(?=\s*\()/y
const testHead = /\.((?:not\.)*)([a-z0-9]+)(?:\(([^()]*)\))?\./y

function readCondition(reader: Reader, found: Found, depth: number): Condition {
  groupHead.lastIndex = reader.at
  const group = groupHead.exec(reader.text)
  if (group) {
    reader.at += group[0].length
    const isNegated = (group[1]!.length / 4) % 2 === 1
    return readConditions(reader, group[2] as 'and' | 'or', isNegated, found, depth + 1)
  }
  const isNegated = reader.take('not.')
  const start = reader.at
  const field = readField(reader)
  found.shape += `\0${isNegated ? 'not.' : ''}${reader.text.slice(start, reader.at)}`
  testHead.lastIndex = reader.at
  const match = testHead.exec(reader.text)
  const rule = match ? operators.get(match[2]!) : undefined
  if (!match || !rule) reader.fail('expecting a dot, an operator and a dot, such as .eq.')
  reader.at += match[0].length
  const read = operationOf(match, rule, found, reader.text)
  const operation = isNegated ? { ...read, isNegated: !read.isNegated } : read
  const value = readValue(reader, rule)
  return { kind: 'test', field, ...withValue(operation, rule, value, found, reader.text) }
}

const bareValue = /[^,)"][^,)]*|/y

/** In a group, a value ends at a comma or parenthesis, unless it is quoted, an array, a list or a vector. */
function readValue(reader: Reader, { value }: OperatorRule): string {
  if (value === 'list') {
    reader.skipSpace()
    return enclosed(reader, '(', ')')
  }
  if (reader.startsWith('{')) return enclosed(reader, '{', '}')
  if (value === 'vector' && reader.startsWith('[')) return enclosed(reader, '[', ']')
  if (reader.startsWith('"')) return reader.quoted()
  return reader.match(bareValue) ?? ''
}

/** Including both delimiters, which may nest. Delimiters in quotes do not count. */
function enclosed(reader: Reader, open: string, close: string): string {
  const start = reader.at
  reader.need(open)
  let depth = 1
  while (depth > 0) {
    const next = reader.text[reader.at]
    if (next === undefined) reader.fail(`expecting "${close}"`)
    if (next === '"') {
      reader.quoted()
      continue
    }
    if (next === open) depth++
    else if (next === close) depth--
    reader.at++
  }
  return reader.text.slice(start, reader.at)
}

/** The elements of `(a,b,"c,d")`. A bare element keeps its blanks, except those behind the opening parenthesis. */
export function listElements(given: string): string[] | undefined {
  const text = given.trim()
  if (!text.startsWith('(') || !text.endsWith(')') || text.length < 2) return
  const end = text.length - 1
  const start = afterBlanks(text, 1)
  if (start === end) return []
  const elements: string[] = []
  for (let at = start; at <= end; at++) {
    const first = afterBlanks(text, at)
    if (text[first] === '"') {
      const quoted = quotedElement(text, first + 1, end)
      if (!quoted) return
      elements.push(quoted.element)
      at = quoted.end
    } else {
      const comma = text.indexOf(',', at)
      const stop = comma < 0 ? end : comma
      elements.push(text.slice(at, stop))
      at = stop
    }
  }
  return elements
}

function afterBlanks(text: string, from: number): number {
  let at = from
  while (text[at] === ' ') at++
  return at
}

/** A quote inside the element need not be escaped, unless the end of the element follows it. */
function quotedElement(
  text: string,
  from: number,
  end: number,
): { element: string; end: number } | undefined {
  let element = ''
  for (let at = from; at < end; at++) {
    if (text[at] === '"') {
      const next = afterBlanks(text, at + 1)
      if (next === end || text[next] === ',') return { element, end: next }
    }
    element += text[at] === '\\' && at + 1 < end ? text[++at] : text[at]
  }
  return
}
