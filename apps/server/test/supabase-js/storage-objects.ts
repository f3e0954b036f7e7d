// Reading, looking at, moving, copying and removing files.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { StorageApiError } from '@supabase/supabase-js'
import { bytesOf, done, folder, type Stage, told } from './storage-stage.ts'

const noSuchKey = [404, 404, 'NoSuchKey']
const taken = [409, 409, 'KeyAlreadyExists']

export function objectTests(stage: () => Stage): void {
  test('update replaces a file, and makes one where there is none', async () => {
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

  test('download answers a Blob or a stream, and can be chained like a promise', async () => {
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
    assert.deepEqual(told(missing.error), noSuchKey)
  })

  test('a download that is called off is an error, and the next one is not', async () => {
    const { files } = stage()
    const path = `${folder()}/large`
    done(await files.upload(path, Buffer.alloc(3_000_000, 7)))
    const calledOff = await files.download(path, {}, { signal: AbortSignal.abort() })
    assert.equal(calledOff.error?.name, 'StorageUnknownError')
    assert.equal(done(await files.download(path)).size, 3_000_000)
  })

  test('info tells everything known of a file', async () => {
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

  test('exists says yes, no, and no more than that', async () => {
    const { files, anon, as, fetch } = stage()
    const path = `${folder()}/there`
    done(await files.upload(path, 'x'))
    assert.deepEqual(await files.exists(path), { data: true, error: null })
    const missing = await files.exists(`${path}.not`)
    assert.equal(missing.data, false)
    assert.deepEqual(told(missing.error), noSuchKey)
    assert.equal((await anon.from('private').exists(path)).data, false, 'hidden is missing')
    // A key that is none says nothing about the file.
    await assert.rejects(as('platform_anon_gallery_0000').from('private').exists(path), StorageApiError)
    // As clients up to 2.109 ask.
    assert.equal((await fetch('HEAD', `object/private/${path}`)).status, 200)
    assert.equal((await fetch('HEAD', `object/private/${path}.not`)).status, 404)
  })

  test('move takes a file along with all it has, also to another bucket', async () => {
    const { files, shown } = stage()
    const at = folder()
    const made = done(await files.upload(`${at}/a`, 'moved', { contentType: 'text/csv', metadata: { m: 1 } }))
    assert.equal(typeof done(await files.move(`${at}/a`, `${at}/deep/b`)).message, 'string')
    assert.deepEqual(told((await files.download(`${at}/a`)).error), noSuchKey)
    const moved = done(await files.info(`${at}/deep/b`))
    assert.deepEqual([moved.id, moved.contentType, moved.metadata], [made.id, 'text/csv', { m: 1 }])
    done(await files.move(`${at}/deep/b`, `${at}/c`, { destinationBucket: 'shown' }))
    assert.deepEqual(told((await files.download(`${at}/deep/b`)).error), noSuchKey)
    assert.equal(await done(await shown.download(`${at}/c`)).text(), 'moved')
    done(await files.upload(`${at}/other`, 'stays'))
    const onto = await files.move(`${at}/other`, `${at}/c`, { destinationBucket: 'shown' })
    assert.deepEqual(told(onto.error), taken)
    assert.equal(await done(await shown.download(`${at}/c`)).text(), 'moved')
    assert.equal(await done(await files.download(`${at}/other`)).text(), 'stays')
    assert.deepEqual(told((await files.move(`${at}/none`, `${at}/z`)).error), noSuchKey)
  })

  test('copy leaves the source alone, and takes its metadata along or does not', async () => {
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
      [bare.contentType, bare.cacheControl, bare.metadata ?? null],
      ['text/tab-separated-values', 'max-age=99', null],
    )
    // Bytes are the copy's own: the source may go.
    done(await files.remove([`${at}/a`]))
    assert.equal(await done(await files.download(`${at}/b`)).text(), 'copied')
    assert.deepEqual(told((await files.copy(`${at}/a`, `${at}/d`)).error), noSuchKey)
  })

  test('copy onto a file needs the header that says so', async () => {
    const { files, service } = stage()
    const at = folder()
    done(await files.upload(`${at}/new`, 'new'))
    const old = done(await files.upload(`${at}/old`, 'old'))
    assert.deepEqual(told((await files.copy(`${at}/new`, `${at}/old`)).error), taken)
    assert.equal(await done(await files.download(`${at}/old`)).text(), 'old')
    const upserting = service.from('private').setHeader('x-upsert', 'true')
    done(await upserting.copy(`${at}/new`, `${at}/old`))
    assert.equal(await done(await files.download(`${at}/old`)).text(), 'new')
    assert.equal(done(await files.info(`${at}/old`)).id, old.id)
  })

  test('remove answers what is gone, and is silent about what was not there', async () => {
    const { files } = stage()
    const at = folder()
    const made = done(await files.upload(`${at}/a`, 'x', { contentType: 'text/csv' }))
    done(await files.upload(`${at}/a/b`, 'x'))
    const gone = done(await files.remove([`${at}/a`, `${at}/none`]))
    assert.equal(gone.length, 1)
    assert.partialDeepStrictEqual(gone[0], { id: made.id, name: `${at}/a`, bucket_id: 'private' })
    assert.equal(gone[0]!.metadata?.mimetype, 'text/csv')
    assert.deepEqual(told((await files.download(`${at}/a`)).error), noSuchKey)
    assert.equal(
      (await files.exists(`${at}/a/b`)).data,
      true,
      'names are exact, whatever the field is called',
    )
    assert.deepEqual(done(await files.remove([`${at}/a`])), [])
    const many = Array.from({ length: 30 }, (_, index) => `${at}/many/${index}`)
    await Promise.all(many.map(path => files.upload(path, path).then(done)))
    assert.equal(done(await files.remove(many)).length, 30)
    done(await files.upload(`${at}/a`, 'again'))
    assert.equal(await done(await files.download(`${at}/a`)).text(), 'again')
  })

  test('throwOnError throws what would have been answered', async () => {
    const throwing = stage().service.from('private').throwOnError()
    await assert.rejects(throwing.info('nowhere'), { status: 404, code: 'NoSuchKey' })
    // Not a promise but something like one.
    await assert.rejects(async () => await throwing.download('nowhere'), { status: 404 })
  })
}
