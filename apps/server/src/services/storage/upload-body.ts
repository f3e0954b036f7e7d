// Reads the body of an upload: raw bytes, or a multipart form with fields followed by one file.
import type { IncomingHttpHeaders } from 'node:http'
import { finished, type Readable, type Writable } from 'node:stream'
import { Busboy, type BusboyHeaders, type BusboyInstance } from '@fastify/busboy'
import { bytesIn } from '#src/kernel/byte-source.ts'
import { Refusal } from '#src/kernel/errors.ts'
import { clientClosed, DirectBodyRequest, directBodyChunks } from '#src/kernel/http/body.ts'
import { parseJsonBody } from '#src/kernel/http/json-body.ts'
import type { RawRequest } from '#src/kernel/http/request.ts'
import { storageRefusal } from './refusals.ts'

export interface Upload {
  /** Undefined if the client sent none. */
  contentType: string | undefined
  cacheControl: string
  userMetadata: object | null
  robots: string | undefined
  source: AsyncIterable<readonly Buffer[]>
  announcedBytes: number | undefined
  /** The declared size of a form includes its boundaries and fields. */
  isForm: boolean
  /** Throws if anything but the end of the form follows the file. */
  ended(): Promise<void>
}

const maxUserMetadata = 1024 * 1024
/** Bounds the metadata, which is parsed synchronously. */
const maxMetadataValues = 10_000
/** Maximum size of any other form field. */
const maxField = 4096
const formLimits = {
  fields: 10,
  files: 1,
  parts: 11,
  fieldSize: maxUserMetadata,
  fieldNameSize: 100,
  headerPairs: 50,
}

export function uploadFrom(request: RawRequest): Promise<Upload> | Upload {
  const { headers } = request
  const type = headers['content-type']
  return type !== undefined && /^multipart\/form-data\b/i.test(type) ? formFrom(request) : rawFrom(request)
}

function rawFrom({ headers, body }: RawRequest): Upload {
  return {
    contentType: declaredType(headers['content-type']),
    cacheControl: checkHeader('cache-control', headers['cache-control'] ?? 'no-cache'),
    userMetadata: metadataFromHeader(headers['x-metadata']),
    robots: robotsFrom(headers),
    source: bodyChunks(body),
    announcedBytes: lengthOf(headers),
    isForm: false,
    ended: async () => {},
  }
}

/** Resolves when the file begins. All fields come before it. */
function formFrom({ headers, body }: RawRequest): Promise<Upload> {
  return new Promise((resolve, reject) => {
    const fields = new Map<string, string>()
    let form: BusboyInstance
    try {
      form = new Busboy({ headers: headers as BusboyHeaders, limits: formLimits })
    } catch (error) {
      return reject(storageRefusal('InvalidRequest', `The form cannot be read: ${(error as Error).message}`))
    }
    const ended = new Promise<void>((done, fail) => {
      form.once('finish', done)
      form.once('error', (error: Error) => fail(malformed(error.message)))
    })
    ended.then(() => reject(storageRefusal('InvalidRequest', 'The form holds no file')), reject)
    for (const limit of ['filesLimit', 'fieldsLimit', 'partsLimit'] as const)
      form.once(limit, () => form.destroy(new Error('it holds more than one file and ten fields')))
    form.on('field', (name, value, _nameCut, isCut) => {
      const most = name === 'metadata' ? maxUserMetadata : maxField
      if (isCut || value.length > most) form.destroy(new Error(`the field ${name.slice(0, 100)} is too long`))
      fields.set(name, value)
    })
    form.on('file', (_name, file, _filename, _encoding, mimeType) => {
      // The reader of the file gets this error. Without a reader it would be an unhandled rejection.
      file.on('error', () => {})
      ended.catch(error => file.destroy(error))
      try {
        const seconds = fields.get('cacheControl')
        const metadata = fields.get('metadata')
        resolve({
          contentType: declaredType(fields.get('contentType') || (mimeType === blobType ? '' : mimeType)),
          cacheControl: checkHeader('cacheControl', seconds === undefined ? 'no-cache' : maxAge(seconds)),
          userMetadata: metadata === undefined ? null : metadataFromText(metadata),
          robots: robotsFrom(headers),
          source: bodyChunks(file),
          announcedBytes: lengthOf(headers),
          isForm: true,
          ended: () => ended,
        })
      } catch (error) {
        file.resume()
        reject(error)
      }
    })
    finished(body, { writable: false }, error => {
      if (error) form.destroy(error)
    })
    feed(form, body)
  })
}

/** Sent by fetch for a Blob without a type, so in a form it says nothing. */
const blobType = 'application/octet-stream'

/** The form parser gets slices of this size, because it keeps parsing its current input after a rejection. */
export const pieceBytes = 8 * 1024

export function feed(form: Writable, body: Readable): void {
  const take = (chunk: Buffer) => {
    let hasRoom = true
    for (let at = 0; at < chunk.length && !form.destroyed; at += pieceBytes)
      hasRoom = form.write(chunk.subarray(at, at + pieceBytes))
    if (!hasRoom) body.pause()
  }
  body.on('data', take)
  body.once('end', () => form.end())
  form.on('drain', () => body.resume())
  form.once('close', () => {
    body.off('data', take)
    body.pause()
  })
}

const maxAge = (cacheControl: string) =>
  /^\d+$/.test(cacheControl) ? `max-age=${cacheControl}` : cacheControl

/** A client that changes its network leaves a half-open connection. Its next request must be able to get the lease. */
const silenceMs = 30_000

/** A connection that closes before the end of the body is an error, never the end of the file. */
export async function* bodyChunks(body: Readable): AsyncGenerator<readonly Buffer[]> {
  const cutLater = () => setTimeout(() => body.destroy(new Error(`silent for ${silenceMs} ms`)), silenceMs)
  let silence = cutLater()
  try {
    for await (const chunks of body instanceof DirectBodyRequest ? directBodyChunks(body) : eachOf(body)) {
      clearTimeout(silence)
      yield chunks
      silence = cutLater()
    }
  } catch (error) {
    if (error instanceof Refusal) throw error
    throw clientClosed(error)
  } finally {
    clearTimeout(silence)
  }
}

/**
 * Reads the first bytes of a body, and returns them with a source that still yields the whole body. Without reading that
 * source to its end, abandon it, so that the rest of the body can be dropped.
 */
export async function peek(source: AsyncIterable<readonly Buffer[]>, bytes: number) {
  const iterator = source[Symbol.asyncIterator]()
  const read: (readonly Buffer[])[] = []
  for (let size = 0; size < bytes; ) {
    const next = await iterator.next()
    if (next.done) break
    read.push(next.value)
    size += bytesIn(next.value)
  }
  return {
    head: firstBytes(read.flat(), bytes),
    source: resumed(read, iterator),
    abandon: async () => void (await iterator.return?.()),
  }
}

function firstBytes(chunks: readonly Buffer[], bytes: number): Buffer {
  const head: Buffer[] = []
  for (let left = bytes, at = 0; left > 0 && at < chunks.length; at++) {
    head.push(chunks[at]!.subarray(0, left))
    left -= head.at(-1)!.length
  }
  return Buffer.concat(head)
}

async function* resumed(
  read: readonly (readonly Buffer[])[],
  iterator: AsyncIterator<readonly Buffer[]>,
): AsyncGenerator<readonly Buffer[]> {
  try {
    yield* read
    for (let next = await iterator.next(); !next.done; next = await iterator.next()) yield next.value
  } finally {
    await iterator.return?.()
  }
}

/** Leaves the body open when iteration stops early, so that an error answer can still be sent. */
async function* eachOf(body: Readable): AsyncGenerator<readonly Buffer[]> {
  for await (const chunk of body.iterator({ destroyOnReturn: false })) yield [chunk as Buffer]
}

const malformed = (why: string) => storageRefusal('InvalidRequest', `The form cannot be read: ${why}`)

function lengthOf(headers: IncomingHttpHeaders): number | undefined {
  if (headers['transfer-encoding'] !== undefined) return
  return Number(headers['content-length'] ?? 0)
}

const mimeType = /^[\w!#$&^.+-]+\/[\w!#$&^.+*-]+\s*(?:;[\x20-\x7e]*)?$/
const printable = /^[\x20-\x7e]*$/
const maxHeader = 255

export function checkContentType(type: string): string {
  const trimmed = type.trim()
  if (trimmed.length > maxHeader || !mimeType.test(trimmed))
    throw storageRefusal('InvalidMimeType', `mime type ${trimmed.slice(0, 100)} is not valid`, {
      hint: 'It has two parts, as image/png has; a bucket may also allow image/*.',
    })
  return trimmed
}

/** Undefined if there is none. */
export const declaredType = (type: string | undefined): string | undefined =>
  type?.trim() ? checkContentType(type) : undefined

/** The value is sent as a header with every download. */
export function checkHeader(name: string, value: string): string {
  if (!printable.test(value) || value.length > maxHeader)
    throw storageRefusal('InvalidRequest', `${name} must be at most ${maxHeader} printable characters`)
  return value
}

function robotsFrom(headers: IncomingHttpHeaders): string | undefined {
  const given = headers['x-robots-tag']
  return typeof given === 'string' ? checkHeader('x-robots-tag', given) : undefined
}

export function metadataFromHeader(header: string | string[] | undefined): object | null {
  return typeof header === 'string' && header !== ''
    ? metadataFromText(Buffer.from(header, 'base64').toString('utf8'))
    : null
}

export function metadataFromText(json: string): object | null {
  if (json.length > maxUserMetadata) throw noMetadata()
  try {
    const value = parseJsonBody(Buffer.from(json), { anyKey: true, maxValues: maxMetadataValues })
    if (value === null) return null
    // jsonb cannot store NUL characters.
    if (typeof value === 'object' && !Array.isArray(value) && !json.includes('\\u0000')) return value
  } catch (error) {
    throw noMetadata(error)
  }
  throw noMetadata()
}

const noMetadata = (cause?: unknown) =>
  storageRefusal(
    'InvalidRequest',
    `metadata must be a JSON object of at most 1 MiB and ${maxMetadataValues} values, not nested too deeply`,
    {
      cause,
    },
  )
