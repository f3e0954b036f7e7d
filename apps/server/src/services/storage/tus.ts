// Request and response headers of TUS 1.0.0.
import type { IncomingHttpHeaders } from 'node:http'
import { storageRefusal } from './refusals.ts'
import { checkHeader, declaredType, metadataFromText } from './upload-body.ts'

export const tusVersion = '1.0.0'
const extensions = 'creation,creation-with-upload,creation-defer-length,termination,expiration'
export const chunkType = 'application/offset+octet-stream'

export const tusHeaders = { 'tus-resumable': tusVersion, 'cache-control': 'no-store' }

export const servedHeaders = {
  ...tusHeaders,
  'tus-version': tusVersion,
  'tus-extension': extensions,
  'tus-max-size': String(Number.MAX_SAFE_INTEGER),
}

export function checkVersion(headers: IncomingHttpHeaders): void {
  if (headers['tus-resumable'] !== tusVersion)
    throw storageRefusal('UnsupportedTusVersion', `Tus-Resumable must be ${tusVersion}`, {
      headers: { 'tus-version': tusVersion },
    })
}

export interface UploadMetadata {
  bucket: string
  name: string
  /** Undefined if the client sent none. */
  contentType: string | undefined
  cacheControl: string
  userMetadata: object | null
  /** The Upload-Metadata header as received. */
  metadata: string
}

const maxMetadataHeader = 16_384

export function uploadMetadataFrom(headers: IncomingHttpHeaders): UploadMetadata {
  const header = headers['upload-metadata']
  if (typeof header !== 'string' || header.length > maxMetadataHeader)
    throw storageRefusal('InvalidRequest', 'Upload-Metadata must name bucketName and objectName')
  const fields = fieldsOf(header)
  const bucket = fields.get('bucketName')
  const name = fields.get('objectName')
  if (!bucket || !name)
    throw storageRefusal('InvalidRequest', 'Upload-Metadata must name bucketName and objectName')
  const cacheControl = fields.get('cacheControl') ?? ''
  const metadata = fields.get('metadata')
  return {
    bucket,
    name,
    contentType: declaredType(fields.get('contentType')),
    cacheControl: checkHeader(
      'cacheControl',
      /^\d+$/.test(cacheControl) ? `max-age=${cacheControl}` : 'no-cache',
    ),
    userMetadata: metadata ? metadataFromText(metadata) : null,
    metadata: header,
  }
}

/** Whether an Upload-Metadata header that was accepted has a content type. */
export const hasContentType = (header: string): boolean =>
  declaredType(fieldsOf(header).get('contentType')) !== undefined

const fieldsOf = (header: string) => new Map(header.split(',').map(pairFrom))

function pairFrom(pair: string): [string, string] {
  const [key = '', value = ''] = pair.trim().split(' ', 2)
  return [key, Buffer.from(value, 'base64').toString('utf8')]
}

/** Null if the client defers the length. */
export function lengthFrom(headers: IncomingHttpHeaders): number | null {
  const given = headers['upload-length']
  if (given === undefined && headers['upload-defer-length'] === '1') return null
  return wholeNumber('Upload-Length', given)
}

export const offsetFrom = (headers: IncomingHttpHeaders): number =>
  wholeNumber('Upload-Offset', headers['upload-offset'])

export function wholeNumber(name: string, given: string | string[] | undefined): number {
  if (typeof given !== 'string' || !/^\d{1,15}$/.test(given))
    throw storageRefusal('InvalidRequest', `${name} must be a whole number of bytes`)
  return Number(given)
}

export const isChunk = (headers: IncomingHttpHeaders) =>
  (headers['content-type'] ?? '').split(';', 1)[0]!.trim().toLowerCase() === chunkType
