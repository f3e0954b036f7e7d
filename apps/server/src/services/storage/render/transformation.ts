// Image transformations: parsed from a query or a body, encoded in the token of a signed URL and in a response header.
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
  /** Without a format, the Accept header decides. */
  format?: Format
}

/** The fields of a query or a body. Others are ignored. */
export type TransformationInput = Partial<
  Record<'width' | 'height' | 'resize' | 'quality' | 'format', string | number | null | undefined>
>

export const maxSide = 2000
const defaultQuality = 80

export const invalid = (message: string) => new Refusal('InvalidRequest', message)

export function transformationFrom(input: TransformationInput): Transformation {
  const width = side('width', input.width)
  const height = side('height', input.height)
  const format = oneOf('format', formats, input.format)
  return {
    ...(width && { width }),
    ...(height && { height }),
    resize: oneOf('resize', resizes, input.resize) ?? 'cover',
    quality: readQuality(input.quality),
    ...(format && { format }),
  }
}

/** Encodes the transformation for the token of a signed URL. The format is a separate claim. */
export const toToken = (transformation: Transformation): string =>
  list(transformation, 'resize', transformation.resize)

export const fromToken = (text: string, format?: string): Transformation =>
  transformationFrom({
    ...Object.fromEntries(text.split(',').map(part => part.split(':', 2))),
    format,
  })

const imgproxyNames = { cover: 'fill', contain: 'fit', fill: 'force' } as const

/** The value of X-Transformations, with the imgproxy names that Supabase clients expect. */
export function transformationsHeader(transformation: Transformation): string {
  const { width, height, ...rest } = transformation
  const ordered = { ...(height && { height }), ...(width && { width }), ...rest }
  const format =
    transformation.format && transformation.format !== 'origin' ? [`format:${transformation.format}`] : []
  return [list(ordered, 'resizing_type', imgproxyNames[transformation.resize]), ...format]
    .filter(Boolean)
    .join(',')
}

/** Cache key: equal only for transformations with the same result. */
export const renderKey = (transformation: Transformation, format: Format): string =>
  `${format};${toToken(transformation)}`

/**
 * Browsers accept both WebP and AVIF. WebP is preferred, because AVIF is only slightly smaller and takes much more CPU.
 * A wildcard is ignored, because clients that send it may support neither.
 */
export function outputFormat(transformation: Transformation, accept: string | undefined): Format {
  if (transformation.format) return transformation.format
  const accepted = (accept ?? '').toLowerCase().split(',').map(acceptedType)
  return (['webp', 'avif'] as const).find(format => accepted.includes(`image/${format}`)) ?? 'origin'
}

function acceptedType(range: string): string | undefined {
  const [type, ...parameters] = range.split(';').map(part => part.trim())
  return parameters.some(parameter => /^q=0(\.0*)?$/.test(parameter)) ? undefined : type
}

function list(transformation: Transformation, nameOfResize: string, resize: string): string {
  const sizes = Object.entries(transformation).filter(([name]) => name === 'width' || name === 'height')
  const parts = sizes.map(([name, value]) => `${name}:${value}`)
  if (sizes.length > 0) parts.push(`${nameOfResize}:${resize}`)
  if (transformation.quality !== defaultQuality) parts.push(`quality:${transformation.quality}`)
  return parts.join(',')
}

type Value = TransformationInput[keyof TransformationInput]

/** 0 means no limit on this side. */
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

/** NaN if the value is not a whole number. */
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
