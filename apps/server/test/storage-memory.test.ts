// A large file is streamed through the platform. bench/storage-memory.ts uses one of 2 GB.
import assert from 'node:assert/strict'
import { createHash, randomBytes } from 'node:crypto'
import { after, before, test } from 'node:test'
import { StorageNode } from './storage-node.ts'
import { chunkSize, mebibyte } from './tus-files.ts'
import { createUpload, patchUpload } from './tus-requests.ts'

const chunks = 43
const size = chunks * chunkSize

const node = new StorageNode()
before(() => node.start())
after(() => node.remove())

/** The peak memory during the transfer. */
async function peakDuring(work: () => Promise<void>): Promise<number> {
  let peak = 0
  const look = () => {
    peak = Math.max(peak, node.residentBytes())
  }
  const watch = setInterval(look, 50)
  try {
    await work()
    look()
    return peak
  } finally {
    clearInterval(watch)
  }
}

test('storage: memory grows by less than 60 MB while 258 MB are uploaded resumably and downloaded', async () => {
  const files = await node.createProject()
  await files.put('short', Buffer.alloc(1000))
  await files.get('short')
  const idle = node.residentBytes()

  const sent = createHash('sha256')
  const up = await peakDuring(async () => {
    const upload = await createUpload(files, 'long', size)
    const chunk = randomBytes(chunkSize)
    for (let index = 0; index < chunks; index++) {
      chunk.writeUInt32LE(index)
      sent.update(chunk)
      assert.equal(await patchUpload(files, upload, index * chunkSize, chunk), 204)
    }
  })
  const came = createHash('sha256')
  const down = await peakDuring(async () => {
    const reply = await files.fetch('GET', 'object/files/long')
    assert.equal(reply.status, 200)
    for await (const part of reply.body!) came.update(part)
  })
  assert.equal(came.digest('hex'), sent.digest('hex'))
  for (const [way, peak] of Object.entries({ up, down })) {
    const grown = Math.round((peak - idle) / mebibyte)
    assert.ok(grown < 60, `${way}: ${grown} MB over ${Math.round(idle / mebibyte)} MB`)
  }
})
