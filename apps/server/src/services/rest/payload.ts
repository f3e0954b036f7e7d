// The rows in a request's body as one JSON text for Postgres, with what is known of their keys. No row becomes an
// object here.
import { Refusal } from '#src/kernel/errors.ts'
import type { Sliced } from '#src/kernel/slices.ts'
import { badBody } from './bad-body.ts'
import { csvRows } from './csv.ts'
import { formRow } from './form.ts'
import { scanJson } from './json-scan.ts'
import type { Range } from './json-text.ts'

export interface Payload {
  /** JSON: an object, or an array of objects. */
  readonly json: Buffer
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
  /** What the first row has for a key, as it is written; undefined for lists, objects and very long texts. */
  firstText(key: string): string | undefined
}

/** More is better sent in several requests: a body is read and bound as a whole. */
export const maxBodyBytes = 10 * 1024 * 1024

/** How rows are written. */
export type RowsFormat = 'json' | 'csv' | 'form'

/** Refuses a body that cannot hold rows, before it is read. */
export function rowsFormatOf(contentType: string | undefined): RowsFormat {
  const type = mediaTypeOf(contentType)
  switch (type) {
    case 'application/json':
    case 'application/vnd.pgrst.object+json':
    case 'application/vnd.pgrst.array+json':
      return 'json'
    case 'text/csv':
      return 'csv'
    case 'application/x-www-form-urlencoded':
      return 'form'
    default:
      throw new Refusal('unsupported_media_type', `A body of type "${type}" cannot be read as rows`, {
        hint: 'Send application/json, text/csv or application/x-www-form-urlencoded.',
      })
  }
}

/** Clients that say nothing mean JSON. */
export const mediaTypeOf = (contentType: string | undefined): string =>
  (contentType ?? '').replace(/;.*/s, '').trim().toLowerCase() || 'application/json'

export function* rowsFrom(body: Buffer, format: RowsFormat): Sliced<Payload> {
  if (format === 'csv') return yield* fromCsv(body)
  if (format === 'form') return yield* fromForm(body)
  return yield* fromJson(body)
}

const noRows = Buffer.from('[]')

function* fromJson(body: Buffer): Sliced<Payload> {
  const json = jsonIn(body)
  const { kind, rows } = yield* scanJson(json)
  return {
    // A value that is no row at all holds no rows.
    json: kind === 'other' ? noRows : json,
    isArray: kind !== 'object',
    isText: false,
    count: rows.count,
    keys: rows.names,
    isUniform: rows.isUniform,
    lacks: key => rows.lacks(key),
    firstText: key => textIn(json, rows.valueOf(key)),
  }
}

function* fromCsv(body: Buffer): Sliced<Payload> {
  const { json, names, count, first } = yield* csvRows(body)
  const places = new Map(names.map((name, index) => [name, index]))
  return {
    json,
    isArray: true,
    isText: true,
    count,
    keys: count > 0 ? names : [],
    isUniform: true,
    lacks: key => count > 0 && !places.has(key),
    firstText: key => textIn(json, first[places.get(key) ?? -1]),
  }
}

function* fromForm(body: Buffer): Sliced<Payload> {
  const { json, values } = yield* formRow(body)
  return {
    json,
    isArray: false,
    isText: true,
    count: 1,
    keys: [...values.keys()],
    isUniform: true,
    lacks: key => !values.has(key),
    firstText: key => textIn(json, values.get(key)),
  }
}

const byteOrderMark = Buffer.from('\uFEFF')

/** The body without a byte order mark, which Postgres would refuse. */
export function jsonIn(body: Buffer): Buffer {
  if (body.length === 0) throw badBody('Empty or invalid json')
  const hasMark = body.subarray(0, byteOrderMark.length).equals(byteOrderMark)
  return hasMark ? body.subarray(byteOrderMark.length) : body
}

/** Longer than any text of a query string, with each of its characters escaped. */
const longestText = 256 * 1024

/** A number as it is written: read by JavaScript it may be another one. */
function textIn(json: Buffer, range: Range | undefined): string | undefined {
  if (!range || range.to - range.from > longestText) return
  const text = json.toString('utf8', range.from, range.to).trim()
  if (text.startsWith('"')) return JSON.parse(text) as string
  return text.startsWith('{') || text.startsWith('[') ? undefined : text
}
