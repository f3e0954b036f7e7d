// Uploads as they come over the wire: in parts put together by hand, in pieces, cut off, and resumable.
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

/** The body of a multipart/form-data request, byte by byte. */
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

/** A form, as a request brings it. */
export const formOf = (parts: Part[]): Pick<Ask, 'raw' | 'headers'> => ({
  raw: multipart(parts),
  headers: { 'content-type': multipartType },
})

type Pieces = Iterable<Uint8Array> | AsyncIterable<Uint8Array>

/**
 * Sends pieces as they come, without a length unless the headers have one. An answer may come before the last
 * of them; that the server then hangs up is no fault.
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

/** Announces so many bytes, sends these, and hangs up. */
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

export interface Begin extends Ask {
  bucket: string
  key: string
  length?: number
  /** More of Upload-Metadata. */
  fields?: Record<string, string>
  /** Sent with the creation. */
  first?: Uint8Array
  path?: string
}

/** Storage contract §8: creates an upload. */
export const begin = (
  storage: StorageApi,
  { bucket, key, length, fields, first, path = 'upload/resumable', headers, ...options }: Begin,
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
  /** From the service on. */
  path: string
  append(offset: number, bytes: Uint8Array, options?: Ask): Promise<Reply>
  head(options?: Ask): Promise<Reply>
  terminate(options?: Ask): Promise<Reply>
  /** Where the server says it is. */
  offset(): Promise<number>
}

/** The upload that was created, reached where its Location says, with the prefix the client came by. */
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
export const begun = async (storage: StorageApi, wish: Begin): Promise<Resumable> =>
  resumable(storage, await begin(storage, wish))
