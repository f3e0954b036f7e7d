// Reading, inspecting, moving, copying and removing files.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { StorageApiError } from '@supabase/supabase-js'
import { bytesOf, done, folder, type Stage, statusAndCode } from './storage-stage.ts'

const noSuchKey = [404, 404, 'NoSuchKey']
const taken = [409, 409, 'KeyAlreadyExists']

export function objectTests(stage: () => Stage): void {
  test('update replaces a file, or creates it', async () => {
    const { files } = stage()
    const path = `${folder()}/updated`
    const made = done(await files.update(path, 'made', { contentType: 'text/csv' }))
    assert.deepEqual([made.path, made.fullPath], [path, `private/${path}`])
    const replaced = done(
      await files.update(path, new Blob(['{}'], { type: 'application/json' }), {
        cacheControl: '10',
        metadata: { v: 2 },
      }),
    )
    assert.equal(replaced.id, made.id)
    const { size, contentType, cacheControl, metadata } = done(await files.info(path))
    assert.deepEqual(
      [size, contentType, cacheControl, metadata],
      [2, 'application/json', 'max-age=10', { v: 2 }],
    )
  })

  test('download returns a Blob or a stream, and can be chained like a promise', async () => {
    const { files } = stage()
    const path = `${folder()}/a.png`
    done(await files.upload(path, Buffer.from([1, 2, 3]), { contentType: 'image/png' }))
    const blob = done(await files.download(path))
    assert.deepEqual([blob.size, blob.type], [3, 'image/png'])
    assert.deepEqual([...(await bytesOf(blob))], [1, 2, 3])
    const stream = done(await files.download(path, { cacheNonce: 'n' }).asStream())
    assert.ok(stream instanceof ReadableStream)
    assert.deepEqual([...(await bytesOf(await new Response(stream).blob()))], [1, 2, 3])
    let wasFinal = false
    const chained = await files
      .download(path)
      .finally(() => {
        wasFinal = true
      })
      .then(({ data }) => data?.size)
    assert.deepEqual([chained, wasFinal], [3, true])
    const caught = await files.download(path).catch(() => assert.fail('nothing to catch'))
    assert.equal(caught.error, null)
    const missing = await files.download(`${path}.gone`).asStream()
    assert.deepEqual(statusAndCode(missing.error), noSuchKey)
  })

  test('an aborted download is an error, and the next one works', async () => {
    const { files } = stage()
    const path = `${folder()}/large`
    done(await files.upload(path, Buffer.alloc(3_000_000, 7)))
    const aborted = await files.download(path, {}, { signal: AbortSignal.abort() })
    assert.equal(aborted.error?.name, 'StorageUnknownError')
    assert.equal(done(await files.download(path)).size, 3_000_000)
  })

  test('info returns all properties of a file', async () => {
    const { files } = stage()
    const path = `${folder()}/known.json`
    const started = Date.now()
    const made = done(
      await files.upload(path, '{}', { contentType: 'application/json', metadata: { k: 'v' } }),
    )
    const info = done(await files.info(path))
    const { createdAt, lastModified, etag, version, ...rest } = info
    assert.partialDeepStrictEqual(rest, {
      id: made.id,
      name: path,
      bucketId: 'private',
      size: 2,
      contentType: 'application/json',
      cacheControl: 'max-age=3600',
      metadata: { k: 'v' },
    })
    for (const time of [createdAt, lastModified])
      assert.ok(Math.abs(Date.parse(time!) - started) < 60_000, `${time}`)
    assert.match(etag!, /^".+"$/)
    assert.ok(version.length > 0)
  })

  test('exists returns true, or false for a missing or hidden file', async () => {
    const { files, anon, as, fetch } = stage()
    const path = `${folder()}/there`
    done(await files.upload(path, 'x'))
    assert.deepEqual(await files.exists(path), { data: true, error: null })
    const missing = await files.exists(`${path}.not`)
    assert.equal(missing.data, false)
    assert.deepEqual(statusAndCode(missing.error), noSuchKey)
    assert.equal((await anon.from('private').exists(path)).data, false, 'a hidden file counts as missing')
    // With an invalid key it throws.
    await assert.rejects(as('platform_anon_gallery_0000').from('private').exists(path), StorageApiError)
    // The request of clients up to 2.109.
    assert.equal((await fetch('HEAD', `object/private/${path}`)).status, 200)
    assert.equal((await fetch('HEAD', `object/private/${path}.not`)).status, 404)
  })

  test('move keeps id, type and metadata of a file, also to another bucket', async () => {
    const { files, shown } = stage()
    const at = folder()
    const made = done(await files.upload(`${at}/a`, 'moved', { contentType: 'text/csv', metadata: { m: 1 } }))
    assert.equal(typeof done(await files.move(`${at}/a`, `${at}/deep/b`)).message, 'string')
    assert.deepEqual(statusAndCode((await files.download(`${at}/a`)).error), noSuchKey)
    const moved = done(await files.info(`${at}/deep/b`))
    assert.deepEqual([moved.id, moved.contentType, moved.metadata], [made.id, 'text/csv', { m: 1 }])
    done(await files.move(`${at}/deep/b`, `${at}/c`, { destinationBucket: 'shown' }))
    assert.deepEqual(statusAndCode((await files.download(`${at}/deep/b`)).error), noSuchKey)
    assert.equal(await done(await shown.download(`${at}/c`)).text(), 'moved')
    done(await files.upload(`${at}/other`, 'stays'))
    const onto = await files.move(`${at}/other`, `${at}/c`, { destinationBucket: 'shown' })
    assert.deepEqual(statusAndCode(onto.error), taken)
    assert.equal(await done(await shown.download(`${at}/c`)).text(), 'moved')
    assert.equal(await done(await files.download(`${at}/other`)).text(), 'stays')
    assert.deepEqual(statusAndCode((await files.move(`${at}/none`, `${at}/z`)).error), noSuchKey)
  })

  test('copy keeps the source, and copies or replaces the metadata', async () => {
    const { files, shown } = stage()
    const at = folder()
    const made = done(
      await files.upload(`${at}/a`, 'copied', {
        contentType: 'text/csv',
        cacheControl: '5',
        metadata: { m: 1 },
      }),
    )
    assert.equal(done(await files.copy(`${at}/a`, `${at}/b`)).path, `private/${at}/b`)
    const across = await files.copy(`${at}/a`, `${at}/b`, { destinationBucket: 'shown' })
    assert.equal(done(across).path, `shown/${at}/b`)
    for (const each of [files, shown]) {
      const { id, contentType, cacheControl, metadata } = done(await each.info(`${at}/b`))
      assert.notEqual(id, made.id)
      assert.deepEqual([contentType, cacheControl, metadata], ['text/csv', 'max-age=5', { m: 1 }])
      assert.equal(await done(await each.download(`${at}/b`)).text(), 'copied')
    }
    done(
      await files.copy(`${at}/a`, `${at}/c`, {
        copyMetadata: false,
        metadata: { cacheControl: 'max-age=99', mimetype: 'text/tab-separated-values' },
      }),
    )
    const bare = done(await files.info(`${at}/c`))
    assert.deepEqual(
      [bare.contentType, bare.cacheControl, bare.metadata],
      ['text/tab-separated-values', 'max-age=99', {}],
    )
    // The copy does not depend on the source.
    done(await files.remove([`${at}/a`]))
    assert.equal(await done(await files.download(`${at}/b`)).text(), 'copied')
    assert.deepEqual(statusAndCode((await files.copy(`${at}/a`, `${at}/d`)).error), noSuchKey)
  })

  test('copy replaces an existing file only with the x-upsert header', async () => {
    const { files, service } = stage()
    const at = folder()
    done(await files.upload(`${at}/new`, 'new'))
    const old = done(await files.upload(`${at}/old`, 'old'))
    assert.deepEqual(statusAndCode((await files.copy(`${at}/new`, `${at}/old`)).error), taken)
    assert.equal(await done(await files.download(`${at}/old`)).text(), 'old')
    const upserting = service.from('private').setHeader('x-upsert', 'true')
    done(await upserting.copy(`${at}/new`, `${at}/old`))
    assert.equal(await done(await files.download(`${at}/old`)).text(), 'new')
    assert.equal(done(await files.info(`${at}/old`)).id, old.id)
  })

  test('remove returns the removed files and ignores missing ones', async () => {
    const { files } = stage()
    const at = folder()
    const made = done(await files.upload(`${at}/a`, 'x', { contentType: 'text/csv' }))
    done(await files.upload(`${at}/a/b`, 'x'))
    const gone = done(await files.remove([`${at}/a`, `${at}/none`]))
    assert.equal(gone.length, 1)
    assert.partialDeepStrictEqual(gone[0], { id: made.id, name: `${at}/a`, bucket_id: 'private' })
    assert.equal(gone[0]!.metadata?.mimetype, 'text/csv')
    assert.deepEqual(statusAndCode((await files.download(`${at}/a`)).error), noSuchKey)
    assert.equal((await files.exists(`${at}/a/b`)).data, true, 'names are not prefixes')
    assert.deepEqual(done(await files.remove([`${at}/a`])), [])
    const many = Array.from({ length: 30 }, (_, index) => `${at}/many/${index}`)
    await Promise.all(many.map(path => files.upload(path, path).then(done)))
    assert.equal(done(await files.remove(many)).length, 30)
    done(await files.upload(`${at}/a`, 'again'))
    assert.equal(await done(await files.download(`${at}/a`)).text(), 'again')
  })

  test('throwOnError throws the error', async () => {
    const throwing = stage().service.from('private').throwOnError()
    await assert.rejects(throwing.info('nowhere'), { status: 404, code: 'NoSuchKey' })
    // download returns a thenable, not a promise.
    await assert.rejects(async () => await throwing.download('nowhere'), { status: 404 })
  })
}
