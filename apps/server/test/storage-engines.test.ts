// The storage service on both object stores: same answers, and no bytes left after removal.
import assert from 'node:assert/strict'
import { createHash, randomBytes } from 'node:crypto'
import { after, before, describe, test } from 'node:test'
import { openPieces } from '#src/kernel/objects/open-pieces.ts'
import type { Pieces } from '#src/kernel/objects/pieces.ts'
import { startPlatform, type TestPlatform } from './harness.ts'
import { lastRows } from './last-rows.ts'
import { startS3 } from './s3-server.ts'

const bytes = randomBytes(9 * 1024 * 1024 + 123)
const other = randomBytes(100_000)
const hash = (content: Buffer) => createHash('sha256').update(content).digest('hex')

interface Place {
  settings: Record<string, string>
  stop(): Promise<void>
}
const engines: Record<string, () => Promise<Place>> = {
  'a directory': async () => ({ settings: {}, stop: async () => {} }),
  S3: async () => {
    const { settings, stop } = await startS3()
    return {
      settings: {
        S3_ENDPOINT: settings.endpoint!,
        S3_BUCKET: settings.bucket,
        S3_ACCESS_KEY_ID: settings.accessKeyId,
        S3_SECRET_ACCESS_KEY: settings.secretAccessKey,
      },
      stop,
    }
  },
}

for (const [engine, start] of Object.entries(engines))
  describe(`files in ${engine}`, () => {
    let place: Place
    let platform: TestPlatform
    let pieces: Pieces
    let project: Awaited<ReturnType<TestPlatform['createProject']>>
    before(async () => {
      place = await start()
      platform = await startPlatform({ settings: place.settings })
      pieces = await openPieces(platform.config)
      project = await platform.createProject()
    })
    after(async () => {
      await pieces.close()
      await platform.stop()
      await place.stop()
    })

    const ask = (method: string, path: string, body?: Buffer, headers: Record<string, string> = {}) =>
      fetch(new URL(path, `${platform.url}/v1/storage/${project.id}/`), {
        method,
        headers: { apikey: project.service_role_key, ...headers },
        ...(body && { body }),
      })
    const put = async (path: string, content: Buffer) =>
      assert.equal((await ask('PUT', `object/files/${path}`, content)).status, 200)
    async function get(path: string, range?: string): Promise<Buffer> {
      const reply = await ask('GET', `object/files/${path}`, undefined, range ? { range } : {})
      assert.ok(reply.ok, `${reply.status}`)
      return Buffer.from(await reply.arrayBuffer())
    }
    async function storedNames(): Promise<string[]> {
      const names: string[] = []
      for await (const { name } of pieces.list(project.id)) names.push(name)
      return names
    }

    test('storage: an object can be read fully and by range, and an overwrite leaves one version', async () => {
      await put('a', other)
      await put('a', bytes)
      assert.equal(hash(await get('a')), hash(bytes))
      const [from, to] = [8 * 1024 * 1024 - 10, 8 * 1024 * 1024 + 70_000]
      assert.equal(hash(await get('a', `bytes=${from}-${to}`)), hash(bytes.subarray(from, to + 1)))
      assert.equal((await storedNames()).length, 2, 'one version of two pieces is stored')
    })

    test('storage: a resumable upload in parts of any size gives the original file', async () => {
      const tus = { 'tus-resumable': '1.0.0' }
      const encode = (text: string) => Buffer.from(text).toString('base64')
      const created = await ask('POST', 'upload/resumable', undefined, {
        ...tus,
        'upload-length': `${bytes.length}`,
        'upload-metadata': `bucketName ${encode('files')},objectName ${encode('tus')}`,
      })
      assert.equal(created.status, 201)
      const location = created.headers.get('location')!
      for (let at = 0, part = 1; at < bytes.length; at += part, part = 2_500_001) {
        const reply = await ask('PATCH', location, bytes.subarray(at, at + part), {
          ...tus,
          'upload-offset': `${at}`,
          'content-type': 'application/offset+octet-stream',
        })
        assert.equal(reply.status, 204)
      }
      assert.equal(hash(await get('tus')), hash(bytes))
    })

    test('storage: copy, move and delete leave no bytes', async () => {
      const json = { 'content-type': 'application/json' }
      const carry = (how: string, sourceKey: string, destinationKey: string) =>
        ask(
          'POST',
          `object/${how}`,
          Buffer.from(JSON.stringify({ bucketId: 'files', sourceKey, destinationKey })),
          json,
        )
      assert.equal((await carry('copy', 'a', 'b')).status, 200)
      assert.equal((await carry('move', 'b', 'c')).status, 200)
      assert.equal(hash(await get('c')), hash(bytes))
      const gone = Buffer.from(JSON.stringify({ prefixes: ['a', 'c', 'tus'] }))
      assert.equal((await ask('DELETE', 'object/files', gone, json)).status, 200)
      assert.deepEqual(await storedNames(), [])
      const { storage_bytes } = await platform.projects.read({ params: { id: project.id } })
      assert.equal(storage_bytes, 0)
    })

    test('storage: deleting a project removes its files and its key', async () => {
      await put('last', bytes)
      await platform.projects.remove({ params: { id: project.id } })
      assert.deepEqual(await storedNames(), [])
      const kept = await platform.asSuperuser(platform.control, session =>
        lastRows(session, 'select count(*) from public.storage_areas'),
      )
      assert.deepEqual(kept, [['0']])
    })
  })
