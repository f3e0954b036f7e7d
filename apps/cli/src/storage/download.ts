// Downloads a file into a temporary file beside the target and renames it when it is complete.
import { randomBytes } from 'node:crypto'
import { type FileHandle, mkdir, open, realpath, rename, rm, stat } from 'node:fs/promises'
import type { IncomingMessage } from 'node:http'
import { dirname, join } from 'node:path'
import { Failure } from '../failure.ts'
import { addressOf } from './address.ts'
import { encoded } from './buckets.ts'
import { Refused, type StorageClient } from './client.ts'
import { isTransient, retries } from './retry.ts'

export interface Download {
  bucket: string
  key: string
  /** Absolute. */
  path: string
  /** As the user wrote it, for messages. */
  to: string
  /** Holds the incomplete file while it is written. */
  temporaryFiles: Set<string>
}

const idleMilliseconds = 60_000

/** Returns the number of bytes received. */
export async function download(
  client: StorageClient,
  request: Download,
  onProgress: (position: number) => void,
): Promise<number> {
  const { path, mode } = await withWriteError(request.to, () => resolveTarget(request.path))
  const part = join(dirname(path), `.plinth-${randomBytes(6).toString('hex')}.part`)
  const handle = await withWriteError(request.to, () => open(part, 'wx', mode))
  request.temporaryFiles.add(part)
  try {
    const size = await downloadInto(client, request, handle, onProgress).finally(() => handle.close())
    await withWriteError(request.to, () => rename(part, path))
    return size
  } catch (error) {
    await rm(part, { force: true })
    throw error
  } finally {
    request.temporaryFiles.delete(part)
  }
}

/** Follows a symbolic link as cp does. Only a file may be replaced, never a device. */
async function resolveTarget(target: string): Promise<{ path: string; mode: number }> {
  const there = await stat(target).catch((error: NodeJS.ErrnoException) => {
    if (error.code === 'ENOENT') return null
    throw error
  })
  if (there && !there.isFile())
    throw new Error(there.isDirectory() ? 'it is a directory' : 'it is not a file')
  if (there) return { path: await realpath(target), mode: there.mode & 0o777 }
  await mkdir(dirname(target), { recursive: true })
  return { path: target, mode: 0o666 }
}

async function downloadInto(
  client: StorageClient,
  request: Download,
  handle: FileHandle,
  onProgress: (position: number) => void,
): Promise<number> {
  const retry = retries(client.signal)
  let whole: Version | null = null
  let offset = 0
  const startAgain = async () => {
    offset = 0
    await withWriteError(request.to, () => handle.truncate(0))
  }
  for (;;) {
    const before = offset
    try {
      const part = await requestPart(client, request, offset)
      if (part.from !== offset || !isSame(part, whole)) await startAgain()
      if (part.from !== offset) throw cutOff(part.reply)
      whole = part
      for await (const chunk of part.reply as AsyncIterable<Buffer>) {
        await withWriteError(request.to, () => writeAll(handle, chunk, offset))
        offset += chunk.length
        onProgress(offset)
      }
      if (offset === part.size) return offset
      throw cutOff(part.reply)
    } catch (error) {
      if (offset > before) retry.succeeded()
      const isPastTheEnd = error instanceof Refused && error.status === 416
      if (isPastTheEnd) await startAgain()
      await retry.after(error, isPastTheEnd || isTransient(error))
    }
  }
}

interface Version {
  size: number
  etag: string | undefined
}
interface Part extends Version {
  from: number
  reply: IncomingMessage
}

/** Requests the file from the offset on; the server may answer from the start. */
async function requestPart(client: StorageClient, { bucket, key }: Download, offset: number): Promise<Part> {
  const reply = await client.send({
    method: 'GET',
    path: `object/${encoded(bucket, key)}`,
    headers: offset > 0 ? { range: `bytes=${offset}-` } : {},
    idleMilliseconds,
  })
  const { etag, 'content-length': length, 'content-range': range } = reply.headers
  const [, from, size] = /^bytes (\d+)-\d+\/(\d+)$/.exec(range ?? '') ?? []
  const part =
    reply.statusCode === 206 ? { from: Number(from), size: Number(size) } : { from: 0, size: Number(length) }
  if (Number.isSafeInteger(part.from) && Number.isSafeInteger(part.size)) return { ...part, etag, reply }
  reply.destroy()
  throw new Failure('not_a_platform', `The platform did not send the size of ${addressOf(bucket, key)}.`)
}

/** Parts of two versions must not be mixed in one file. */
const isSame = (part: Version, whole: Version | null) =>
  whole === null || (part.size === whole.size && part.etag === whole.etag)

function cutOff(reply: IncomingMessage): Error {
  reply.destroy()
  return Object.assign(new Error('the response ended early'), { code: 'ECONNRESET' })
}

async function writeAll(handle: FileHandle, chunk: Buffer, at: number): Promise<void> {
  for (let written = 0; written < chunk.length; )
    written += (await handle.write(chunk, written, chunk.length - written, at + written)).bytesWritten
}

async function withWriteError<T>(path: string, work: () => Promise<T>): Promise<T> {
  try {
    return await work()
  } catch (cause) {
    throw new Failure(
      'file_unwritable',
      `${path} cannot be written: ${(cause as Error).message}.`,
      null,
      cause,
    )
  }
}
