// The grammar of filters: `[not.]operator[(modifier)].value`, and groups of them. Values are not part of what is
// read: each goes to a list of values and is known by its place there.
import { Refusal } from '#src/kernel/errors.ts'
import { type Field, readField } from './field.ts'
import { Reader, unreadable } from './reader.ts'

export type Operator = (typeof operators)[number]
const operators = [
  ...([
    'eq',
    'neq',
    'gt',
    'gte',
    'lt',
    'lte',
    'like',
    'ilike',
    'match',
    'imatch',
    'in',
    'is',
    'isdistinct',
  ] as const),
  ...(['fts', 'plfts', 'phfts', 'wfts', 'cs', 'cd', 'ov', 'sl', 'sr', 'nxr', 'nxl', 'adj'] as const),
  ...(['l2', 'cosine', 'ip'] as const),
] as const
const known: ReadonlySet<string> = new Set(operators)
const quantifiable = new Set(['eq', 'gt', 'gte', 'lt', 'lte', 'like', 'ilike', 'match', 'imatch'])
const textSearch = new Set(['fts', 'plfts', 'phfts', 'wfts'])
const truths = new Set(['null', 'true', 'false', 'unknown'])

export interface Test {
  readonly kind: 'test'
  readonly field: Field
  readonly isNegated: boolean
  readonly operator: Operator
  readonly quantifier?: 'any' | 'all'
  /** Of text search: the configuration's place among the values. */
  readonly config?: number
  /** Of `is`: null, true, false or unknown. */
  readonly truth?: string
  /** The value's place among the values. */
  readonly slot: number
}
export interface Group {
  readonly kind: 'group'
  readonly joiner: 'and' | 'or'
  readonly isNegated: boolean
  readonly conditions: readonly Condition[]
}
export type Condition = Test | Group

/** Values found while reading, and the shape of what was read: the same text with the values left out. */
export interface Found {
  readonly values: string[]
  shape: string
  /** Tests and groups so far. */
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

const operatorHead = /^((?:not\.)*)([a-z0-9]+)(?:\(([^()]*)\))?\./

/** A whole parameter value such as `not.eq.5`; undefined when it does not begin with an operator. */
export function readOperation(text: string, found: Found): Operation | undefined {
  const head = operatorHead.exec(text)
  if (!head || !known.has(head[2]!)) return
  const operation = operationOf(head, found, text)
  const value = text.slice(head[0].length)
  if (operation.operator === 'is') return withTruth(operation, value, found, text)
  found.values.push(value)
  return operation
}

/** `slot` is where the value will be put: by the caller, after this. */
function operationOf(head: RegExpExecArray, found: Found, text: string): Operation {
  const [whole, not, name, modifier] = head
  countCondition(found)
  const operator = name as Operator
  const isNegated = (not!.length / 4) % 2 === 1
  found.shape += isNegated ? `\0not.${operator}` : `\0${operator}`
  if (modifier === undefined) return { isNegated, operator, slot: found.values.length }
  if (textSearch.has(operator)) {
    found.shape += '()'
    const config = found.values.push(modifier) - 1
    return { isNegated, operator, config, slot: config + 1 }
  }
  if (!quantifiable.has(operator) || (modifier !== 'any' && modifier !== 'all'))
    throw unreadable(
      'filter',
      text,
      `"${whole}" is no operator; (any) and (all) go with comparisons and patterns`,
    )
  found.shape += `(${modifier})`
  return { isNegated, operator, quantifier: modifier, slot: found.values.length }
}

function withTruth(operation: Operation, value: string, found: Found, text: string): Operation {
  const truth = value.toLowerCase()
  if (!truths.has(truth)) throw unreadable('filter', text, '"is" takes null, true, false or unknown')
  found.shape += `.${truth}`
  return { ...operation, truth }
}

const maxGroupDepth = 50

/** `(a.eq.1,not.and(b.gt.2,c.is.null))`, the value of `or` and `and`. */
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

const groupHead = /((?:not\.)*)(and|or)(?=\()/y
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
  const head = testHead.exec(reader.text)
  if (!head || !known.has(head[2]!)) reader.fail('expecting a dot, an operator and a dot, such as .eq.')
  reader.at += head[0].length
  const read = operationOf(head, found, reader.text)
  const operation = isNegated ? { ...read, isNegated: !read.isNegated } : read
  const value = readValue(reader, operation.operator)
  if (operation.operator === 'is')
    return { kind: 'test', field, ...withTruth(operation, value, found, reader.text) }
  found.values.push(value)
  return { kind: 'test', field, ...operation }
}

const bareValue = /[^,)"][^,)]*|/y

/** Inside a group a value ends at a comma or parenthesis, unless it is quoted, an array, a list or a vector. */
function readValue(reader: Reader, operator: Operator): string {
  if (operator === 'in') return enclosed(reader, '(', ')')
  if (reader.startsWith('{')) return enclosed(reader, '{', '}')
  if (reader.startsWith('[') && (operator === 'l2' || operator === 'cosine' || operator === 'ip'))
    return enclosed(reader, '[', ']')
  if (reader.startsWith('"')) return reader.quoted()
  return reader.match(bareValue) ?? ''
}

/** With both delimiters, which may nest; quotes inside hide them. */
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

/** The elements of `(a,b,"c,d")`. A quote inside a quoted element need not be escaped unless an end follows it. */
export function listElements(text: string): string[] | undefined {
  if (!text.startsWith('(') || !text.endsWith(')') || text.length < 2) return
  if (text === '()') return []
  const elements: string[] = []
  const end = text.length - 1
  for (let at = 1; at <= end; at++) {
    let element = ''
    if (text[at] === '"') {
      for (at++; at < end && !(text[at] === '"' && (at + 1 === end || text[at + 1] === ',')); at++)
        element += text[at] === '\\' && at + 1 < end ? text[++at] : text[at]
      if (at >= end) return
      at++
    } else {
      const comma = text.indexOf(',', at)
      const stop = comma < 0 ? end : comma
      element = text.slice(at, stop)
      at = stop
    }
    elements.push(element)
  }
  return elements
}

/** As a Postgres array of texts; every element is quoted, so none can be taken for NULL. */
export const arrayLiteral = (elements: readonly string[]): string =>
  elements.length === 0 ? '{}' : `{"${elements.map(escaped).join('","')}"}`

const escaped = (element: string): string =>
  element.includes('"') || element.includes('\\') ? element.replace(/["\\]/g, '\\$&') : element
