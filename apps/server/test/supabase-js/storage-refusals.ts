// Errors of the client: status, statusCode, code and message.
import assert from 'node:assert/strict'
import { Readable } from 'node:stream'
import { test } from 'node:test'
import { bytesOf, done, folder, type Stage, statusAndCode } from './storage-stage.ts'

const noSuchKey = [404, 404, 'NoSuchKey']
const noSuchBucket = [404, 404, 'NoSuchBucket']
const denied = [403, 403, 'AccessDenied']
const tooLarge = [413, 413, 'EntityTooLarge']
const megabyte = Buffer.alloc(1024 * 1024)

export function refusalTests(stage: () => Stage): void {
  test('a missing file is 404 for every method', async () => {
    const { files } = stage()
    const path = `${folder()}/none`
    const calls = {
      download: files.download(path),
      info: files.info(path),
      move: files.move(path, `${path}.b`),
      copy: files.copy(path, `${path}.b`),
      sign: files.createSignedUrl(path, 60),
    }
    for (const [what, answer] of Object.entries(calls)) {
      const { data, error } = await answer
      assert.equal(data, null, what)
      assert.deepEqual(statusAndCode(error), noSuchKey, what)
    }
  })

  test('a missing bucket is 404, and an upload by service_role creates it', async () => {
    const { anon, user, service } = stage()
    const bucket = folder()
    for (const caller of [anon, user('11111111-1111-4111-8111-111111111111')]) {
      const { error } = await caller.from(bucket).upload('a', 'x')
      assert.deepEqual(statusAndCode(error), noSuchBucket)
    }
    assert.deepEqual(statusAndCode((await service.getBucket(bucket)).error), noSuchBucket)
    assert.equal((await service.from(bucket).download('a')).error?.message !== undefined, true)
    done(await service.from(bucket).upload('a', 'x'))
    assert.equal(done(await service.getBucket(bucket)).public, false)
  })

  test('an existing name is 409, and the file is unchanged', async () => {
    const { files } = stage()
    const path = `${folder()}/taken`
    done(await files.upload(path, 'first'))
    for (const body of ['second', new Blob(['second']), Readable.from(['second'])]) {
      const { data, error } = await files.upload(path, body)
      assert.equal(data, null)
      assert.deepEqual(statusAndCode(error), [409, 409, 'KeyAlreadyExists'])
    }
    assert.equal(await done(await files.download(path)).text(), 'first')
  })

  test('without a policy a write is 403 and a read is 404', async () => {
    const { anon, user, files, sql } = stage()
    const at = folder()
    done(await files.upload(`${at}/a`, 'x'))
    const caller = user('11111111-1111-4111-8111-111111111111').from('private')
    for (const each of [anon.from('private'), caller]) {
      assert.deepEqual(statusAndCode((await each.upload(`${at}/b`, 'x')).error), denied)
      assert.deepEqual(statusAndCode((await each.upload(`${at}/b`, new Blob(['x']))).error), denied)
      assert.deepEqual(statusAndCode((await each.createSignedUploadUrl(`${at}/b`)).error), denied)
      assert.deepEqual(statusAndCode((await each.download(`${at}/a`)).error), noSuchKey)
      assert.deepEqual(statusAndCode((await each.info(`${at}/a`)).error), noSuchKey)
      assert.deepEqual(statusAndCode((await each.createSignedUrl(`${at}/a`, 60)).error), noSuchKey)
      assert.deepEqual(done(await each.remove([`${at}/a`])), [])
      assert.deepEqual(done(await each.list(at)), [])
    }
    assert.equal(await done(await files.download(`${at}/a`)).text(), 'x', 'the file still exists')
    // Readable, but not writable.
    await sql(`create policy seen_${at} on storage.objects for select to authenticated
      using (bucket_id = 'private' and (storage.foldername(name))[1] = '${at}')`)
    assert.equal(await done(await caller.download(`${at}/a`)).text(), 'x')
    assert.deepEqual(statusAndCode((await caller.update(`${at}/a`, 'mine')).error), denied)
    assert.deepEqual(statusAndCode((await caller.upload(`${at}/a`, 'mine', { upsert: true })).error), denied)
    assert.deepEqual(statusAndCode((await caller.copy(`${at}/a`, `${at}/b`)).error), denied)
    assert.deepEqual(done(await caller.remove([`${at}/a`])), [])
    assert.equal(await done(await files.download(`${at}/a`)).text(), 'x')
  })

  test('the size and type limits of a bucket apply to every body type', async () => {
    const { service } = stage()
    const bucket = folder()
    done(
      await service.createBucket(bucket, {
        public: false,
        fileSizeLimit: '1KB',
        allowedMimeTypes: ['image/*', 'text/csv'],
      }),
    )
    const files = service.from(bucket)
    const png = { contentType: 'image/png' }
    const large = {
      buffer: () => files.upload('a', Buffer.alloc(1001), png),
      blob: () => files.upload('a', new Blob([Buffer.alloc(1001)], { type: 'image/png' })),
      stream: () => files.upload('a', Readable.from([Buffer.alloc(900), Buffer.alloc(900)]), png),
      update: () => files.update('a', Buffer.alloc(1001), png),
    }
    for (const [what, upload] of Object.entries(large))
      assert.deepEqual(statusAndCode((await upload()).error), tooLarge, what)
    const otherType = [415, 415, 'InvalidMimeType']
    assert.deepEqual(statusAndCode((await files.upload('a', 'x')).error), otherType)
    assert.deepEqual(
      statusAndCode((await files.upload('a', new Blob(['x'], { type: 'text/html' }))).error),
      otherType,
    )
    assert.deepEqual(
      statusAndCode((await files.update('a', 'x', { contentType: 'video/png' })).error),
      otherType,
    )
    assert.equal((await files.exists('a')).data, false)
    done(await files.upload('a', Buffer.alloc(1000), png))
    done(await files.upload('b', 'a;b', { contentType: 'text/csv; charset=utf-8' }))
    assert.equal((await bytesOf(done(await files.download('a')))).length, 1000)
  })

  test('an upload of more than 50 MB is 413, with or without Content-Length', async () => {
    const { files } = stage()
    const path = `${folder()}/huge`
    const beforehand = await files.upload(path, Buffer.alloc(50 * 1024 * 1024 + 1))
    assert.deepEqual(statusAndCode(beforehand.error), tooLarge)
    const streamed = await files.upload(path, Readable.from(Array(60).fill(megabyte)))
    // A client that is still writing may get a closed connection instead of the error.
    if (streamed.error?.name !== 'StorageUnknownError')
      assert.deepEqual(statusAndCode(streamed.error), tooLarge)
    assert.equal((await files.exists(path)).data, false)
  })

  test('a name with invalid characters is 400', async () => {
    const { files } = stage()
    const at = folder()
    for (const name of ['Ünicode', 'a|b', 'a[b]', 'a~b', 'a%2500b', 'a\u202eb', '日本'])
      assert.deepEqual(
        statusAndCode((await files.upload(`${at}/${name}`, 'x')).error),
        [400, 400, 'InvalidKey'],
        name,
      )
    assert.deepEqual(done(await files.list(at)), [])
  })

  test('an unknown key and an invalid token are 401', async () => {
    const { as, project } = stage()
    for (const client of [
      as('platform_anon_gallery_0000'),
      as(project.anon_key, 'eyJhbGciOiJIUzI1NiJ9.e30.AAAA'),
    ]) {
      const { error } = await client.from('private').upload('a', 'x')
      assert.deepEqual(statusAndCode(error).slice(0, 2), [401, 401])
      assert.deepEqual(statusAndCode((await client.listBuckets()).error).slice(0, 2), [401, 401])
    }
  })
}
