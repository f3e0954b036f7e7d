// Creating, reading, updating, emptying and deleting buckets.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { ada, done, folder, type Stage, statusAndCode } from './storage-stage.ts'

const noSuchBucket = [404, 404, 'NoSuchBucket']
const denied = [403, 403, 'AccessDenied']

export function bucketTests(stage: () => Stage): void {
  test('a bucket is private and without limits by default', async () => {
    const { service } = stage()
    const id = folder()
    assert.deepEqual(done(await service.createBucket(id)), { name: id })
    const { created_at, updated_at, ...bucket } = done(await service.getBucket(id))
    assert.deepEqual(bucket, {
      id,
      name: id,
      owner: '',
      public: false,
      type: 'STANDARD',
      file_size_limit: null,
      allowed_mime_types: null,
    })
    for (const time of [created_at, updated_at])
      assert.ok(Math.abs(Date.parse(time) - Date.now()) < 60_000, time)
  })

  test('createBucket accepts every option, and a size limit as a number or with a unit', async () => {
    const { service } = stage()
    const limits = { 1234: 1234, '20MB': 20_000_000, '1gb': 1_000_000_000, '30KB': 30_000, '3B': 3 }
    for (const [given, kept] of Object.entries(limits)) {
      const id = folder()
      done(
        await service.createBucket(id, {
          public: true,
          fileSizeLimit: /^\d+$/.test(given) ? Number(given) : given,
          allowedMimeTypes: ['image/*', 'text/plain'],
          type: 'STANDARD',
        }),
      )
      assert.partialDeepStrictEqual(done(await service.getBucket(id)), {
        public: true,
        type: 'STANDARD',
        file_size_limit: kept,
        allowed_mime_types: ['image/*', 'text/plain'],
      })
    }
    const id = folder()
    done(await service.createBucket(id, { public: false, fileSizeLimit: null, allowedMimeTypes: null }))
    const { file_size_limit, allowed_mime_types } = done(await service.getBucket(id))
    assert.deepEqual([file_size_limit, allowed_mime_types], [null, null])
  })

  test('updateBucket keeps omitted fields, and null clears a field', async () => {
    const { service } = stage()
    const id = folder()
    done(await service.createBucket(id, { public: false, fileSizeLimit: 10, allowedMimeTypes: ['text/csv'] }))
    const before = done(await service.getBucket(id))
    const read = async () => {
      const now = done(await service.getBucket(id))
      return [now.public, now.file_size_limit, now.allowed_mime_types]
    }
    assert.equal(typeof done(await service.updateBucket(id, { public: true })).message, 'string')
    assert.deepEqual(await read(), [true, 10, ['text/csv']])
    done(
      await service.updateBucket(id, { public: true, fileSizeLimit: '2KB', allowedMimeTypes: ['image/png'] }),
    )
    assert.deepEqual(await read(), [true, 2000, ['image/png']])
    done(await service.updateBucket(id, { public: false, fileSizeLimit: null, allowedMimeTypes: null }))
    assert.deepEqual(await read(), [false, null, null])
    const after = done(await service.getBucket(id))
    assert.equal(after.created_at, before.created_at)
    assert.ok(Date.parse(after.updated_at) >= Date.parse(before.updated_at))
  })

  test('files are public exactly while their bucket is public', async () => {
    const { service } = stage()
    const id = folder()
    done(await service.createBucket(id))
    done(await service.from(id).upload('a', 'x'))
    const { publicUrl } = service.from(id).getPublicUrl('a').data
    const status = async () => (await fetch(publicUrl)).status
    assert.equal(await status(), 404)
    done(await service.updateBucket(id, { public: true }))
    assert.equal(await status(), 200)
    done(await service.updateBucket(id, { public: false }))
    assert.equal(await status(), 404)
  })

  test('listBuckets supports limit, offset, search and order', async () => {
    const { service } = stage()
    const mark = folder()
    const names = ['c', 'a', 'b'].map(name => `${mark}-${name}`)
    for (const name of names) done(await service.createBucket(name))
    const all = done(await service.listBuckets()).map(each => each.id)
    for (const name of [...names, 'private', 'shown']) assert.ok(all.includes(name), name)
    const listed = async (options: Parameters<typeof service.listBuckets>[0]) =>
      done(await service.listBuckets({ search: mark, ...options })).map(each => each.name.at(-1))
    assert.deepEqual(await listed({ sortColumn: 'name', sortOrder: 'asc' }), ['a', 'b', 'c'])
    assert.deepEqual(await listed({ sortColumn: 'name', sortOrder: 'desc' }), ['c', 'b', 'a'])
    assert.deepEqual(await listed({ sortColumn: 'id' }), ['a', 'b', 'c'])
    assert.deepEqual(await listed({ sortColumn: 'created_at', sortOrder: 'asc' }), ['c', 'a', 'b'])
    assert.deepEqual(await listed({ sortColumn: 'updated_at', sortOrder: 'desc' }), ['b', 'a', 'c'])
    assert.deepEqual(await listed({ limit: 2, sortColumn: 'name' }), ['a', 'b'])
    assert.deepEqual(await listed({ limit: 2, offset: 1, sortColumn: 'name' }), ['b', 'c'])
    assert.deepEqual(await listed({ search: `${mark.toUpperCase()}-B` }), ['b'])
    const sorted = await service.listBuckets({ sortColumn: 'owner' as 'id' })
    assert.equal(statusAndCode(sorted.error)[0], 400)
  })

  test('a bucket can be emptied, and only an empty one can be deleted', async () => {
    const { service } = stage()
    const id = folder()
    done(await service.createBucket(id))
    const files = service.from(id)
    for (const path of ['a', 'b/c', 'b/d/e']) done(await files.upload(path, 'x'))
    assert.deepEqual(statusAndCode((await service.deleteBucket(id)).error), [409, 409, 'ResourceNotEmpty'])
    assert.equal((await files.exists('a')).data, true)
    assert.equal(typeof done(await service.emptyBucket(id)).message, 'string')
    assert.deepEqual(done(await files.list()), [])
    assert.equal((await files.exists('b/d/e')).data, false)
    done(await service.emptyBucket(id))
    assert.equal(typeof done(await service.deleteBucket(id)).message, 'string')
    assert.deepEqual(statusAndCode((await service.getBucket(id)).error), noSuchBucket)
    assert.deepEqual(statusAndCode((await service.deleteBucket(id)).error), noSuchBucket)
    assert.deepEqual(statusAndCode((await service.emptyBucket(id)).error), noSuchBucket)
    assert.deepEqual(statusAndCode((await service.updateBucket(id, { public: true })).error), noSuchBucket)
    done(await service.createBucket(id))
    assert.deepEqual(done(await files.list()), [])
  })

  test('a taken, too long or invalid bucket name is rejected', async () => {
    const { service } = stage()
    assert.deepEqual(statusAndCode((await service.createBucket('private')).error).slice(0, 2), [409, 409])
    const name = `A z0_!-.*'() &$=@;:+,${folder()}`
    done(await service.createBucket(name))
    assert.equal(done(await service.getBucket(name)).name, name)
    done(await service.createBucket(folder().padEnd(100, 'x')))
    for (const bad of ['', ' a', 'a ', 'a/b', 'a\\b', 'ü', 'a|b', 'x'.repeat(101)])
      assert.deepEqual(statusAndCode((await service.createBucket(bad)).error).slice(0, 2), [400, 400], bad)
  })

  test('invalid limits are rejected', async () => {
    const { service } = stage()
    const id = folder()
    for (const fileSizeLimit of ['lots', '10XB', -1, 1.5])
      assert.equal(
        statusAndCode((await service.createBucket(id, { public: false, fileSizeLimit })).error)[0],
        400,
      )
    const types = await service.createBucket(id, { public: false, allowedMimeTypes: ['not a type'] })
    assert.ok([400, 415, 422].includes(statusAndCode(types.error)[0] as number))
    assert.deepEqual(statusAndCode((await service.getBucket(id)).error), noSuchBucket)
  })

  test('a user- bucket cannot be public', async () => {
    const { service } = stage()
    const id = `user-${folder()}`
    assert.equal(statusAndCode((await service.createBucket(id, { public: true })).error)[0], 400)
    done(await service.createBucket(id))
    assert.equal(statusAndCode((await service.updateBucket(id, { public: true })).error)[0], 400)
    assert.equal(done(await service.getBucket(id)).public, false)
  })

  test('only service_role has access to buckets, unless a policy allows more', async () => {
    const { anon, user, service, sql } = stage()
    const id = folder()
    done(await service.createBucket(id))
    done(await service.from(id).upload('a', 'x'))
    for (const caller of [anon, user(ada)]) {
      assert.deepEqual(statusAndCode((await caller.createBucket(folder())).error), denied)
      assert.deepEqual(done(await caller.listBuckets({ search: id })), [])
      assert.deepEqual(statusAndCode((await caller.getBucket(id)).error), noSuchBucket)
      assert.ok(
        [403, 404].includes(
          statusAndCode((await caller.updateBucket(id, { public: true })).error)[0] as number,
        ),
      )
      assert.ok([403, 404].includes(statusAndCode((await caller.deleteBucket(id)).error)[0] as number))
      assert.equal(statusAndCode((await caller.emptyBucket(id)).error)[0], 403)
    }
    assert.equal(done(await service.getBucket(id)).public, false)
    assert.equal((await service.from(id).exists('a')).data, true)
    await sql(`create policy made_by_${id} on storage.buckets to authenticated
      using (owner = auth.uid()) with check (id like '${id}-%')`)
    const asAda = user(ada)
    done(await asAda.createBucket(`${id}-hers`))
    assert.equal(done(await asAda.getBucket(`${id}-hers`)).owner, ada)
    assert.deepEqual(
      done(await asAda.listBuckets()).map(each => each.id),
      [`${id}-hers`],
    )
    done(await asAda.updateBucket(`${id}-hers`, { public: false, fileSizeLimit: 5 }))
    done(await asAda.deleteBucket(`${id}-hers`))
    assert.deepEqual(statusAndCode((await asAda.createBucket(`${folder()}-hers`)).error), denied)
  })

  test('throwOnError and setHeader apply to the client', async () => {
    const { as, project } = stage()
    await assert.rejects(as(project.service_role_key).throwOnError().getBucket('nowhere'), {
      status: 404,
      code: 'NoSuchBucket',
    })
    const demoted = as(project.service_role_key)
      .setHeader('apikey', project.anon_key)
      .setHeader('Authorization', `Bearer ${project.anon_key}`)
    assert.deepEqual(statusAndCode((await demoted.createBucket(folder())).error), denied)
  })
}
