// Resumable uploads that clients get wrong: at once, at the wrong place, beyond the end, or never finished (case 31).
import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { answeredStatus, StorageNode, type StoredFiles, until } from './storage-node.ts'
import { mebibyte, randomFile, sha256 } from './tus-files.ts'
import { created, looked, metadataOf, offsetOf, patched, patching, resumed } from './tus-requests.ts'

const node = new StorageNode()
let files: StoredFiles
before(async () => {
  await node.start()
  files = await node.createProject()
})
after(() => node.remove())

const version = { 'tus-resumable': '1.0.0' }

test('while one PATCH writes, another is 423, and the file is the first one’s', async () => {
  const file = randomFile(10 * mebibyte)
  const upload = await created(files, 'parallel', file.length)
  const before = files.bytesOnDisk()
  const first = await patching(files, upload, 0, file.length)
  first.socket.write(file.subarray(0, 9 * mebibyte))
  await until(() => files.bytesOnDisk() > before + mebibyte, 'bytes on disk')
  const other = randomFile(file.length)
  assert.equal(await patched(files, upload, 0, other), 423)
  assert.equal(await patched(files, upload, 0, other.subarray(0, 10)), 423)
  first.socket.write(file.subarray(9 * mebibyte))
  await until(() => first.answer !== '', 'an answer')
  assert.equal(answeredStatus(first), 204, first.answer)
  first.socket.destroy()
  assert.equal(sha256(await files.get('parallel')), sha256(file))
})

test('of many PATCHes at once one is taken, and the file is what was sent', async () => {
  const file = randomFile(3 * mebibyte)
  const upload = await created(files, 'crowd', file.length)
  for (let offset = 0; offset < file.length; offset += mebibyte) {
    const chunk = file.subarray(offset, offset + mebibyte)
    const statuses = await Promise.all(Array.from({ length: 8 }, () => patched(files, upload, offset, chunk)))
    // Late ones find it written already, or the upload over.
    for (const status of statuses)
      assert.ok([204, 423, 409, 403, 404, 410].includes(status), String(statuses))
    assert.equal(statuses.filter(status => status === 204).length, 1, String(statuses))
  }
  assert.equal(sha256(await files.get('crowd')), sha256(file))
})

test('a PATCH at another place than the end is 409, and changes nothing', async () => {
  const file = randomFile(3000)
  const upload = await created(files, 'offset', file.length)
  assert.equal(await patched(files, upload, 0, file.subarray(0, 1000)), 204)
  for (const wrong of [0, 999, 1001, 3000, 99_999])
    assert.equal(await patched(files, upload, wrong, file.subarray(0, 100)), 409, `${wrong}`)
  for (const none of ['', '-1', '1e3', '0x3e8', '1000.0']) {
    const status = await patched(files, upload, 0, file.subarray(0, 100), { 'upload-offset': none })
    assert.ok([400, 409].includes(status), `${none}: ${status}`)
  }
  assert.equal(await offsetOf(files, upload), 1000)
  await resumed(files, upload, file)
  assert.equal(sha256(await files.get('offset')), sha256(file))
})

test('a PATCH beyond the length is refused, told beforehand or not, and the file stays as long as it was to be', async () => {
  const file = randomFile(100_000)
  const upload = await created(files, 'beyond', file.length)
  const told = await patched(files, upload, 0, Buffer.concat([file, Buffer.from('more')]))
  assert.ok([400, 413].includes(told), `${told}`)
  assert.equal(await files.statusOf('beyond'), 404)
  assert.equal(await offsetOf(files, upload), 0)
  const untold = await patching(files, upload, 0, undefined)
  const body = Buffer.concat([file, Buffer.alloc(200_000)])
  untold.socket.write(`${body.length.toString(16)}\r\n`)
  untold.socket.write(body)
  untold.socket.write('\r\n0\r\n\r\n')
  await until(() => untold.answer !== '' || untold.isClosed, 'an answer')
  assert.doesNotMatch(untold.answer, /^HTTP\/1.1 2/)
  untold.socket.destroy()
  assert.equal(await files.statusOf('beyond'), 404)
  assert.ok((await offsetOf(files, upload)) <= file.length)
  // What was taken of it was the beginning: the rest, or nothing more, completes it.
  await resumed(files, upload, file)
  assert.equal(sha256(await files.get('beyond')), sha256(file))
})

test('a length that lies changes nothing: more is refused, less is never a file', async () => {
  const file = randomFile(2000)
  const short = await created(files, 'short', 1000)
  assert.equal(await patched(files, short, 0, file.subarray(0, 1000)), 204)
  const more = await patched(files, short, 1000, file.subarray(1000))
  assert.ok(more >= 400 && more < 500, `${more}`)
  assert.ok((await files.get('short')).equals(file.subarray(0, 1000)))
  const long = await created(files, 'long', 1_000_000)
  assert.equal(await patched(files, long, 0, file), 204)
  assert.equal(await files.statusOf('long'), 404)
  // A later word on the length does not make it shorter.
  const changed = await patched(files, long, 2000, Buffer.of(1), { 'upload-length': '2001' })
  assert.ok([204, 400].includes(changed), `${changed}`)
  assert.equal(await files.statusOf('long'), 404)
  // What follows a body that is longer than it says is no HTTP, and no part of the file.
  const lying = await created(files, 'lying', 100)
  const patch = await patching(files, lying, 0, 100)
  patch.socket.end(file.subarray(0, 300))
  await until(() => patch.isClosed, 'an end')
  // Whether what has come before the end was enough is found out after it.
  await until(async () => {
    const offset = await offsetOf(files, lying)
    if (offset < 100) await patched(files, lying, offset, file.subarray(offset, 100))
    return (await files.statusOf('lying')) === 200
  }, 'a file')
  assert.ok((await files.get('lying')).equals(file.subarray(0, 100)))
})

test('creations and PATCHes that are not TUS are refused', async () => {
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
  const upload = await created(files, 'never', 10)
  const chunk = Buffer.alloc(10)
  assert.equal(await patched(files, upload, 0, chunk, { 'content-type': 'application/octet-stream' }), 415)
  assert.equal(await patched(files, upload, 0, chunk, { 'tus-resumable': '0.2.2' }), 412)
  const nowhere = crypto.randomUUID()
  assert.equal(await patched(files, nowhere, 0, chunk), 404)
  assert.equal((await looked(files, nowhere)).status, 404)
  const other = await node.createProject()
  assert.equal(await patched(other, upload, 0, chunk), 404, 'another project’s')
  assert.equal(await files.statusOf('never'), 404)
})

test('what is begun counts against the quota, and what is given up does not', async () => {
  const here = await node.createProject({ max_storage_size_mb: 4 })
  const file = randomFile(3 * mebibyte)
  const upload = await created(here, 'a', file.length)
  assert.equal(await patched(here, upload, 0, file.subarray(0, mebibyte)), 204)
  const second = await here.fetch('POST', 'upload/resumable', {
    headers: { ...version, 'upload-length': `${file.length}`, 'upload-metadata': metadataOf('b') },
  })
  assert.equal(second.status, 413)
  assert.partialDeepStrictEqual(await second.json(), { error: 'storage_quota_exceeded', bucket: 'files' })
  const reply = await here.fetch('DELETE', `upload/resumable/${upload}`, { headers: version })
  assert.equal(reply.status, 204)
  await until(async () => (await here.usedBytes()) === 0, 'no bytes counted')
  await until(() => here.pieces().length === 0, 'no pieces')
  const again = await created(here, 'b', file.length)
  await resumed(here, again, file)
  assert.equal(sha256(await here.get('b')), sha256(file))
  assert.equal(await here.usedBytes(), file.length)
})

test('an upload that is never finished stops counting a day later, and its bytes go', async () => {
  const here = await node.createProject({ max_storage_size_mb: 20 })
  const kept = randomFile(1000)
  await here.put('kept', kept)
  const file = randomFile(9 * mebibyte)
  const upload = await created(here, 'abandoned', file.length)
  assert.equal(await patched(here, upload, 0, file.subarray(0, 8 * mebibyte + 1)), 204)
  const late = await created(here, 'late', undefined)
  assert.equal(await patched(here, late, 0, file.subarray(0, 5000)), 204)
  assert.ok((await here.usedBytes()) > 8 * mebibyte)
  await node.restartLater()
  for (const each of [upload, late]) {
    const gone = await looked(here, each)
    assert.ok([404, 410].includes(gone.status), `${gone.status}`)
    const status = await patched(here, each, 5000, file.subarray(0, 10))
    assert.ok([404, 410].includes(status), `${status}`)
  }
  await until(async () => (await here.usedBytes()) === kept.length, 'what is kept counted alone')
  await until(() => here.pieces().length === 1, 'its piece on disk alone')
  assert.ok((await here.get('kept')).equals(kept))
})
