// Faulty clients of resumable uploads: concurrent, at a wrong offset, beyond the length, or never finished (case 31).
import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { eventually } from './eventually.ts'
import { answeredStatus, StorageNode, type StoredFiles } from './storage-node.ts'
import { mebibyte, randomFile, sha256 } from './tus-files.ts'
import {
  createUpload,
  headUpload,
  metadataOf,
  offsetOf,
  openPatch,
  patchUpload,
  resumeUpload,
} from './tus-requests.ts'

const node = new StorageNode()
let files: StoredFiles
before(async () => {
  await node.start()
  files = await node.createProject()
})
after(() => node.remove())

const version = { 'tus-resumable': '1.0.0' }

test('tus: a concurrent PATCH gets 423, and the file is that of the first', async () => {
  const file = randomFile(10 * mebibyte)
  const upload = await createUpload(files, 'parallel', file.length)
  const before = files.bytesOnDisk()
  const first = await openPatch(files, upload, 0, file.length)
  first.socket.write(file.subarray(0, 9 * mebibyte))
  await eventually(() => files.bytesOnDisk() > before + mebibyte, 'bytes on disk')
  const other = randomFile(file.length)
  assert.equal(await patchUpload(files, upload, 0, other), 423)
  assert.equal(await patchUpload(files, upload, 0, other.subarray(0, 10)), 423)
  first.socket.write(file.subarray(9 * mebibyte))
  await eventually(() => first.answer !== '', 'an answer')
  assert.equal(answeredStatus(first), 204, first.answer)
  first.socket.destroy()
  assert.equal(sha256(await files.get('parallel')), sha256(file))
})

test('tus: one of many concurrent PATCHes is accepted, and the file is correct', async () => {
  const file = randomFile(3 * mebibyte)
  const upload = await createUpload(files, 'crowd', file.length)
  for (let offset = 0; offset < file.length; offset += mebibyte) {
    const chunk = file.subarray(offset, offset + mebibyte)
    const statuses = await Promise.all(
      Array.from({ length: 8 }, () => patchUpload(files, upload, offset, chunk)),
    )
    // Late requests find another offset or a finished upload.
    for (const status of statuses)
      assert.ok([204, 423, 409, 403, 404, 410].includes(status), String(statuses))
    assert.equal(statuses.filter(status => status === 204).length, 1, String(statuses))
  }
  assert.equal(sha256(await files.get('crowd')), sha256(file))
})

test('tus: a PATCH at a wrong offset is 409 and changes nothing', async () => {
  const file = randomFile(3000)
  const upload = await createUpload(files, 'offset', file.length)
  assert.equal(await patchUpload(files, upload, 0, file.subarray(0, 1000)), 204)
  for (const wrong of [0, 999, 1001, 3000, 99_999])
    assert.equal(await patchUpload(files, upload, wrong, file.subarray(0, 100)), 409, `${wrong}`)
  for (const none of ['', '-1', '1e3', '0x3e8', '1000.0']) {
    const status = await patchUpload(files, upload, 0, file.subarray(0, 100), { 'upload-offset': none })
    assert.ok([400, 409].includes(status), `${none}: ${status}`)
  }
  assert.equal(await offsetOf(files, upload), 1000)
  await resumeUpload(files, upload, file)
  assert.equal(sha256(await files.get('offset')), sha256(file))
})

test('tus: a PATCH beyond the length is rejected, with or without Content-Length', async () => {
  const file = randomFile(100_000)
  const upload = await createUpload(files, 'beyond', file.length)
  const status = await patchUpload(files, upload, 0, Buffer.concat([file, Buffer.from('more')]))
  assert.ok([400, 413].includes(status), `${status}`)
  assert.equal(await files.statusOf('beyond'), 404)
  assert.equal(await offsetOf(files, upload), 0)
  const chunked = await openPatch(files, upload, 0, undefined)
  const body = Buffer.concat([file, Buffer.alloc(200_000)])
  chunked.socket.write(`${body.length.toString(16)}\r\n`)
  chunked.socket.write(body)
  chunked.socket.write('\r\n0\r\n\r\n')
  await eventually(() => chunked.answer !== '' || chunked.isClosed, 'an answer')
  assert.doesNotMatch(chunked.answer, /^HTTP\/1.1 2/)
  chunked.socket.destroy()
  assert.equal(await files.statusOf('beyond'), 404)
  assert.ok((await offsetOf(files, upload)) <= file.length)
  // The beginning was accepted, so the rest completes the upload.
  await resumeUpload(files, upload, file)
  assert.equal(sha256(await files.get('beyond')), sha256(file))
})

test('tus: with a wrong length, extra bytes are rejected and missing bytes never give a file', async () => {
  const file = randomFile(2000)
  const short = await createUpload(files, 'short', 1000)
  assert.equal(await patchUpload(files, short, 0, file.subarray(0, 1000)), 204)
  const more = await patchUpload(files, short, 1000, file.subarray(1000))
  assert.ok(more >= 400 && more < 500, `${more}`)
  assert.ok((await files.get('short')).equals(file.subarray(0, 1000)))
  const long = await createUpload(files, 'long', 1_000_000)
  assert.equal(await patchUpload(files, long, 0, file), 204)
  assert.equal(await files.statusOf('long'), 404)
  // A second Upload-Length does not change the length.
  const changed = await patchUpload(files, long, 2000, Buffer.of(1), { 'upload-length': '2001' })
  assert.ok([204, 400].includes(changed), `${changed}`)
  assert.equal(await files.statusOf('long'), 404)
  // Bytes after the Content-Length are neither a valid request nor part of the file.
  const lying = await createUpload(files, 'lying', 100)
  const patch = await openPatch(files, lying, 0, 100)
  patch.socket.end(file.subarray(0, 300))
  await eventually(() => patch.isClosed, 'an end')
  // The connection may close before all 100 bytes were stored, so send the missing ones.
  await eventually(async () => {
    const offset = await offsetOf(files, lying)
    if (offset < 100) await patchUpload(files, lying, offset, file.subarray(offset, 100))
    return (await files.statusOf('lying')) === 200
  }, 'a file')
  assert.ok((await files.get('lying')).equals(file.subarray(0, 100)))
})

test('tus: invalid creations and PATCHes are rejected', async () => {
  const create = async (headers: Record<string, string>) => {
    const reply = await files.fetch('POST', 'upload/resumable', { headers })
    await reply.body?.cancel()
    return reply.status
  }
  const metadata = { 'upload-metadata': metadataOf('never') }
  assert.equal(await create({ ...metadata, 'upload-length': '10' }), 412)
  assert.equal(await create({ ...metadata, 'upload-length': '10', 'tus-resumable': '0.2.2' }), 412)
  for (const length of ['', '-1', 'ten', '1e3', '1.5', '9'.repeat(30)])
    assert.ok([400, 413].includes(await create({ ...version, ...metadata, 'upload-length': length })), length)
  assert.equal(await create({ ...version, ...metadata }), 400)
  assert.equal(await create({ ...version, ...metadata, 'upload-defer-length': '2' }), 400)
  assert.equal(await create({ ...version, 'upload-length': '10' }), 400)
  for (const broken of [
    'bucketName',
    'bucketName !!!,objectName YQ==',
    'bucketName ZmlsZXM=,bucketName YQ==',
  ])
    assert.equal(await create({ ...version, 'upload-length': '10', 'upload-metadata': broken }), 400, broken)
  const upload = await createUpload(files, 'never', 10)
  const chunk = Buffer.alloc(10)
  assert.equal(
    await patchUpload(files, upload, 0, chunk, { 'content-type': 'application/octet-stream' }),
    415,
  )
  assert.equal(await patchUpload(files, upload, 0, chunk, { 'tus-resumable': '0.2.2' }), 412)
  const nowhere = crypto.randomUUID()
  assert.equal(await patchUpload(files, nowhere, 0, chunk), 404)
  assert.equal((await headUpload(files, nowhere)).status, 404)
  const other = await node.createProject()
  assert.equal(await patchUpload(other, upload, 0, chunk), 404, 'an upload of another project')
  assert.equal(await files.statusOf('never'), 404)
})

test('tus: an unfinished upload counts against the quota, and a deleted one does not', async () => {
  const here = await node.createProject({ max_storage_size_mb: 4 })
  const file = randomFile(3 * mebibyte)
  const upload = await createUpload(here, 'a', file.length)
  assert.equal(await patchUpload(here, upload, 0, file.subarray(0, mebibyte)), 204)
  const second = await here.fetch('POST', 'upload/resumable', {
    headers: { ...version, 'upload-length': `${file.length}`, 'upload-metadata': metadataOf('b') },
  })
  assert.equal(second.status, 413)
  assert.partialDeepStrictEqual(await second.json(), { error: 'storage_quota_exceeded', bucket: 'files' })
  const reply = await here.fetch('DELETE', `upload/resumable/${upload}`, { headers: version })
  assert.equal(reply.status, 204)
  await eventually(async () => (await here.usedBytes()) === 0, 'no bytes counted')
  await eventually(() => here.pieces().length === 0, 'no pieces')
  const again = await createUpload(here, 'b', file.length)
  await resumeUpload(here, again, file)
  assert.equal(sha256(await here.get('b')), sha256(file))
  assert.equal(await here.usedBytes(), file.length)
})

test('tus: an unfinished upload expires after a day, and its bytes are removed', async () => {
  const here = await node.createProject({ max_storage_size_mb: 20 })
  const kept = randomFile(1000)
  await here.put('kept', kept)
  const file = randomFile(9 * mebibyte)
  const upload = await createUpload(here, 'abandoned', file.length)
  assert.equal(await patchUpload(here, upload, 0, file.subarray(0, 8 * mebibyte + 1)), 204)
  const late = await createUpload(here, 'late', undefined)
  assert.equal(await patchUpload(here, late, 0, file.subarray(0, 5000)), 204)
  assert.ok((await here.usedBytes()) > 8 * mebibyte)
  await node.restartLater()
  for (const each of [upload, late]) {
    const gone = await headUpload(here, each)
    assert.ok([404, 410].includes(gone.status), `${gone.status}`)
    const status = await patchUpload(here, each, 5000, file.subarray(0, 10))
    assert.ok([404, 410].includes(status), `${status}`)
  }
  await eventually(async () => (await here.usedBytes()) === kept.length, 'what is kept counted alone')
  await eventually(() => here.pieces().length === 1, 'its piece on disk alone')
  assert.ok((await here.get('kept')).equals(kept))
})
