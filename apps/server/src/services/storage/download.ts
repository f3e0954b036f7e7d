// Headers and byte ranges of a download.
import type { IncomingHttpHeaders } from 'node:http'
import { storageRefusal } from './refusals.ts'
import type { ObjectRow } from './store.ts'

export interface ByteRange {
  from: number
  /** Not included. */
  to: number
}

/** What decides the headers and the range of a download. */
export interface DownloadOptions {
  headers: IncomingHttpHeaders
  /** `?download`, or `?download=<name>`. */
  download: string | undefined
  /** The expiry of the signed URL, if it is one. */
  expires?: Date | undefined
}

/** Types that a browser may display inline. They cannot run scripts in the origin of the platform. */
const inlineTypes = new Set(['application/pdf', 'application/json', 'text/plain'])
const inlineFamilies = /^(?:image|audio|video|font)\/(?!.*(?:svg|xml))/

export function fileHeaders(object: ObjectRow, options: DownloadOptions): Record<string, string> {
  const { metadata } = object
  const type = safe(metadata?.mimetype) ?? 'application/octet-stream'
  const disposition = dispositionOf(options.download, isInline(type))
  return {
    'content-type': type,
    etag: etagOf(object),
    'last-modified': modifiedAt(object).toUTCString(),
    'accept-ranges': 'bytes',
    'x-robots-tag': safe(metadata?.xRobotsTag) ?? 'none',
    // Browsers must not guess another type, such as HTML.
    'x-content-type-options': 'nosniff',
    ...(options.expires
      ? { expires: options.expires.toUTCString() }
      : { 'cache-control': safe(metadata?.cacheControl) ?? 'no-cache' }),
    ...(disposition !== undefined && { 'content-disposition': disposition }),
  }
}

/** Browsers use the last of several types in one header. Commas also separate codecs, which contain no slash. */
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

/** The project owner can write any value into the metadata, so it may not be a valid header. */
const safe = (value: unknown): string | undefined =>
  typeof value === 'string' && value !== '' && value.length <= 255 && /^[\x20-\x7e]+$/.test(value)
    ? value
    : undefined

export const etagOf = ({ version }: ObjectRow) => `"${/^[\w-]+$/.test(version ?? '') ? version : 'none'}"`

export function modifiedAt({ metadata, updated_at }: ObjectRow): Date {
  const time = new Date(metadata?.lastModified ?? updated_at)
  return Number.isNaN(time.getTime()) ? new Date(updated_at) : time
}

/** Whether the conditional headers match, so that the answer is 304. */
export function isUnchanged(object: ObjectRow, headers: IncomingHttpHeaders): boolean {
  const known = headers['if-none-match']
  if (known !== undefined) return known.trim() === '*' || tags(known).includes(etagOf(object))
  const since = Date.parse(headers['if-modified-since'] ?? '')
  return !Number.isNaN(since) && seconds(modifiedAt(object).getTime()) <= seconds(since)
}

const tags = (list: string) => list.split(',').map(tag => tag.trim().replace(/^W\//, ''))
const seconds = (ms: number) => Math.floor(ms / 1000)

/** Undefined if the request asks for the whole file. */
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

/** With If-Range, a range is valid only for the version that the client already has. */
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
