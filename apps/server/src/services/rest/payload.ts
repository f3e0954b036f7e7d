// The rows of a request body as one JSON text for Postgres, with the keys of the rows. No row becomes an object here.
import { Refusal } from '#src/kernel/errors.ts'
import type { Sliced } from '#src/kernel/slices.ts'
import { badBody } from './bad-body.ts'
import { csvRows } from './csv.ts'
import { formRow } from './form.ts'
import { scanJson } from './json-scan.ts'
import type { Range } from './json-text.ts'

export interface Payload {
  /** An object, or an array of objects. */
  readonly json: Buffer
  readonly isArray: boolean
  /** Every value is a string, also those of JSON columns. */
  readonly isText: boolean
  /** Number of rows. */
  readonly count: number
  /** The keys of the first row. */
  readonly keys: readonly string[]
  /** Whether every row has the same keys. */
  readonly isUniform: boolean
  /** Whether some row lacks the key. */
  lacks(key: string): boolean
  /** The first row's value for a key. Undefined for arrays, objects and very long strings. */
  firstText(key: string): string | undefined
}

/** A body is held in memory and sent to Postgres as one parameter. */
export const maxBodyBytes = 10 * 1024 * 1024

/** Formats of rows. */
export type RowsFormat = 'json' | 'csv' | 'form'

/** Refuses a media type that cannot hold rows before the body is read. */
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

/** Without a Content-Type header, the body is JSON. */
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
    // A scalar has no rows.
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

/** The body without a byte order mark, which Postgres does not accept. */
export function jsonIn(body: Buffer): Buffer {
  if (body.length === 0) throw badBody('Empty or invalid json')
  const hasMark = body.subarray(0, byteOrderMark.length).equals(byteOrderMark)
  return hasMark ? body.subarray(byteOrderMark.length) : body
}

/** Longer than any value of a query string with every character escaped. */
const longestText = 256 * 1024

/** A string decoded, or a number as it is written, since JavaScript would round it. */
function textIn(json: Buffer, range: Range | undefined): string | undefined {
  if (!range || range.to - range.from > longestText) return
  const text = json.toString('utf8', range.from, range.to).trim()
  if (text.startsWith('"')) return JSON.parse(text) as string
  return text.startsWith('{') || text.startsWith('[') ? undefined : text
}
