// The rows in a request's body, whatever they were written in, as one JSON text for Postgres and what is known
// of their keys.
import { Refusal } from '#src/kernel/errors.ts'
import { parseJsonBody } from '#src/kernel/http/json-body.ts'
import { splitQuery } from '#src/query/scan.ts'
import { badBody } from './bad-body.ts'
import { parseCsv } from './csv.ts'

export interface Payload {
  /** JSON: an object, or an array of objects. */
  readonly json: Buffer | string
  readonly isArray: boolean
  /** Every value is a text, as in CSV: JSON columns are to be read from it. */
  readonly isText: boolean
  /** Rows in it. */
  readonly count: number
  /** The keys of the first row. */
  readonly keys: readonly string[]
  /** Whether every row has the same keys. */
  readonly isUniform: boolean
  /** Whether some row lacks the key. */
  lacks(key: string): boolean
}

/** More is better sent in several requests: a body is read, parsed and bound as a whole. */
export const maxBodyBytes = 10 * 1024 * 1024

type Row = Readonly<Record<string, unknown>>

export function rowsFrom(body: Buffer, contentType: string | undefined): Payload {
  const type = mediaTypeOf(contentType)
  switch (type) {
    case 'application/json':
    case 'application/vnd.pgrst.object+json':
    case 'application/vnd.pgrst.array+json':
      return fromJson(body)
    case 'text/csv': {
      const rows = parseCsv(body)
      return payloadOf(JSON.stringify(rows), rows, true, true)
    }
    case 'application/x-www-form-urlencoded': {
      const row = formRow(body)
      return payloadOf(JSON.stringify(row), [row], false, true)
    }
    default:
      throw new Refusal('unsupported_media_type', `A body of type "${type}" cannot be read as rows`, {
        hint: 'Send application/json, text/csv or application/x-www-form-urlencoded.',
      })
  }
}

export const tooManyKeys = () => badBody(`An object has more than ${maxKeys} keys`)

/** Written like a query string, and read with the same care. */
export const formRow = (body: Buffer): Record<string, string> =>
  Object.fromEntries(splitQuery(body.toString('latin1')).map(({ key, value }) => [key, value]))

/** Clients that say nothing mean JSON. */
export const mediaTypeOf = (contentType: string | undefined): string =>
  (contentType ?? '').replace(/;.*/s, '').trim().toLowerCase() || 'application/json'

export function fromJson(body: Buffer): Payload {
  const value = jsonValue(body)
  if (Array.isArray(value)) {
    if (!value.every(isRow)) throw badBody('Every element of the array must be an object')
    return payloadOf(body, value, true)
  }
  // A value that is no row at all holds no rows.
  if (!isRow(value)) return payloadOf('[]', [], true)
  return payloadOf(body, [value], false)
}

export function jsonValue(body: Buffer): unknown {
  let value: unknown
  try {
    value = parseJsonBody(body, { maxValues: 500_000 })
  } catch (error) {
    throw error instanceof Refusal ? badBody(error.message) : error
  }
  if (value === undefined) throw badBody('Empty or invalid json')
  return value
}

export const isRow = (value: unknown): value is Row =>
  typeof value === 'object' && value !== null && !Array.isArray(value)

/** No relation and no function has more: what is longer is refused before anything is made of it. */
export const maxKeys = 1664

function payloadOf(json: Buffer | string, rows: readonly Row[], isArray: boolean, isText = false): Payload {
  const keys = rows[0] ? Object.keys(rows[0]) : []
  if (keys.length > maxKeys) throw tooManyKeys()
  return {
    json,
    isArray,
    isText,
    count: rows.length,
    keys,
    isUniform: rows.every(
      row => Object.keys(row).length === keys.length && keys.every(key => Object.hasOwn(row, key)),
    ),
    lacks: key => rows.some(row => !Object.hasOwn(row, key)),
  }
}
