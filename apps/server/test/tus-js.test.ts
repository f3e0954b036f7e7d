// The unmodified tus-js-client against the running server.
import assert from 'node:assert/strict'
import fs from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Readable } from 'node:stream'
import { after, before, test } from 'node:test'
import * as tus from 'tus-js-client'
import { startPlatform, type TestPlatform } from './harness.ts'
import {
  chunkSize,
  mebibyte,
  randomFile,
  rejectionOf,
  type Sending,
  sha256,
  type TusProject,
  tusProject,
} from './tus-files.ts'

let platform: TestPlatform
let files: TusProject
const scratch = fs.mkdtempSync(join(tmpdir(), 'plinth-tus-'))

before(async () => {
  platform = await startPlatform({ settings: { PLATFORM_RATE_LIMIT_SERVICE_ROLE: '0' } })
  const project = await platform.createProject()
  files = tusProject(project, `${platform.url}/v1/${project.id}/storage/v1`)
  const made = await platform.call('POST', `/v1/storage/${project.id}/bucket`, {
    apikey: project.service_role_key,
    body: { id: 'files' },
  })
  assert.equal(made.status, 200)
})
after(async () => {
  fs.rmSync(scratch, { recursive: true, force: true })
  await platform?.stop()
})

/** Stores upload URLs in a file. The types of the client do not contain this class. */
const addressesIn = (name: string): tus.UrlStorage =>
  new (Reflect.get(tus, 'FileUrlStorage'))(join(scratch, name))

const infoOf = async (path: string) =>
  (await (await files.fetch('GET', `object/info/files/${path}`)).json()) as Record<string, unknown>

test('tus: a file in chunks of 6 MiB becomes visible with the last chunk, in both URL shapes', async () => {
  for (const base of [`/v1/${files.id}/storage/v1`, `/v1/storage/${files.id}`]) {
    const here = tusProject(files, platform.url + base)
    const name = `chunked${base.length}`
    const file = randomFile(2 * chunkSize + 12_345)
    const visible: number[] = []
    const sent = await here.send(file, name, {
      metadata: { contentType: 'video/mp4', cacheControl: '60' },
      onBeforeRequest: async () => {
        visible.push((await here.fetch('HEAD', `object/files/${name}`)).status)
      },
    })
    assert.deepEqual(sent.requests, ['POST 201', 'PATCH 204', 'PATCH 204', 'PATCH 204'])
    assert.deepEqual(visible, [404, 404, 404, 404])
    assert.ok(sent.upload.url!.startsWith(`${here.base}/upload/resumable/`), sent.upload.url!)
    const { headers } = await sent.over
    assert.equal(headers('tus-complete'), '1')
    assert.equal(await here.hashOf(name), sha256(file))
    const info = await infoOf(name)
    assert.deepEqual(
      [info['size'], info['content_type'], info['cache_control']],
      [file.length, 'video/mp4', 'max-age=60'],
    )
  }
})

test('tus: a file over the limit of direct uploads is uploaded in one PATCH', async () => {
  const file = randomFile(52 * mebibyte + 1)
  const sent = await files.send(file, 'one-patch', { chunkSize: Number.POSITIVE_INFINITY })
  assert.deepEqual(sent.requests, ['POST 201', 'PATCH 204'])
  assert.equal(await files.hashOf('one-patch'), sha256(file))
})

test('tus: the creation can contain the first chunk or the whole file', async () => {
  const small = randomFile(1000)
  const whole = await files.send(small, 'small', { uploadDataDuringCreation: true })
  assert.deepEqual(whole.requests, ['POST 201'])
  assert.equal(await files.hashOf('small'), sha256(small))
  const file = randomFile(2 * mebibyte + 7)
  const first = await files.send(file, 'creation', { uploadDataDuringCreation: true, chunkSize: mebibyte })
  assert.deepEqual(first.requests, ['POST 201', 'PATCH 204', 'PATCH 204'])
  assert.equal(await files.hashOf('creation'), sha256(file))
})

test('tus: the creation alone creates an empty file', async () => {
  const { requests } = await files.send(Buffer.of(), 'empty')
  assert.deepEqual(requests, ['POST 201'])
  assert.equal((await infoOf('empty'))['size'], 0)
  assert.equal(await files.hashOf('empty'), sha256(Buffer.of()))
})

test('tus: a stream can declare its length at the end', async () => {
  const file = randomFile(3 * mebibyte + 5)
  const stream = Readable.from(
    [file.subarray(0, 100), file.subarray(100, 2_000_000), file.subarray(2_000_000)],
    {
      objectMode: false,
    },
  )
  const sent = await files.send(stream as unknown as Buffer, 'deferred', {
    uploadLengthDeferred: true,
    chunkSize: mebibyte,
  })
  assert.equal(sent.requests[0], 'POST 201')
  assert.ok(sent.requests.length >= 5, String(sent.requests))
  assert.equal(await files.hashOf('deferred'), sha256(file))
})

test('tus: a file on disk is uploaded in chunks', async () => {
  const file = randomFile(chunkSize + 99)
  const path = join(scratch, 'source')
  fs.writeFileSync(path, file)
  const source = fs.createReadStream(path) as unknown as Buffer
  const { requests } = await files.send(source, 'from-disk')
  assert.deepEqual(requests, ['POST 201', 'PATCH 204', 'PATCH 204'])
  assert.equal(await files.hashOf('from-disk'), sha256(file))
})

/** Aborts an upload after this number of chunks, like a closed tab. */
async function abandoned(file: Buffer, name: string, chunks: number, options: Partial<tus.UploadOptions>) {
  const { promise, resolve } = Promise.withResolvers<void>()
  let taken = 0
  const begun: Sending = files.sending(file, name, {
    chunkSize: mebibyte,
    ...options,
    onChunkComplete: () => {
      if (++taken === chunks) void begun.upload.abort().then(resolve)
    },
  })
  begun.upload.start()
  await Promise.race([promise, begun.over])
  return begun
}

test('tus: another client resumes an upload by its URL', async () => {
  const file = randomFile(5 * mebibyte + 1)
  const urlStorage = addressesIn('addresses')
  const first = await abandoned(file, 'resumed', 2, { urlStorage })
  assert.deepEqual(first.requests, ['POST 201', 'PATCH 204', 'PATCH 204'])
  const second = files.sending(file, 'resumed', { urlStorage, chunkSize: mebibyte })
  const [previous] = await second.upload.findPreviousUploads()
  assert.equal(previous?.uploadUrl, first.upload.url)
  second.upload.resumeFromPreviousUpload(previous!)
  second.upload.start()
  await second.over
  assert.deepEqual(second.requests, ['HEAD 200', ...Array(4).fill('PATCH 204')])
  assert.equal(await files.hashOf('resumed'), sha256(file))
  // A finished upload needs only a HEAD.
  const third = files.sending(file, 'resumed', { uploadUrl: first.upload.url })
  third.upload.start()
  await third.over
  assert.deepEqual(third.requests, ['HEAD 200'])
})

test('tus: after a lost connection the client resends from the offset', async () => {
  const file = randomFile(3 * chunkSize)
  let request: tus.HttpRequest | undefined
  let cuts = 0
  const sent = await files.send(file, 'broken', {
    retryDelays: [0, 50, 100, 500, 1000],
    onBeforeRequest: next => {
      request = next
    },
    onProgress: bytes => {
      if (bytes <= chunkSize || bytes === 2 * chunkSize || cuts > 0) return
      cuts++
      request!.getUnderlyingObject().destroy()
    },
  })
  assert.equal(cuts, 1)
  assert.ok(sent.requests.includes('HEAD 200'), String(sent.requests))
  assert.equal(await files.hashOf('broken'), sha256(file))
})

test('tus: an unfinished upload can be deleted, and a finished one cannot', async () => {
  const file = randomFile(3 * mebibyte)
  const begun = await abandoned(file, 'given-up', 1, {})
  const url = begun.upload.url!
  await begun.upload.abort(true)
  const headers = { apikey: files.service_role_key, 'tus-resumable': '1.0.0' }
  const gone = await fetch(url, { method: 'HEAD', headers })
  assert.ok([404, 410].includes(gone.status), `${gone.status}`)
  assert.equal((await files.fetch('HEAD', 'object/files/given-up')).status, 404)
  const again = await rejectionOf(tus.Upload.terminate(url, { headers }))
  assert.ok([404, 410].includes(again[0]!), `${again}`)
  const { upload } = await files.send(file, 'kept')
  const [status] = await rejectionOf(tus.Upload.terminate(upload.url!, { headers }))
  assert.ok([400, 404, 410].includes(status!), `${status}`)
  assert.equal(await files.hashOf('kept'), sha256(file))
})

test('tus: concurrent uploads give the original files', async () => {
  const sources = Array.from({ length: 8 }, (_, index) => randomFile(mebibyte + index * 70_001))
  await Promise.all(
    sources.map((file, index) => files.send(file, `many/${index}`, { chunkSize: 300_000 + index * 1000 })),
  )
  for (const [index, file] of sources.entries())
    assert.equal(await files.hashOf(`many/${index}`), sha256(file), `file ${index}`)
})

test('tus: hundreds of small chunks of different sizes give one file', async () => {
  const file = randomFile(299 * 1021 + 17)
  const { requests } = await files.send(file, 'crumbs', { chunkSize: 1021 })
  assert.equal(requests.length, 301)
  assert.equal(await files.hashOf('crumbs'), sha256(file))
})

test('tus: a POST with X-HTTP-Method-Override PATCH works', async () => {
  const file = randomFile(2 * mebibyte)
  const sent = await files.send(file, 'overridden', { overridePatchMethod: true, chunkSize: mebibyte })
  assert.deepEqual(sent.requests, ['POST 201', 'POST 204', 'POST 204'])
  assert.equal(await files.hashOf('overridden'), sha256(file))
})

test('tus: an existing name is rejected at creation, unless x-upsert is set', async () => {
  const service = { apikey: files.service_role_key }
  const [old, fresh] = [randomFile(1000), randomFile(2000)]
  await files.send(old, 'taken', { metadata: { metadata: '{"v":1}' } })
  const { id } = await infoOf('taken')
  const [status] = await rejectionOf(files.send(fresh, 'taken'))
  assert.equal(status, 409)
  assert.equal(await files.hashOf('taken'), sha256(old))
  await files.send(fresh, 'taken', { headers: { ...service, 'x-upsert': 'true' } })
  assert.equal(await files.hashOf('taken'), sha256(fresh))
  const after = await infoOf('taken')
  assert.deepEqual([after['id'], after['metadata']], [id, {}])
})

test('tus: user metadata, content type and cache control are stored', async () => {
  const metadata = { title: 'Grüße 🌍', nested: { list: [1, null] } }
  await files.send(randomFile(10), 'described', {
    metadata: { metadata: JSON.stringify(metadata), contentType: 'audio/ogg', cacheControl: '31' },
  })
  const info = await infoOf('described')
  assert.deepEqual(
    [info['metadata'], info['content_type'], info['cache_control']],
    [metadata, 'audio/ogg', 'max-age=31'],
  )
  await files.send(randomFile(10), 'bare')
  assert.equal((await infoOf('bare'))['cache_control'], 'no-cache')
})
