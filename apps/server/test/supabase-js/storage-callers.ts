// Permissions: policies of the project, and the rule for buckets whose name begins with user-.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { ada, bob, done, folder, type Stage, statusAndCode } from './storage-stage.ts'

const denied = [403, 403, 'AccessDenied']

export function callerTests(stage: () => Stage): void {
  test('a policy gives every signed-in user access to an own folder', async () => {
    const { user, anon, service, sql } = stage()
    const bucket = folder()
    done(await service.createBucket(bucket))
    await sql(`create policy own_${bucket} on storage.objects to authenticated
      using (bucket_id = '${bucket}' and (storage.foldername(name))[1] = auth.uid()::text)
      with check (bucket_id = '${bucket}' and (storage.foldername(name))[1] = auth.uid()::text)`)
    const asAda = user(ada).from(bucket)
    const asBob = user(bob).from(bucket)
    const path = `${ada}/diary`
    done(await asAda.upload(path, 'day one', { metadata: { mood: 'fine' } }))
    done(await asAda.upload(path, 'day two', { upsert: true }))
    assert.equal(await done(await asAda.download(path)).text(), 'day two')
    assert.equal(done(await service.from(bucket).list(ada))[0]?.name, 'diary')
    assert.deepEqual(statusAndCode((await asBob.upload(path, 'forged', { upsert: true })).error), denied)
    assert.deepEqual(statusAndCode((await asBob.upload(`${ada}/new`, 'forged')).error), denied)
    assert.deepEqual(statusAndCode((await asBob.move(path, `${bob}/stolen`)).error)[0], 404)
    assert.deepEqual(statusAndCode((await asBob.copy(path, `${bob}/stolen`)).error)[0], 404)
    assert.deepEqual(statusAndCode((await asAda.move(path, `${bob}/given`)).error), denied)
    assert.deepEqual(statusAndCode((await asAda.copy(path, `${bob}/given`)).error), denied)
    assert.deepEqual(done(await asBob.list(ada)), [])
    assert.deepEqual(done(await asBob.listV2({ prefix: ada })).objects, [])
    assert.deepEqual(done(await asBob.remove([path])), [])
    assert.equal((await anon.from(bucket).exists(path)).data, false)
    done(await asAda.copy(path, `${ada}/copy`))
    done(await asAda.move(`${ada}/copy`, `${ada}/moved`))
    const gone = done(await asAda.remove([path, `${ada}/moved`]))
    assert.deepEqual(gone.map(each => each.name).sort(), [path, `${ada}/moved`].sort())
    assert.equal(gone[0]?.owner, ada)
  })

  test('in a user- bucket users have access only to the folder with their id', async () => {
    const { user, anon, service } = stage()
    const bucket = `user-${folder()}`
    const asAda = user(ada).from(bucket)
    const asBob = user(bob).from(bucket)
    const path = `${ada}/a`
    done(await asAda.upload(path, 'hers'))
    assert.equal(done(await service.getBucket(bucket)).public, false)
    done(await asBob.upload(`${bob}/b`, 'his'))
    assert.equal(await done(await asAda.download(path)).text(), 'hers')
    assert.equal(await done(await service.from(bucket).download(path)).text(), 'hers')
    assert.deepEqual(statusAndCode((await asBob.upload(`${ada}/b`, 'x')).error), denied)
    assert.deepEqual(statusAndCode((await asBob.upload('loose', 'x')).error), denied)
    assert.deepEqual(statusAndCode((await anon.from(bucket).upload(`${ada}/b`, 'x')).error), denied)
    assert.deepEqual(statusAndCode((await asBob.move(`${bob}/b`, `${ada}/b`)).error), denied)
    assert.deepEqual(statusAndCode((await asBob.copy(`${bob}/b`, `${ada}/b`)).error), denied)
    for (const other of [asBob, anon.from(bucket)]) {
      assert.ok([403, 404].includes(statusAndCode((await other.download(path)).error)[0] as number))
      assert.ok(
        [403, 404].includes(statusAndCode((await other.copy(path, `${bob}/mine`)).error)[0] as number),
      )
      assert.ok(
        [403, 404].includes(statusAndCode((await other.createSignedUrl(path, 60)).error)[0] as number),
      )
      assert.deepEqual(statusAndCode((await other.list(ada)).error), denied)
      assert.deepEqual(statusAndCode((await other.listV2({ prefix: `${ada}/` })).error), denied)
      const { data } = await other.remove([path])
      assert.deepEqual(data ?? [], [])
    }
    assert.deepEqual(
      done(await asBob.list()).map(each => each.name),
      [bob],
      'users see only their own folder of the bucket',
    )
    assert.equal((await asAda.exists(path)).data, true)
    // A policy that allows everything does not override the rule.
    const { sql } = stage()
    await sql('create policy open_to_all on storage.objects using (true) with check (true)')
    assert.deepEqual(statusAndCode((await asBob.upload(`${ada}/b`, 'x')).error), denied)
    assert.ok([403, 404].includes(statusAndCode((await asBob.download(path)).error)[0] as number))
    await sql('drop policy open_to_all on storage.objects')
    const opened = await service.updateBucket(bucket, { public: true })
    assert.equal(statusAndCode(opened.error)[0], 400)
  })
}
