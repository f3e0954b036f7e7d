// A local file to the platform: small ones in one request, others by TUS, which goes on after a cut connection.
import type { Stats } from 'node:fs'
import { type FileHandle, open } from 'node:fs/promises'
import { Failure } from '../failure.ts'
import { encoded } from './area.ts'
import { isPassing, patience, persistently } from './patience.ts'
import { dismiss, Refused, type Wire } from './wire.ts'

export interface Upload {
  from: string
  bucket: string
  key: string
  contentType: string
  /** As the header is written. */
  cacheControl: string
}

/** What is larger goes by TUS, in requests of this size. */
export const chunkBytes = 6 * 1024 * 1024
const readBytes = 256 * 1024
const idleMilliseconds = 60_000

/** A file that is open for the whole upload, so that one put in its place meanwhile is not mixed in. */
interface Source extends Upload {
  handle: FileHandle
  stats: Stats
}

/** Answers with the bytes sent. */
export async function upload(wire: Wire, wish: Upload, moved: (position: number) => void): Promise<number> {
  const handle = await open(wish.from).catch(cause => {
    throw unreadable(wish.from, cause)
  })
  try {
    const source = { ...wish, handle, stats: await handle.stat() }
    await (source.stats.size <= chunkBytes ? inOne(wire, source, moved) : inChunks(wire, source, moved))
    return source.stats.size
  } finally {
    await handle.close()
  }
}

const inOne = (wire: Wire, source: Source, moved: (position: number) => void): Promise<void> =>
  persistently(wire.signal, async () => {
    const { size } = source.stats
    const reply = await wire.send({
      method: 'POST',
      path: `object/${encoded(source.bucket, source.key)}`,
      headers: {
        'content-type': source.contentType,
        'cache-control': source.cacheControl,
        'content-length': size,
        'x-upsert': 'true',
      },
      body: size === 0 ? '' : bytesOf(source, 0, size, moved),
      idleMilliseconds,
    })
    dismiss(reply)
  })

async function inChunks(wire: Wire, source: Source, moved: (position: number) => void): Promise<void> {
  const { size } = source.stats
  const patient = patience(wire.signal)
  let session = await begin(wire, source)
  let restarts = 0
  let offset = 0
  try {
    while (offset < size) {
      try {
        offset = await append(wire, session, source, offset, moved)
        patient.restored()
      } catch (error) {
        await patient.after(error, isPassing(error) || hasLostItsPlace(error))
        const reached = await offsetOf(wire, session)
        if (reached === null) {
          if (restarts++ === maxRestarts) throw error
          session = await begin(wire, source)
        } else if (reached > offset) patient.restored()
        offset = reached ?? 0
        moved(offset)
      }
    }
  } catch (error) {
    await giveUp(wire, session)
    throw error
  }
}

/** Of an upload the platform has forgotten. */
const maxRestarts = 3

const tus = { 'tus-resumable': '1.0.0' }

/** Where the upload goes on. Only the last part of `Location` is used: the key is not for other hosts. */
function begin(wire: Wire, { bucket, key, contentType, cacheControl, stats }: Source): Promise<string> {
  const seconds = /^max-age=(\d+)$/.exec(cacheControl)?.[1]
  const metadata = { bucketName: bucket, objectName: key, contentType, cacheControl: seconds ?? cacheControl }
  const pairs = Object.entries(metadata).map(
    ([name, value]) => `${name} ${Buffer.from(value).toString('base64')}`,
  )
  return persistently(wire.signal, async () => {
    const reply = await wire.send({
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
    dismiss(reply)
    const id = /([^/?#]+)\/?(?:[?#].*)?$/.exec(reply.headers.location ?? '')?.[1]
    if (id) return `upload/resumable/${id}`
    throw new Failure('not_a_platform', 'The platform began an upload and did not say where it goes on.')
  })
}

/** One chunk; answers with how much the platform has now. */
async function append(
  wire: Wire,
  session: string,
  source: Source,
  offset: number,
  moved: (position: number) => void,
): Promise<number> {
  await throwIfChanged(source)
  const end = Math.min(source.stats.size, offset + chunkBytes)
  const reply = await wire.send({
    method: 'PATCH',
    path: session,
    headers: {
      ...tus,
      'upload-offset': offset,
      'content-type': 'application/offset+octet-stream',
      'content-length': end - offset,
    },
    body: bytesOf(source, offset, end, moved),
    idleMilliseconds,
  })
  dismiss(reply)
  const reached = Number(reply.headers['upload-offset'])
  if (Number.isSafeInteger(reached) && reached > offset && reached <= source.stats.size) return reached
  throw new Failure('not_a_platform', 'The platform took part of the file and did not say how much.')
}

/** Null when the platform no longer knows the upload. */
const offsetOf = (wire: Wire, session: string): Promise<number | null> =>
  persistently(wire.signal, async () => {
    try {
      const reply = await wire.send({ method: 'HEAD', path: session, headers: tus, idleMilliseconds })
      dismiss(reply)
      return Number(reply.headers['upload-offset'] ?? 0)
    } catch (error) {
      if (error instanceof Refused && (error.status === 404 || error.status === 410)) return null
      throw error
    }
  })

/** It is elsewhere than we think: asking where is all it takes. */
const hasLostItsPlace = (error: unknown) => error instanceof Refused && [404, 409, 410].includes(error.status)

/** Gives the room back at once instead of when it expires; also after Ctrl-C, so not by the signal of the wire. */
async function giveUp(wire: Wire, session: string): Promise<void> {
  const signal = AbortSignal.timeout(3000)
  try {
    // The platform may not have noticed yet that the last chunk is cut off.
    await persistently(signal, async () =>
      dismiss(await wire.send({ method: 'DELETE', path: session, headers: tus, signal })),
    )
  } catch {
    // It clears it away by itself.
  }
}

/** Not a stream of the handle: one that is given up early closes the file for those that follow. */
async function* bytesOf(
  source: Source,
  start: number,
  end: number,
  moved: (position: number) => void,
): AsyncGenerator<Uint8Array> {
  for (let position = start; position < end; ) {
    // A fresh one each time: the socket may not have sent the last one yet.
    const chunk = Buffer.allocUnsafe(Math.min(readBytes, end - position))
    const { bytesRead } = await source.handle.read(chunk, 0, chunk.length, position).catch(cause => {
      throw unreadable(source.from, cause)
    })
    if (bytesRead === 0) throw changed(source.from)
    yield chunk.subarray(0, bytesRead)
    position += bytesRead
    moved(position)
  }
}

async function throwIfChanged({ handle, stats, from }: Source): Promise<void> {
  const now = await handle.stat()
  if (now.size !== stats.size || now.mtimeMs !== stats.mtimeMs) throw changed(from)
}

const changed = (path: string) =>
  new Failure(
    'file_changed',
    `${path} was written to while it was sent.`,
    'Run it again when it is complete.',
  )

export const unreadable = (path: string, cause: unknown): Failure =>
  new Failure('file_unreadable', `${path} cannot be read: ${(cause as Error).message}.`, null, cause)
