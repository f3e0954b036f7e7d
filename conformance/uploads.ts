// Uploads at the level of the wire: multipart bodies, streams, aborted requests and resumable uploads.
import assert from 'node:assert/strict'
import { request } from 'node:http'
import { connect } from 'node:net'
import { Readable } from 'node:stream'
import { type Ask, headersOf, type StorageApi, storageRoot } from './storage.ts'
import { answer, type Reply } from './wire.ts'

export interface Part {
  name: string
  content: string | Uint8Array
  filename?: string
  type?: string
}

export const boundary = 'a-boundary-of-our-own'
export const multipartType = `multipart/form-data; boundary=${boundary}`

/** The body of a multipart/form-data request. */
export function multipart(parts: Part[]): Buffer {
  const written = parts.flatMap(({ name, content, filename, type }) => [
    `--${boundary}\r\nContent-Disposition: form-data; name="${name}"`,
    filename === undefined ? '' : `; filename="${filename}"`,
    type === undefined ? '\r\n\r\n' : `\r\nContent-Type: ${type}\r\n\r\n`,
    content,
    '\r\n',
  ])
  return Buffer.concat([...written, `--${boundary}--\r\n`].map(each => Buffer.from(each)))
}

/** Body and headers of a multipart request. */
export const formOf = (parts: Part[]): Pick<Ask, 'raw' | 'headers'> => ({
  raw: multipart(parts),
  headers: { 'content-type': multipartType },
})

type Pieces = Iterable<Uint8Array> | AsyncIterable<Uint8Array>

/**
 * Sends the pieces as a stream, without a length unless the headers have one. The server may answer before
 * the last piece and close the connection.
 */
export function sendPieces(
  storage: StorageApi,
  method: string,
  path: string,
  pieces: Pieces,
  { as, headers, shape }: Ask = {},
): Promise<Reply> {
  return new Promise((resolve, reject) => {
    const url = `${storage.target.url}${storageRoot(storage.project, shape)}/${path}`
    const sent = { ...headersOf(storage.project, as), ...headers }
    const call = request(url, { method, headers: sent, agent: false }, reply => {
      const received: Buffer[] = []
      reply.on('data', chunk => received.push(chunk))
      reply.on('error', reject)
      reply.on('end', () => {
        const named = Object.entries(reply.headersDistinct).map(([name, values]) => [
          name,
          values!.join(', '),
        ])
        resolve(answer(reply.statusCode!, new Headers(named as [string, string][]), Buffer.concat(received)))
        call.destroy()
      })
    })
    call.on('error', reject)
    Readable.from(pieces).pipe(call)
  })
}

/** Announces this many bytes, sends fewer, and disconnects. */
export function sendPart(
  storage: StorageApi,
  method: string,
  path: string,
  announced: number | 'chunked',
  bytes: Uint8Array,
  headers: Record<string, string> = {},
): Promise<void> {
  const { hostname, port, host } = new URL(storage.target.url)
  const lines = Object.entries({
    host,
    ...headersOf(storage.project),
    ...(announced === 'chunked'
      ? { 'transfer-encoding': 'chunked' }
      : { 'content-length': String(announced) }),
    ...headers,
  }).map(([name, value]) => `${name}: ${value}\r\n`)
  const head = `${method} ${storageRoot(storage.project)}/${path} HTTP/1.1\r\n${lines.join('')}\r\n`
  const start = announced === 'chunked' ? `${(bytes.length + 1000).toString(16)}\r\n` : ''
  return new Promise((resolve, reject) => {
    const socket = connect(Number(port), hostname)
    socket.on('error', reject)
    socket.on('close', () => resolve())
    socket.write(Buffer.concat([Buffer.from(head + start), bytes]), () => socket.destroySoon())
  })
}

const base64 = (text: string) => Buffer.from(text).toString('base64')
export const tusMetadata = (fields: Record<string, string>) =>
  Object.entries(fields)
    .map(([name, value]) => `${name} ${base64(value)}`)
    .join(',')

export const tusVersion = { 'tus-resumable': '1.0.0' }
export const offsetType = { 'content-type': 'application/offset+octet-stream' }

export interface UploadOptions extends Ask {
  bucket: string
  key: string
  length?: number
  /** Further fields of Upload-Metadata. */
  fields?: Record<string, string>
  /** Sent with the creation request. */
  first?: Uint8Array
  path?: string
}

/** Storage contract §8: sends the creation request of an upload. */
export const requestUpload = (
  storage: StorageApi,
  { bucket, key, length, fields, first, path = 'upload/resumable', headers, ...options }: UploadOptions,
): Promise<Reply> =>
  storage.ask('POST', path, {
    ...options,
    ...(first && { raw: Buffer.from(first) }),
    headers: {
      ...tusVersion,
      ...(length !== undefined && { 'upload-length': String(length) }),
      'upload-metadata': tusMetadata({ bucketName: bucket, objectName: key, ...fields }),
      ...(first && offsetType),
      ...headers,
    },
  })

export interface Resumable {
  /** The path after the service. */
  path: string
  append(offset: number, bytes: Uint8Array, options?: Ask): Promise<Reply>
  head(options?: Ask): Promise<Reply>
  terminate(options?: Ask): Promise<Reply>
  /** The offset according to HEAD. */
  offset(): Promise<number>
}

/** A created upload, addressed by the path in its Location. */
export function resumable(storage: StorageApi, created: Reply, usual: Ask = {}): Resumable {
  assert.equal(created.status, 201, `${created.status} ${created.text}`)
  const location = new URL(created.headers.get('location') ?? '', storage.target.url)
  assert.equal(location.origin, storage.target.url)
  const root = `${storageRoot(storage.project, usual.shape)}/`
  assert.ok(location.pathname.startsWith(root), location.pathname)
  const path = location.pathname.slice(root.length)
  const ask = (method: string, { headers, ...options }: Ask) =>
    storage.ask(method, path, {
      ...usual,
      ...options,
      headers: { ...tusVersion, ...usual.headers, ...headers },
    })
  const head = (options: Ask = {}) => ask('HEAD', options)
  return {
    path,
    append: (offset, bytes, { headers, ...options } = {}) =>
      ask('PATCH', {
        raw: Buffer.from(bytes),
        ...options,
        headers: { ...offsetType, 'upload-offset': String(offset), ...headers },
      }),
    head,
    terminate: (options = {}) => ask('DELETE', options),
    async offset() {
      const reply = await head()
      assert.equal(reply.status, 200, `${reply.status}`)
      return Number(reply.headers.get('upload-offset'))
    },
  }
}

/** Creates an upload, which must succeed. */
export const createUpload = async (storage: StorageApi, options: UploadOptions): Promise<Resumable> =>
  resumable(storage, await requestUpload(storage, options))
