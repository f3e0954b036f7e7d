// Single TUS requests, including invalid ones and ones that a test aborts in the middle.
import assert from 'node:assert/strict'
import { eventually } from './eventually.ts'
import type { Opened, StoredFiles } from './storage-node.ts'

const version = { 'tus-resumable': '1.0.0' }
export const offsetStream = { 'content-type': 'application/offset+octet-stream' }

const base64 = (text: string) => Buffer.from(text).toString('base64')
export const metadataOf = (name: string, bucket = 'files'): string =>
  `bucketName ${base64(bucket)},objectName ${base64(name)}`

/** Creates an upload and returns its id. */
export async function createUpload(
  files: StoredFiles,
  name: string,
  /** Without a length the upload uses Upload-Defer-Length. */
  length: number | undefined,
  headers: Record<string, string> = {},
): Promise<string> {
  const lengthHeader =
    length === undefined ? { 'upload-defer-length': '1' } : { 'upload-length': `${length}` }
  const reply = await files.fetch('POST', 'upload/resumable', {
    headers: { ...version, ...lengthHeader, 'upload-metadata': metadataOf(name), ...headers },
  })
  assert.equal(reply.status, 201, await reply.text())
  return new URL(reply.headers.get('location')!, files.base).pathname.split('/').at(-1)!
}

export function headUpload(files: StoredFiles, upload: string): Promise<Response> {
  return files.fetch('HEAD', `upload/resumable/${upload}`, { headers: version })
}

/** The offset, once no other request holds the upload. */
export async function offsetOf(files: StoredFiles, upload: string): Promise<number> {
  let reply: Response | undefined
  await eventually(async () => {
    reply = await headUpload(files, upload)
    return reply.status !== 423
  }, 'the upload is not locked')
  assert.equal(reply!.status, 200)
  return Number(reply!.headers.get('upload-offset'))
}

/** Sends a PATCH and returns its status. */
export async function patchUpload(
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

/** Starts a PATCH with this length, or chunked, whose body the test writes. */
export function openPatch(
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

/** Sends the missing bytes. It retries, because an aborted request may still be active and move the offset. */
export async function resumeUpload(files: StoredFiles, upload: string, file: Buffer): Promise<void> {
  await eventually(async () => {
    const offset = await offsetOf(files, upload)
    const status = await patchUpload(files, upload, offset, file.subarray(offset))
    assert.ok([204, 409, 423].includes(status), `${status}`)
    return status === 204
  }, 'a PATCH is accepted')
}
