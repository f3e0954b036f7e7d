// Direct uploads with a crash, an aborted connection or a full disk: the old file or the new one is readable, never a part,
// and no reserved quota is left.
import assert from 'node:assert/strict'
import fs from 'node:fs'
import { after, before, test } from 'node:test'
import { eventually } from './eventually.ts'
import { StorageNode, type StoredFiles } from './storage-node.ts'
import { mebibyte, randomFile, sha256 } from './tus-files.ts'

const node = new StorageNode()
before(() => node.start())
after(() => node.remove())

/** Starts an upload and stops when a part of it is on disk. */
async function half(files: StoredFiles, path: string, headers: Record<string, string | number> = {}) {
  // Does not compare bytes, because those of the previous upload may not be removed yet.
  const before = new Set(files.pieces())
  const upload = await files.opened('PUT', `object/files/${path}`, {
    'content-type': 'application/octet-stream',
    'content-length': 40 * mebibyte,
    ...headers,
  })
  upload.socket.write(randomFile(20 * mebibyte))
  await eventually(() => files.pieces().filter(name => !before.has(name)).length > 1, 'a piece on disk')
  return upload
}

/** Only these bytes are counted and stored. */
async function untilClean(files: StoredFiles, bytes: number, pieces: number): Promise<void> {
  await eventually(async () => (await files.usedBytes()) === bytes, `${bytes} bytes counted`)
  await eventually(() => files.pieces().length === pieces, `${pieces} pieces on disk`)
}

test('storage: a crash during uploads leaves no bytes, and the objects to replace are unchanged', async () => {
  const files = await node.createProject()
  const old = randomFile(10 * mebibyte)
  await files.put('old', old)
  const before = await (await files.fetch('GET', 'object/info/files/old')).json()
  await half(files, 'new')
  await half(files, 'old', { 'x-upsert': 'true' })
  const beforeForm = files.bytesOnDisk()
  const form = await files.opened('POST', 'object/files/form', {
    'content-type': 'multipart/form-data; boundary=b',
    'content-length': 40 * mebibyte,
  })
  form.socket.write('--b\r\ncontent-disposition: form-data; name=""; filename="a"\r\n\r\n')
  form.socket.write(randomFile(20 * mebibyte))
  await eventually(() => files.bytesOnDisk() > beforeForm + 8 * mebibyte, 'bytes on disk')
  await node.restartLater()
  for (const path of ['new', 'form']) assert.equal(await files.statusOf(path), 404)
  assert.deepEqual(await files.names(), ['old'])
  assert.ok((await files.get('old')).equals(old))
  assert.deepEqual(await (await files.fetch('GET', 'object/info/files/old')).json(), before)
  await untilClean(files, old.length, 2)
  const fresh = randomFile(9 * mebibyte)
  await files.put('new', fresh)
  assert.ok((await files.get('new')).equals(fresh))
})

test('storage: an aborted upload leaves no bytes', async () => {
  const files = await node.createProject()
  const old = randomFile(1000)
  await files.put('old', old)
  for (const path of ['new', 'old']) {
    const upload = await half(files, path)
    upload.socket.destroy()
  }
  // Without a length only the missing end shows that the body is incomplete.
  const endless = await files.opened('PUT', 'object/files/endless', {
    'content-type': 'application/octet-stream',
    'transfer-encoding': 'chunked',
  })
  endless.socket.write(`${(1000).toString(16)}\r\n${'x'.repeat(1000)}\r\n`)
  endless.socket.end()
  await eventually(() => endless.isClosed, 'an end')
  const form = await files.opened('POST', 'object/files/form', {
    'content-type': 'multipart/form-data; boundary=b',
    'transfer-encoding': 'chunked',
  })
  const part = '--b\r\ncontent-disposition: form-data; name=""; filename="a"\r\n\r\nabc\r\n'
  form.socket.write(`${part.length.toString(16)}\r\n${part}\r\n0\r\n\r\n`)
  await eventually(() => form.answer !== '' || form.isClosed, 'an answer')
  assert.doesNotMatch(form.answer, /^HTTP\/1.1 2/, 'a form without its end is rejected')
  form.socket.destroy()
  await untilClean(files, 1000, 1)
  assert.deepEqual(await files.names(), ['old'])
  assert.ok((await files.get('old')).equals(old))
})

test('storage: after a crash at any time every file is complete and every confirmed upload exists', async () => {
  const files = await node.createProject()
  /** All contents by their hash. */
  const known = new Map<string, number>()
  const answered = new Map<string, number>()
  let generation = 0
  let isOver = false
  const writer = async (path: string) => {
    while (!isOver) {
      const mine = ++generation
      const body = randomFile(mebibyte + mine * 1000)
      known.set(sha256(body), mine)
      await files.put(path, body).then(
        () => answered.set(path, mine),
        () => new Promise(resolve => setTimeout(resolve, 20)),
      )
    }
  }
  const copier = async () => {
    while (!isOver) {
      const body = JSON.stringify({ bucketId: 'files', sourceKey: 'a', destinationKey: 'copy' })
      const headers = { 'content-type': 'application/json', 'x-upsert': 'true' }
      await files
        .fetch('POST', 'object/copy', { body, headers })
        .catch(() => new Promise(resolve => setTimeout(resolve, 20)))
      await files.fetch('DELETE', 'object/files/copy').catch(() => {})
    }
  }
  await files.put('a', Buffer.of(1))
  known.set(sha256(Buffer.of(1)), 0)
  const everybody = [writer('a'), writer('b'), copier()]
  const someUploads = async () => {
    const before = answered.get('a') ?? 0
    await eventually(() => (answered.get('a') ?? 0) > before + 4, 'some uploads')
  }
  try {
    await someUploads()
    await node.restart()
    await someUploads()
    await node.kill()
  } finally {
    isOver = true
  }
  await Promise.all(everybody)
  await node.restartLater()
  let sum = 0
  const names = await files.names()
  for (const name of names) {
    const body = await files.get(name)
    sum += body.length
    const found = known.get(sha256(body))
    assert.ok(found !== undefined, `${name} has content that was never uploaded`)
    assert.ok(found >= (answered.get(name) ?? 0), `${name} is older than the last confirmed upload`)
  }
  assert.ok(sum > mebibyte)
  await untilClean(files, sum, names.length)
})

test('storage: the files of a deleted project are removed from disk, even after a crash during the deletion', async () => {
  const [files, other] = [await node.createProject(), await node.createProject()]
  for (let index = 0; index < 5; index++) await files.put(`${index}`, randomFile(9 * mebibyte))
  await other.put('stays', Buffer.from('here'))
  assert.equal(files.pieces().length, 10)
  assert.equal((await node.manage('DELETE', `/projects/${files.project.id}`)).status, 204)
  await eventually(() => !fs.existsSync(files.folder), 'no folder')
  const killed = await node.createProject()
  for (let index = 0; index < 20; index++) await killed.put(`${index}`, randomFile(1000))
  const deletion = node.manage('DELETE', `/projects/${killed.project.id}`).catch(() => undefined)
  await eventually(() => killed.pieces().length < 20, 'a deletion under way')
  await node.restart()
  await deletion
  await eventually(() => !fs.existsSync(killed.folder), 'no folder')
  assert.equal((await other.get('stays')).toString(), 'here')
})

test('storage: an upload to a full disk fails and leaves no bytes', async () => {
  const files = await node.createProject()
  const old = randomFile(1000)
  await files.put('old', old)
  await node.restart({ fileSizeLimit: 3 * mebibyte })
  for (const path of ['new', 'old']) {
    const reply = await files.fetch('PUT', `object/files/${path}`, { body: Buffer.alloc(5 * mebibyte) })
    assert.ok(reply.status >= 500, `${reply.status}`)
    await reply.body?.cancel()
  }
  await files.put('small', Buffer.from('fits'))
  assert.deepEqual(await files.names(), ['old', 'small'])
  assert.ok((await files.get('old')).equals(old))
  await untilClean(files, 1004, 2)
})
