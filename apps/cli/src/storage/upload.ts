// Uploads a local file: small files in one request, larger ones by TUS, which resumes after a cut connection.
import type { Stats } from 'node:fs'
import { type FileHandle, open } from 'node:fs/promises'
import { Failure } from '../failure.ts'
import { encoded } from './buckets.ts'
import { discardBody, Refused, type StorageClient } from './client.ts'
import { isTransient, retries, withRetries } from './retry.ts'

export interface Upload {
  /** Absolute. */
  path: string
  /** As the user wrote it, for messages. */
  from: string
  bucket: string
  key: string
  contentType: string
  /** The value of the header. */
  cacheControl: string
}

/** Larger files go by TUS, in requests of this size. */
export const chunkBytes = 6 * 1024 * 1024
const readBytes = 256 * 1024
const idleMilliseconds = 60_000

/** The file stays open for the whole upload, so that a file that replaces it meanwhile is not mixed in. */
interface Source extends Upload {
  handle: FileHandle
  stats: Stats
}

/** Returns the number of bytes sent. */
export async function upload(
  client: StorageClient,
  request: Upload,
  onProgress: (position: number) => void,
): Promise<number> {
  const handle = await open(request.path).catch(cause => {
    throw unreadable(request.from, cause)
  })
  try {
    const source = { ...request, handle, stats: await handle.stat() }
    await (source.stats.size <= chunkBytes
      ? uploadAtOnce(client, source, onProgress)
      : uploadInChunks(client, source, onProgress))
    return source.stats.size
  } finally {
    await handle.close()
  }
}

const uploadAtOnce = (
  client: StorageClient,
  source: Source,
  onProgress: (position: number) => void,
): Promise<void> =>
  withRetries(client.signal, async () => {
    const { size } = source.stats
    const reply = await client.send({
      method: 'POST',
      path: `object/${encoded(source.bucket, source.key)}`,
      headers: {
        'content-type': source.contentType,
        'cache-control': source.cacheControl,
        'content-length': size,
        'x-upsert': 'true',
      },
      body: size === 0 ? '' : bytesOf(source, 0, size, onProgress),
      idleMilliseconds,
    })
    discardBody(reply)
  })

async function uploadInChunks(
  client: StorageClient,
  source: Source,
  onProgress: (position: number) => void,
): Promise<void> {
  const { size } = source.stats
  const retry = retries(client.signal)
  let session = await start(client, source)
  let restarts = 0
  let offset = 0
  try {
    while (offset < size) {
      try {
        offset = await append(client, session, source, offset, onProgress)
        retry.succeeded()
      } catch (error) {
        await retry.after(error, isTransient(error) || isWrongOffset(error))
        const reached = await offsetOf(client, session)
        if (reached === null) {
          if (restarts++ === maxRestarts) throw error
          session = await start(client, source)
        } else if (reached > offset) retry.succeeded()
        offset = reached ?? 0
        onProgress(offset)
      }
    }
  } catch (error) {
    await cancel(client, session)
    throw error
  }
}

/** Of an upload that the platform no longer knows. */
const maxRestarts = 3

const tus = { 'tus-resumable': '1.0.0' }

/** Returns the path of the upload. Only the last part of `Location` is used, so that the key is not sent to another host. */
function start(
  client: StorageClient,
  { bucket, key, contentType, cacheControl, stats }: Source,
): Promise<string> {
  const seconds = /^max-age=(\d+)$/.exec(cacheControl)?.[1]
  const metadata = { bucketName: bucket, objectName: key, contentType, cacheControl: seconds ?? cacheControl }
  const pairs = Object.entries(metadata).map(
    ([name, value]) => `${name} ${Buffer.from(value).toString('base64')}`,
  )
  return withRetries(client.signal, async () => {
    const reply = await client.send({
      method: 'POST',
      path: 'upload/resumable',
      headers: {
        ...tus,
        'upload-length': stats.size,
        'upload-metadata': pairs.join(','),
        'x-upsert': 'true',
        'content-length': 0,
      },
    })
    discardBody(reply)
    const id = /([^/?#]+)\/?(?:[?#].*)?$/.exec(reply.headers.location ?? '')?.[1]
    if (id) return `upload/resumable/${id}`
    throw new Failure('not_a_platform', 'The platform started an upload without a Location.')
  })
}

/** Sends one chunk and returns the new offset. */
async function append(
  client: StorageClient,
  session: string,
  source: Source,
  offset: number,
  onProgress: (position: number) => void,
): Promise<number> {
  await throwIfChanged(source)
  const end = Math.min(source.stats.size, offset + chunkBytes)
  const reply = await client.send({
    method: 'PATCH',
    path: session,
    headers: {
      ...tus,
      'upload-offset': offset,
      'content-type': 'application/offset+octet-stream',
      'content-length': end - offset,
    },
    body: bytesOf(source, offset, end, onProgress),
    idleMilliseconds,
  })
  discardBody(reply)
  const reached = Number(reply.headers['upload-offset'])
  if (Number.isSafeInteger(reached) && reached > offset && reached <= source.stats.size) return reached
  throw new Failure('not_a_platform', 'The platform accepted a part of the file without an Upload-Offset.')
}

/** Null when the platform no longer knows the upload. */
const offsetOf = (client: StorageClient, session: string): Promise<number | null> =>
  withRetries(client.signal, async () => {
    try {
      const reply = await client.send({ method: 'HEAD', path: session, headers: tus, idleMilliseconds })
      discardBody(reply)
      return Number(reply.headers['upload-offset'] ?? 0)
    } catch (error) {
      if (error instanceof Refused && (error.status === 404 || error.status === 410)) return null
      throw error
    }
  })

/** The offset here and on the platform differ; reading the offset resolves it. */
const isWrongOffset = (error: unknown) => error instanceof Refused && [404, 409, 410].includes(error.status)

/** Releases the reserved quota now instead of at its expiry. It runs after Ctrl-C too, so it has its own signal. */
async function cancel(client: StorageClient, session: string): Promise<void> {
  const signal = AbortSignal.timeout(3000)
  try {
    // The platform may still wait for the rest of the last chunk.
    await withRetries(signal, async () =>
      discardBody(await client.send({ method: 'DELETE', path: session, headers: tus, signal })),
    )
  } catch {
    // The platform removes it at its expiry.
  }
}

/** Not a stream of the handle: destroying such a stream early closes the file for later reads. */
async function* bytesOf(
  source: Source,
  start: number,
  end: number,
  onProgress: (position: number) => void,
): AsyncGenerator<Uint8Array> {
  for (let position = start; position < end; ) {
    // A new buffer each time: the socket may still hold the last one.
    const chunk = Buffer.allocUnsafe(Math.min(readBytes, end - position))
    const { bytesRead } = await source.handle.read(chunk, 0, chunk.length, position).catch(cause => {
      throw unreadable(source.from, cause)
    })
    if (bytesRead === 0) throw changed(source.from)
    yield chunk.subarray(0, bytesRead)
    position += bytesRead
    onProgress(position)
  }
}

async function throwIfChanged({ handle, stats, from }: Source): Promise<void> {
  const now = await handle.stat()
  if (now.size !== stats.size || now.mtimeMs !== stats.mtimeMs) throw changed(from)
}

const changed = (path: string) =>
  new Failure(
    'file_changed',
    `${path} was changed during the upload.`,
    'Run it again when the file is complete.',
  )

export const unreadable = (path: string, cause: unknown): Failure =>
  new Failure('file_unreadable', `${path} cannot be read: ${(cause as Error).message}.`, null, cause)
