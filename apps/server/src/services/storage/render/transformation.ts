// What shall be done to an image: as query, in the body that signs a URL, in that URL's token, in the answer's header.
import { Refusal } from '#src/kernel/errors.ts'

export const resizes = ['cover', 'contain', 'fill'] as const
export const formats = ['origin', 'webp', 'avif'] as const
export type Resize = (typeof resizes)[number]
export type Format = (typeof formats)[number]

export interface Transformation {
  width?: number
  height?: number
  resize: Resize
  quality: number
  /** Left open, what the client accepts decides. */
  format?: Format
}

/** The fields of a query or of a body; others are not looked at. */
export type Wish = Partial<
  Record<'width' | 'height' | 'resize' | 'quality' | 'format', string | number | null | undefined>
>

export const maxSide = 2000
const defaultQuality = 80

export const invalid = (message: string) => new Refusal('InvalidRequest', message)

export function transformationFrom(wish: Wish): Transformation {
  const width = side('width', wish.width)
  const height = side('height', wish.height)
  const format = oneOf('format', formats, wish.format)
  return {
    ...(width && { width }),
    ...(height && { height }),
    resize: oneOf('resize', resizes, wish.resize) ?? 'cover',
    quality: readQuality(wish.quality),
    ...(format && { format }),
  }
}

/** As it stands in the token of a signed URL; the format is a claim of its own there. */
export const toToken = (wanted: Transformation): string => list(wanted, 'resize', wanted.resize)

export const fromToken = (text: string, format?: string): Transformation =>
  transformationFrom({
    ...Object.fromEntries(text.split(',').map(part => part.split(':', 2))),
    format,
  })

const imgproxyNames = { cover: 'fill', contain: 'fit', fill: 'force' } as const

/** The value of X-Transformations, in the words of imgproxy that clients of Supabase know. */
export function transformationsHeader(wanted: Transformation): string {
  const { width, height, ...rest } = wanted
  const ordered = { ...(height && { height }), ...(width && { width }), ...rest }
  const format = wanted.format && wanted.format !== 'origin' ? [`format:${wanted.format}`] : []
  return [list(ordered, 'resizing_type', imgproxyNames[wanted.resize]), ...format].filter(Boolean).join(',')
}

/** Tells apart whatever yields other bytes. */
export const renderKey = (wanted: Transformation, format: Format): string => `${format};${toToken(wanted)}`

/**
 * Browsers name both WebP and AVIF. WebP comes first: AVIF saves some more bytes, for many times the work.
 * A wildcard does not count: whoever sends it may well know neither.
 */
export function outputFormat(wanted: Transformation, accept: string | undefined): Format {
  if (wanted.format) return wanted.format
  const accepted = (accept ?? '').toLowerCase().split(',').map(acceptedType)
  return (['webp', 'avif'] as const).find(format => accepted.includes(`image/${format}`)) ?? 'origin'
}

function acceptedType(range: string): string | undefined {
  const [type, ...parameters] = range.split(';').map(part => part.trim())
  return parameters.some(parameter => /^q=0(\.0*)?$/.test(parameter)) ? undefined : type
}

function list(wanted: Transformation, nameOfResize: string, resize: string): string {
  const sizes = Object.entries(wanted).filter(([name]) => name === 'width' || name === 'height')
  const parts = sizes.map(([name, value]) => `${name}:${value}`)
  if (sizes.length > 0) parts.push(`${nameOfResize}:${resize}`)
  if (wanted.quality !== defaultQuality) parts.push(`quality:${wanted.quality}`)
  return parts.join(',')
}

type Value = Wish[keyof Wish]

/** 0 is as good as none. */
function side(name: string, value: Value): number | undefined {
  const number = wholeNumber(value)
  if (number === undefined) return undefined
  if (Number.isNaN(number)) throw invalid(`${name} must be a whole number of pixels, at most ${maxSide}`)
  return Math.min(number, maxSide) || undefined
}

function readQuality(value: Value): number {
  const quality = wholeNumber(value) ?? defaultQuality
  if (quality >= 20 && quality <= 100) return quality
  throw invalid('quality must be a whole number from 20 to 100')
}

/** NaN when it is none. */
function wholeNumber(value: Value): number | undefined {
  if (value === undefined || value === null) return undefined
  return /^\d+$/.test(String(value)) ? Number(value) : Number.NaN
}

function oneOf<const T extends string>(name: string, allowed: readonly T[], value: Value): T | undefined {
  if (value === undefined || value === null) return undefined
  const found = allowed.find(each => each === value)
  if (found) return found
  throw invalid(`${name} must be one of ${allowed.join(', ')}`)
}
