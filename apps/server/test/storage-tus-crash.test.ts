// Resumable uploads with crashes, lost connections and a full disk: the offset is durable, and the final file is correct
// (case 31).
import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { eventually } from './eventually.ts'
import { StorageNode, type StoredFiles } from './storage-node.ts'
import { chunkSize, mebibyte, randomFile, sha256, tusProject } from './tus-files.ts'
import { createUpload, offsetOf, openPatch, patchUpload, resumeUpload } from './tus-requests.ts'

const node = new StorageNode()
let files: StoredFiles
before(async () => {
  await node.start()
  files = await node.createProject()
})
after(() => node.remove())

test('tus: after a crash during a PATCH the offset is durable and the upload resumes', async () => {
  const here = await node.createProject()
  const file = randomFile(40 * mebibyte + 11)
  const late = randomFile(9 * mebibyte + 1)
  const sent = { file: 30 * mebibyte, late: 8 * mebibyte + 500_000 }
  const uploads = {
    file: await createUpload(here, 'file', file.length),
    late: await createUpload(here, 'late', undefined),
  }
  const patch = await openPatch(here, uploads.file, 0, file.length)
  patch.socket.write(file.subarray(0, sent.file))
  const latePatch = await openPatch(here, uploads.late, 0, late.length)
  latePatch.socket.write(late.subarray(0, sent.late))
  const offsets = async () => [await offsetOf(here, uploads.file), await offsetOf(here, uploads.late)]
  let reported: number[] = []
  await eventually(async () => {
    reported = await offsets()
    return reported.every(offset => offset > 0)
  }, 'some of both')
  await node.restart()
  const [offset = 0, lateOffset = 0] = await offsets()
  assert.ok(offset >= reported[0]! && offset <= sent.file, `${offset} after ${reported}`)
  assert.ok(lateOffset >= reported[1]! && lateOffset <= sent.late, `${lateOffset} after ${reported}`)
  assert.deepEqual(await here.names(), [])
  await resumeUpload(here, uploads.file, file)
  const length = { 'upload-length': `${late.length}` }
  assert.equal(await patchUpload(here, uploads.late, lateOffset, late.subarray(lateOffset), length), 204)
  assert.equal(sha256(await here.get('file')), sha256(file))
  assert.equal(sha256(await here.get('late')), sha256(late))
  assert.equal(await here.usedBytes(), file.length + late.length, 'every byte is counted once')
})

test('tus: repeated crashes lose no confirmed byte', async () => {
  const file = randomFile(3 * chunkSize + 1)
  const upload = await createUpload(files, 'again', file.length)
  for (let start = 0; start < 2 * chunkSize; ) {
    assert.equal(await patchUpload(files, upload, start, file.subarray(start, start + chunkSize)), 204)
    start += chunkSize
    // Inside the next piece, with only a few bytes of it received.
    const next = await openPatch(files, upload, start, chunkSize)
    next.socket.write(file.subarray(start, start + 100_000))
    await node.restart()
    const offset = await offsetOf(files, upload)
    assert.ok(offset >= start && offset <= start + 100_000, `${offset} after ${start}`)
    start = offset
  }
  await resumeUpload(files, upload, file)
  await node.restart()
  assert.equal(sha256(await files.get('again')), sha256(file), 'the file is correct')
})

test('tus: tus-js-client resumes after a crash', async () => {
  const project = tusProject(files.project, files.base)
  const file = randomFile(4 * chunkSize)
  let chunks = 0
  const begun = project.sending(file, 'client', {
    onChunkComplete: () => {
      if (++chunks === 2) void node.kill()
    },
  })
  begun.upload.start()
  await assert.rejects(begun.over)
  await node.restart()
  const { pathname } = new URL(begun.upload.url!)
  const again = tusProject(files.project, files.base)
  const resumedBy = await again.send(file, 'client', {
    uploadUrl: node.url + pathname,
    retryDelays: [50, 200, 1000],
  })
  assert.ok(!resumedBy.requests.includes('POST 201'), String(resumedBy.requests))
  assert.equal(await again.hashOf('client'), sha256(file))
})

test('tus: an aborted PATCH keeps the received bytes and does not succeed', async () => {
  const file = randomFile(12 * mebibyte + 5)
  for (const length of ['content-length', 'transfer-encoding']) {
    const name = `cut by ${length}`
    const upload = await createUpload(files, name, file.length)
    const sent = 10 * mebibyte + 77
    const patch = await openPatch(files, upload, 0, length === 'content-length' ? file.length : undefined)
    const chunk = file.subarray(0, sent)
    if (length === 'content-length') patch.socket.end(chunk)
    else {
      patch.socket.write(`${sent.toString(16)}\r\n`)
      patch.socket.end(chunk)
    }
    await eventually(() => patch.isClosed, 'an end')
    assert.doesNotMatch(patch.answer, /^HTTP\/1.1 2/, length)
    const offset = await offsetOf(files, upload)
    assert.ok(offset > 0 && offset <= sent, `${length}: ${offset}`)
    assert.equal(await files.statusOf(name), 404)
    await resumeUpload(files, upload, file)
    assert.equal(sha256(await files.get(name)), sha256(file), length)
  }
})

test('tus: a chunk aborted at any position can be resumed', async () => {
  const file = randomFile(500_003)
  const upload = await createUpload(files, 'crumbled', file.length)
  // Each attempt is aborted after three times as many bytes as the previous one. The last one is not aborted.
  for (let offset = 0, step = 1; step < file.length; step = step * 3 + 1) {
    const end = Math.min(offset + step, file.length - 1)
    const patch = await openPatch(files, upload, offset, file.length - offset)
    patch.socket.end(file.subarray(offset, end))
    await eventually(() => patch.isClosed, 'an end')
    const next = await offsetOf(files, upload)
    assert.ok(next >= offset && next <= end, `${offset} to ${end}: ${next}`)
    offset = next
  }
  await resumeUpload(files, upload, file)
  assert.equal(sha256(await files.get('crumbled')), sha256(file))
})

test('tus: an upload whose offset equals its length is a file, even if the last answer was lost', async () => {
  const file = randomFile(100_000)
  for (let count = 0; count < 20; count++) {
    const upload = await createUpload(files, `end-${count}`, file.length)
    const patch = await openPatch(files, upload, 0, file.length)
    patch.socket.write(file, () => patch.socket.resetAndDestroy())
    await eventually(() => patch.isClosed, 'an end')
    // A client that reads the full offset sends nothing more.
    while ((await offsetOf(files, upload)) < file.length)
      await patchUpload(
        files,
        upload,
        await offsetOf(files, upload),
        file.subarray(await offsetOf(files, upload)),
      )
    await eventually(async () => (await files.statusOf(`end-${count}`)) === 200, 'a file')
    assert.ok((await files.get(`end-${count}`)).equals(file))
  }
})

test('tus: after a crash between publishing the file and marking the upload finished, the file stays', async () => {
  const file = randomFile(300_000)
  const uploads = await Promise.all(
    ['false', 'true'].map(upsert =>
      createUpload(files, `upsert-${upsert}`, file.length, { 'x-upsert': upsert }),
    ),
  )
  for (const upload of uploads) assert.equal(await patchUpload(files, upload, 0, file), 204)
  await node.restartUnnoted()
  for (const upload of uploads)
    assert.equal(await patchUpload(files, upload, 0, randomFile(file.length)), 409)
  await node.restartUnnoted()
  for (const upload of uploads) {
    const headers = { 'tus-resumable': '1.0.0' }
    assert.equal((await files.fetch('DELETE', `upload/resumable/${upload}`, { headers })).status, 400)
    assert.equal(await offsetOf(files, upload), file.length)
  }
  for (const upsert of ['false', 'true'])
    assert.equal(sha256(await files.get(`upsert-${upsert}`)), sha256(file), `upsert-${upsert}`)
})

test('tus: a crash at upload start releases the reserved quota', async () => {
  const before = await files.usedBytes()
  await node.restartWaiting('storage_uploads', () => createUpload(files, 'begun', 5 * mebibyte))
  assert.equal(await files.usedBytes(), before)
})

test('tus: a PATCH to a full disk fails with a durable offset, and resumes when there is space', async () => {
  const file = randomFile(9 * mebibyte)
  const upload = await createUpload(files, 'full', file.length)
  assert.equal(await patchUpload(files, upload, 0, file.subarray(0, mebibyte)), 204)
  await node.restart({ fileSizeLimit: 3 * mebibyte })
  const status = await patchUpload(files, upload, mebibyte, file.subarray(mebibyte))
  assert.ok(status >= 500, `${status}`)
  const offset = await offsetOf(files, upload)
  assert.ok(offset >= mebibyte && offset <= 3 * mebibyte, `${offset}`)
  await node.restart()
  assert.equal(await offsetOf(files, upload), offset)
  await resumeUpload(files, upload, file)
  assert.equal(sha256(await files.get('full')), sha256(file))
})
