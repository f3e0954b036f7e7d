// The type of a file by its first bytes. HTML, SVG and other formats that a browser would run are never recognized.

/** Number of bytes that typeOf looks at. */
export const headBytes = 512

export const unknownType = 'application/octet-stream'

/** Undefined if the bytes match no known signature. */
export function typeOf(head: Buffer): string | undefined {
  const bytes = head.subarray(0, headBytes)
  return signatures.find(({ at = 0, magic }) => isAt(bytes, at, magic))?.type ?? containerType(bytes)
}

interface Signature {
  type: string
  at?: number
  /** Latin-1 characters stand for bytes. */
  magic: string
}

const signatures: readonly Signature[] = [
  { type: 'image/png', magic: '\x89PNG\r\n\x1a\n' },
  { type: 'image/jpeg', magic: '\xff\xd8\xff' },
  { type: 'image/gif', magic: 'GIF87a' },
  { type: 'image/gif', magic: 'GIF89a' },
  { type: 'image/tiff', magic: 'II*\0' },
  { type: 'image/tiff', magic: 'MM\0*' },
  { type: 'image/tiff', magic: 'II+\0' },
  { type: 'image/tiff', magic: 'MM\0+' },
  { type: 'application/pdf', magic: '%PDF-' },
  { type: 'application/zip', magic: 'PK\x03\x04' },
  { type: 'application/zip', magic: 'PK\x05\x06' },
  { type: 'application/gzip', magic: '\x1f\x8b\x08' },
  { type: 'audio/mpeg', magic: 'ID3\x02' },
  { type: 'audio/mpeg', magic: 'ID3\x03' },
  { type: 'audio/mpeg', magic: 'ID3\x04' },
  { type: 'audio/flac', magic: 'fLaC' },
  { type: 'font/woff', magic: 'wOFF' },
  { type: 'font/woff2', magic: 'wOF2' },
]

/** Formats that need more than one comparison. */
function containerType(bytes: Buffer): string | undefined {
  if (isAt(bytes, 0, 'RIFF')) return riffTypes[textAt(bytes, 8, 4)]
  if (isAt(bytes, 4, 'ftyp')) return brandedType(bytes)
  if (isAt(bytes, 0, '\x1aE\xdf\xa3'))
    return bytes.includes('webm') ? 'video/webm' : bytes.includes('matroska') ? 'video/x-matroska' : undefined
  if (isAt(bytes, 0, 'OggS'))
    return /OpusHead|vorbis|FLAC/.test(textAt(bytes, 28, 8)) ? 'audio/ogg' : 'application/ogg'
  // "BM" alone would match text.
  if (isAt(bytes, 0, 'BM') && isAt(bytes, 6, '\0\0\0\0') && bmpHeaders.has(bytes.at(14) ?? 0))
    return 'image/bmp'
  return
}

const riffTypes: Readonly<Record<string, string>> = {
  WEBP: 'image/webp',
  WAVE: 'audio/wav',
  'AVI ': 'video/x-msvideo',
}

/** Lengths of the second header of a BMP. */
const bmpHeaders: ReadonlySet<number> = new Set([12, 40, 52, 56, 64, 108, 124])

const brandTypes: readonly [brand: RegExp, type: string][] = [
  [/^avi[fs]/, 'image/avif'],
  [/^he(?:ic|ix|im|is|vc|vx)/, 'image/heic'],
  [/^M4A /, 'audio/mp4'],
  [/^qt {2}/, 'video/quicktime'],
  [/^3g[2p]/, 'video/3gpp'],
  [/^(?:iso[m2-9]|mp4[12]|avc1|M4V |MSNV|dash)/, 'video/mp4'],
  [/^m[is]f1/, 'image/heif'],
]

/** The major brand of a file in the ISO base media format decides. `mif1` is the generic one, so others go before it. */
function brandedType(bytes: Buffer): string | undefined {
  const end = Math.min(bytes.readUInt32BE(0), bytes.length)
  const major = textAt(bytes, 8, 4)
  const others = []
  for (let at = 16; at + 4 <= end; at += 4) others.push(textAt(bytes, at, 4))
  const brands = /^m[is]f1/.test(major) ? [...others, major] : [major]
  for (const [brand, type] of brandTypes) if (brands.some(each => brand.test(each))) return type
  return
}

const textAt = (bytes: Buffer, at: number, length: number) => bytes.toString('latin1', at, at + length)
const isAt = (bytes: Buffer, at: number, magic: string) => textAt(bytes, at, magic.length) === magic
