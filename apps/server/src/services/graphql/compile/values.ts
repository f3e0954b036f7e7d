// The values of a plan's parameters, made from the variables of a request.
import { arrayLiteral } from '#src/kernel/postgres/array-literal.ts'
import type { Value } from '#src/kernel/postgres/wire/encoder.ts'
import { hasMoreValues } from '#src/kernel/value-count.ts'
import { type Origin, resolve, type Variables } from './given.ts'
import { DocumentProblem } from './problem.ts'

export type ValueSource =
  | { readonly as: 'text' | 'list'; readonly of: Origin }
  /** Rows as a JSON text, under the names of the columns. */
  | {
      readonly as: 'rows' | 'row'
      readonly of: Origin
      readonly columns: readonly (readonly [string, string])[]
    }
  | { readonly as: 'cursor'; readonly of: Origin; readonly index: number; readonly length: number }
  | {
      readonly as: 'node id'
      readonly of: Origin
      readonly index: number
      readonly length: number
      /** If it names another table, the value is null, which equals nothing. */
      readonly table: readonly [schema: string, name: string]
    }

export function valuesFrom(sources: readonly ValueSource[], variables: Variables): Value[] {
  const decode = createDecoder()
  return sources.map(source => valueFrom(source, variables, decode))
}

function valueFrom(source: ValueSource, variables: Variables, decode: Decoder): Value {
  const value = resolve(source.of, variables)
  if (value === null || value === undefined) return null
  switch (source.as) {
    case 'text':
      return textOf(value)
    case 'list':
      return arrayLiteral(listOf(value).map(each => (each === null ? null : textOf(each))))
    case 'row':
      return JSON.stringify(rowOf(value, new Map(source.columns)))
    case 'rows': {
      const columns = new Map(source.columns)
      return JSON.stringify(listOf(value).map(each => rowOf(each, columns)))
    }
    case 'cursor':
      return elementText(cursorIn(value, source.length, decode)[source.index])
    case 'node id': {
      const [schema, table, ...key] = nodeIdIn(value, decode)
      const isOfTable =
        schema === source.table[0] && table === source.table[1] && key.length === source.length
      return isOfTable ? elementText(key[source.index]) : null
    }
  }
}

const textOf = (value: unknown): string => (typeof value === 'string' ? value : String(value))
const listOf = (value: unknown): readonly unknown[] => (Array.isArray(value) ? value : [value])

/** Every value is a string, as Postgres reads it, also those of JSON columns. Lists stay lists. */
function rowOf(value: unknown, columns: ReadonlyMap<string, string>): Record<string, unknown> {
  return Object.fromEntries(
    Object.entries(value as object).flatMap(([name, each]) =>
      each === undefined ? [] : [[columns.get(name)!, fieldOf(each)]],
    ),
  )
}

const fieldOf = (value: unknown) => (Array.isArray(value) ? value.map(textOrNull) : textOrNull(value))

const textOrNull = (value: unknown): string | null => (value === null ? null : textOf(value))

/** A number in a cursor or node id, as it is written. */
class Digits {
  readonly text: string
  constructor(text: string) {
    this.text = text
  }
}

function elementText(value: unknown): string | null {
  if (value === null || value === undefined) return null
  if (value instanceof Digits) return value.text
  return typeof value === 'object' ? JSON.stringify(value) : String(value)
}

const maxTokenLength = 100_000
/** Values in a cursor or node id. An order has fewer terms, and a key fewer columns. */
const maxTokenValues = 200

/** Numbers as they are written, because JavaScript would round them. */
const exactNumbers = (_key: string, value: unknown, context?: { source?: string }): unknown =>
  typeof value === 'number' ? new Digits(context?.source ?? String(value)) : value

type Decoder = (text: unknown) => unknown[] | undefined

function arrayInBase64(text: unknown): unknown[] | undefined {
  if (typeof text !== 'string' || text.length > maxTokenLength) return
  try {
    const json = Buffer.from(text, 'base64').toString()
    // Counted first, because keeping numbers exact takes fifty times as long as parsing.
    const rounded = JSON.parse(json) as unknown
    if (!Array.isArray(rounded) || hasMoreValues(rounded, maxTokenValues)) return
    return JSON.parse(json, exactNumbers) as unknown[]
  } catch {
    return
  }
}

/** Decodes each text once, however often a request uses it. */
function createDecoder(): Decoder {
  const known = new Map<unknown, unknown[] | undefined>()
  return text => {
    if (!known.has(text)) known.set(text, arrayInBase64(text))
    return known.get(text)
  }
}

function cursorIn(text: unknown, length: number, decode: Decoder): unknown[] {
  const values = decode(text)
  if (values?.length !== length)
    throw new DocumentProblem(
      `The cursor ${shown(text)} cannot be decoded: use one of a page with the same orderBy`,
    )
  return values
}

export function nodeIdIn(text: unknown, decode: Decoder = arrayInBase64): unknown[] {
  const values = decode(text)
  if (!values || values.length < 3 || typeof values[0] !== 'string' || typeof values[1] !== 'string')
    throw new DocumentProblem(`The nodeId ${shown(text)} is invalid: use the nodeId of a row`)
  return values
}

const shown = (text: unknown): string => JSON.stringify(String(text).slice(0, 100))
