// TUS by hand: requests that a well-behaved client would not send, and that are cut off where a test likes.
import assert from 'node:assert/strict'
import type { Opened, StoredFiles } from './storage-node.ts'
import { until } from './storage-node.ts'

const version = { 'tus-resumable': '1.0.0' }
export const offsetStream = { 'content-type': 'application/offset+octet-stream' }

const base64 = (text: string) => Buffer.from(text).toString('base64')
export const metadataOf = (name: string, bucket = 'files'): string =>
  `bucketName ${base64(bucket)},objectName ${base64(name)}`

/** The id of an upload begun. */
export async function created(
  files: StoredFiles,
  name: string,
  /** Told later when there is none. */
  length: number | undefined,
  headers: Record<string, string> = {},
): Promise<string> {
  const told = length === undefined ? { 'upload-defer-length': '1' } : { 'upload-length': `${length}` }
  const reply = await files.fetch('POST', 'upload/resumable', {
    headers: { ...version, ...told, 'upload-metadata': metadataOf(name), ...headers },
  })
  assert.equal(reply.status, 201, await reply.text())
  return new URL(reply.headers.get('location')!, files.base).pathname.split('/').at(-1)!
}

export function looked(files: StoredFiles, upload: string): Promise<Response> {
  return files.fetch('HEAD', `upload/resumable/${upload}`, { headers: version })
}

/** How far it is, as soon as nobody writes to it any more. */
export async function offsetOf(files: StoredFiles, upload: string): Promise<number> {
  let reply: Response | undefined
  await until(
    async () => {
      reply = await looked(files, upload)
      return reply.status !== 423
    },
    'an upload nobody holds',
    20_000,
  )
  assert.equal(reply!.status, 200)
  return Number(reply!.headers.get('upload-offset'))
}

/** The status of a PATCH. */
export async function patched(
  files: StoredFiles,
  upload: string,
  offset: number,
  chunk: Buffer,
  headers: Record<string, string> = {},
): Promise<number> {
  const reply = await files.fetch('PATCH', `upload/resumable/${upload}`, {
    body: new Uint8Array(chunk),
    headers: { ...version, ...offsetStream, 'upload-offset': `${offset}`, ...headers },
  })
  await reply.body?.cancel()
  return reply.status
}

/** A PATCH whose body is written by hand, with this length or in chunks. */
export function patching(
  files: StoredFiles,
  upload: string,
  offset: number,
  length: number | undefined,
): Promise<Opened> {
  return files.opened('PATCH', `upload/resumable/${upload}`, {
    ...version,
    ...offsetStream,
    'upload-offset': offset,
    ...(length === undefined ? { 'transfer-encoding': 'chunked' } : { 'content-length': length }),
  })
}

/** Sends the rest. A request cut off before may still be at work, and be further in the end. */
export async function resumed(files: StoredFiles, upload: string, file: Buffer): Promise<void> {
  await until(
    async () => {
      const offset = await offsetOf(files, upload)
      const status = await patched(files, upload, offset, file.subarray(offset))
      assert.ok([204, 409, 423].includes(status), `${status}`)
      return status === 204
    },
    'a PATCH that is taken',
    20_000,
  )
}
