// Reads a query string on every request. It separates the values from the shape: requests with the same shape share
// one plan and one prepared statement. Texts that belong to the shape, such as `select`, are parsed by `rowsQuery`,
// when a plan is made.
import { Refusal } from '#src/kernel/errors.ts'
import type { Condition, Field } from '#src/query/items.ts'
import { readField } from './field.ts'
import { type Found, nothingFound, readGroup, readOperation } from './filter.ts'
import { extractVectors } from './order.ts'
import { Reader, unreadable } from './reader.ts'

export interface Pair {
  readonly key: string
  readonly value: string
}

/** The embedded relation that a parameter belongs to: names from the outermost inwards. */
type Path = readonly string[]
export type Parameter =
  | { readonly kind: 'select' | 'columns' | 'on_conflict'; readonly path: Path; readonly text: string }
  | { readonly kind: 'order'; readonly path: Path; readonly text: string; readonly slot: number }
  | { readonly kind: 'limit'; readonly path: Path; readonly count: number }
  | { readonly kind: 'offset'; readonly path: Path; readonly slot: number }
  | {
      readonly kind: 'condition'
      readonly path: Path
      readonly condition: Condition
      /** A filter with a value on a column of the request's own relation. */
      readonly isFlat: boolean
    }

export interface Scanned {
  readonly parameters: readonly Parameter[]
  readonly values: readonly string[]
  readonly shape: string
}

export function splitQuery(search: string): Pair[] {
  if (search === '') return []
  const pairs: Pair[] = []
  for (const piece of search.split('&')) {
    if (piece === '') continue
    const equals = piece.indexOf('=')
    const key = decoded(equals < 0 ? piece : piece.slice(0, equals))
    pairs.push({ key, value: equals < 0 ? '' : decoded(piece.slice(equals + 1)) })
  }
  return pairs
}

function decoded(text: string): string {
  if (!text.includes('%') && !text.includes('+')) return text
  let out: string
  try {
    out = decodeURIComponent(text.replaceAll('+', ' '))
  } catch {
    throw unreadable('query string', text, 'a % must begin the encoding of a UTF-8 character')
  }
  if (out.includes('\0')) throw unreadable('query string', text, 'Postgres cannot store a NUL character')
  return out
}

export function scan(pairs: readonly Pair[]): Scanned {
  const found = nothingFound()
  const parameters: Parameter[] = []
  const once = new Set<string>()
  for (const { key, value } of pairs) {
    const known = keyOf(key)
    found.shape += `\0\0${key}`
    if (known.kind !== 'filter' && known.kind !== 'logic') {
      if (once.has(key)) throw new Refusal('PGRST100', `The parameter "${key}" is given more than once`)
      once.add(key)
    }
    parameters.push(parameterOf(known, key, value, found))
  }
  return { parameters, values: found.values, shape: found.shape }
}

function parameterOf(known: Key, key: string, value: string, found: Found): Parameter {
  const { path } = known
  switch (known.kind) {
    case 'filter': {
      const slot = found.values.length
      const operation = readOperation(value, found)
      if (!operation)
        throw unreadable(
          'filter',
          `${key}=${value}`,
          'expecting an operator and a dot before the value, such as eq.5 or not.is.null',
        )
      const condition: Condition = { kind: 'test', field: known.field, ...operation }
      // A filter with an empty value on a write is probably a mistake.
      const isFlat = path.length === 0 && (operation.truth !== undefined || found.values[slot] !== '')
      return { kind: 'condition', path, condition, isFlat }
    }
    case 'logic': {
      const condition = readGroup(value, known.joiner, known.isNegated, found)
      return { kind: 'condition', path, condition, isFlat: false }
    }
    case 'order': {
      const slot = found.values.length
      const text = extractVectors(value, found)
      found.shape += `\0${text}`
      return { kind: 'order', path, text, slot }
    }
    case 'limit': {
      const count = wholeNumber(key, value)
      found.shape += `\0${count}`
      return { kind: 'limit', path, count }
    }
    case 'offset':
      return { kind: 'offset', path, slot: found.values.push(String(wholeNumber(key, value))) - 1 }
    default:
      found.shape += `\0${value}`
      return { kind: known.kind, path, text: value }
  }
}

const firstUnsafe = 2 ** 53

function wholeNumber(key: string, value: string): number {
  const number = /^\d{1,16}$/.test(value) ? Number(value) : Number.NaN
  if (!(number < firstUnsafe))
    throw new Refusal('PGRST103', `"${key}" must be a non-negative integer, not "${value.slice(0, 50)}"`)
  return number
}

type Key =
  | { kind: 'filter'; path: Path; field: Field }
  | { kind: 'logic'; path: Path; joiner: 'and' | 'or'; isNegated: boolean }
  | { kind: 'select' | 'columns' | 'on_conflict' | 'order' | 'limit' | 'offset'; path: Path }

const reserved = new Set(['select', 'columns', 'on_conflict', 'order', 'limit', 'offset'])
const maxCached = 2000
const longestCached = 200
const keys = new Map<string, Key>()

/** Cached, since the same parameter names come with every request. */
function keyOf(text: string): Key {
  const known = keys.get(text)
  if (known) return known
  const key = readKey(text)
  if (text.length > longestCached) return key
  if (keys.size >= maxCached) keys.clear()
  keys.set(text, key)
  return key
}

/** Higher than the nesting limit of relations, because `select` reports an embed that is too deep. */
const maxPath = 20

function readKey(text: string): Key {
  if (reserved.has(text)) return { kind: text as 'select', path: [] }
  const reader = new Reader(text, 'parameter name')
  const path: string[] = []
  let isNegated = false
  for (;;) {
    const isQuoted = reader.startsWith('"')
    const field = readField(reader)
    if (reader.isAtEnd) {
      const name = field.column
      if (isQuoted || field.path.length > 0) return { kind: 'filter', path, field }
      if (name === 'and' || name === 'or') return { kind: 'logic', path, joiner: name, isNegated }
      if (reserved.has(name) && path.length > 0) return { kind: name as 'order', path }
      return { kind: 'filter', path, field }
    }
    if (field.path.length > 0 || !reader.take('.')) reader.fail('expecting "." or the end')
    if (!isQuoted && field.column === 'not' && /^(and|or)$/.test(text.slice(reader.at))) isNegated = true
    else if (path.push(field.column) > maxPath) reader.fail(`a path has at most ${maxPath} relations`)
  }
}
