// How a file is answered: which bytes of it, and with which headers.
import type { IncomingHttpHeaders } from 'node:http'
import { storageRefusal } from './refusals.ts'
import type { ObjectRow } from './store.ts'

export interface ByteRange {
  from: number
  /** Not included. */
  to: number
}

/** Of a request for a file, what decides how it is shown. */
export interface Showing {
  headers: IncomingHttpHeaders
  /** `?download`, or `?download=<name>`. */
  download: string | undefined
  /** Of a signed URL: when it ends. */
  expires?: Date | undefined
}

/** What a browser may show by itself; it cannot run as part of a page. */
const inlineTypes = new Set(['application/pdf', 'application/json', 'text/plain'])
const inlineFamilies = /^(?:image|audio|video|font)\/(?!.*(?:svg|xml))/

export function fileHeaders(object: ObjectRow, showing: Showing): Record<string, string> {
  const { metadata } = object
  const type = safe(metadata?.mimetype) ?? 'application/octet-stream'
  const disposition = dispositionOf(showing.download, isInline(type))
  return {
    'content-type': type,
    etag: etagOf(object),
    'last-modified': modifiedAt(object).toUTCString(),
    'accept-ranges': 'bytes',
    'x-robots-tag': safe(metadata?.xRobotsTag) ?? 'none',
    // Whatever the type says, it is not guessed otherwise.
    'x-content-type-options': 'nosniff',
    ...(showing.expires
      ? { expires: showing.expires.toUTCString() }
      : { 'cache-control': safe(metadata?.cacheControl) ?? 'no-cache' }),
    ...(disposition !== undefined && { 'content-disposition': disposition }),
  }
}

/** Of several types in one header browsers take the last; lists of codecs have commas, too, and hold no types. */
const isInline = (type: string): boolean =>
  type
    .toLowerCase()
    .split(',')
    .filter((part, place) => place === 0 || part.includes('/'))
    .map(part => part.split(';', 1)[0]!.trim())
    .every(bare => inlineTypes.has(bare) || inlineFamilies.test(bare))

function dispositionOf(download: string | undefined, isInline: boolean): string | undefined {
  if (download === undefined) return isInline ? undefined : 'attachment'
  if (download === '') return 'attachment;'
  const name = encodeURIComponent(download.slice(0, 255).toWellFormed()).replace(
    /['()*]/g,
    each => `%${each.charCodeAt(0).toString(16).toUpperCase()}`,
  )
  return `attachment; filename=${name}; filename*=UTF-8''${name}`
}

/** An owner can write anything into the metadata. */
const safe = (value: unknown): string | undefined =>
  typeof value === 'string' && value !== '' && value.length <= 255 && /^[\x20-\x7e]+$/.test(value)
    ? value
    : undefined

export const etagOf = ({ version }: ObjectRow) => `"${/^[\w-]+$/.test(version ?? '') ? version : 'none'}"`

export function modifiedAt({ metadata, updated_at }: ObjectRow): Date {
  const time = new Date(metadata?.lastModified ?? updated_at)
  return Number.isNaN(time.getTime()) ? new Date(updated_at) : time
}

/** Whether the client has it already. */
export function isUnchanged(object: ObjectRow, headers: IncomingHttpHeaders): boolean {
  const known = headers['if-none-match']
  if (known !== undefined) return known.trim() === '*' || tags(known).includes(etagOf(object))
  const since = Date.parse(headers['if-modified-since'] ?? '')
  return !Number.isNaN(since) && seconds(modifiedAt(object).getTime()) <= seconds(since)
}

const tags = (list: string) => list.split(',').map(tag => tag.trim().replace(/^W\//, ''))
const seconds = (ms: number) => Math.floor(ms / 1000)

/** Undefined when the whole file is to be sent. */
export function rangeOf(
  object: ObjectRow,
  size: number,
  headers: IncomingHttpHeaders,
): ByteRange | undefined {
  const { range } = headers
  if (range === undefined || !/^bytes=/i.test(range) || !stillApplies(object, headers)) return
  const [, first = '', last = ''] = /^bytes=(\d{0,20})-(\d{0,20})$/i.exec(range) ?? []
  if (first === '' && last === '') throw unsatisfiable(size)
  const from = first === '' ? Math.max(0, size - Number(last)) : Number(first)
  const to = first === '' || last === '' ? size : Math.min(size, Number(last) + 1)
  if (from >= to || from >= size) throw unsatisfiable(size)
  return { from, to }
}

/** A part is of use only to whoever has the rest of this very version. */
function stillApplies(object: ObjectRow, headers: IncomingHttpHeaders): boolean {
  const condition = headers['if-range']
  if (typeof condition !== 'string') return true
  return condition.startsWith('"')
    ? condition === etagOf(object)
    : seconds(Date.parse(condition)) === seconds(modifiedAt(object).getTime())
}

const unsatisfiable = (size: number) =>
  storageRefusal('InvalidRange', `The object has ${size} bytes; ask for bytes=<first>-<last> among them`, {
    headers: { 'content-range': `bytes */${size}` },
  })
