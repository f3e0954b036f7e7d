// A file of the platform to this machine: into a file beside the target, which takes its place when it is whole.
import { randomBytes } from 'node:crypto'
import { rmSync } from 'node:fs'
import { type FileHandle, mkdir, open, realpath, rename, rm, stat } from 'node:fs/promises'
import type { IncomingMessage } from 'node:http'
import { dirname, join } from 'node:path'
import { Failure } from '../failure.ts'
import { addressOf } from './address.ts'
import { encoded } from './area.ts'
import { isPassing, patience } from './patience.ts'
import { Refused, type Wire } from './wire.ts'

export interface Download {
  bucket: string
  key: string
  to: string
}

const idleMilliseconds = 60_000

/** Half files; those that are left go with the program, however it ends. */
const unfinished = new Set<string>()
process.on('exit', () => {
  for (const path of unfinished) rmSync(path, { force: true })
})

/** Answers with the bytes received. */
export async function download(
  wire: Wire,
  wish: Download,
  moved: (position: number) => void,
): Promise<number> {
  const { path, mode } = await writing(wish.to, () => placeFor(wish.to))
  const part = join(dirname(path), `.plinth-${randomBytes(6).toString('hex')}.part`)
  const handle = await writing(wish.to, () => open(part, 'wx', mode))
  unfinished.add(part)
  try {
    const size = await fill(wire, wish, handle, moved).finally(() => handle.close())
    await writing(wish.to, () => rename(part, path))
    return size
  } catch (error) {
    await rm(part, { force: true })
    throw error
  } finally {
    unfinished.delete(part)
  }
}

/** Through a link to what it points to, as cp does; only a file may be replaced, never a device. */
async function placeFor(target: string): Promise<{ path: string; mode: number }> {
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

async function fill(
  wire: Wire,
  wish: Download,
  handle: FileHandle,
  moved: (position: number) => void,
): Promise<number> {
  const patient = patience(wire.signal)
  let whole: Version | null = null
  let offset = 0
  const beginAgain = async () => {
    offset = 0
    await writing(wish.to, () => handle.truncate(0))
  }
  for (;;) {
    const before = offset
    try {
      const part = await ask(wire, wish, offset)
      if (part.from !== offset || !isSame(part, whole)) await beginAgain()
      if (part.from !== offset) throw cut(part.reply)
      whole = part
      for await (const chunk of part.reply as AsyncIterable<Buffer>) {
        await writing(wish.to, () => writeAll(handle, chunk, offset))
        offset += chunk.length
        moved(offset)
      }
      if (offset === part.size) return offset
      throw cut(part.reply)
    } catch (error) {
      if (offset > before) patient.restored()
      const isPastTheEnd = error instanceof Refused && error.status === 416
      if (isPastTheEnd) await beginAgain()
      await patient.after(error, isPastTheEnd || isPassing(error))
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

/** From the offset on, as far as the server goes along with that. */
async function ask(wire: Wire, { bucket, key }: Download, offset: number): Promise<Part> {
  const reply = await wire.send({
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
  throw new Failure('not_a_platform', `The platform did not say how large ${addressOf(bucket, key)} is.`)
}

/** Parts of two versions are not one file. */
const isSame = (part: Version, whole: Version | null) =>
  whole === null || (part.size === whole.size && part.etag === whole.etag)

function cut(reply: IncomingMessage): Error {
  reply.destroy()
  return Object.assign(new Error('the answer ended early'), { code: 'ECONNRESET' })
}

async function writeAll(handle: FileHandle, chunk: Buffer, at: number): Promise<void> {
  for (let written = 0; written < chunk.length; )
    written += (await handle.write(chunk, written, chunk.length - written, at + written)).bytesWritten
}

async function writing<T>(path: string, work: () => Promise<T>): Promise<T> {
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
