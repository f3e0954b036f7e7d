// Who may do what: policies of the project’s own, and the rule of buckets whose name begins with user-.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { ada, bob, done, folder, type Stage, told } from './storage-stage.ts'

const denied = [403, 403, 'AccessDenied']

export function callerTests(stage: () => Stage): void {
  test('a policy opens a folder of their own to every signed-in user', async () => {
    const { user, anon, service, sql } = stage()
    const bucket = folder()
    done(await service.createBucket(bucket))
    await sql(`create policy own_${bucket} on storage.objects to authenticated
      using (bucket_id = '${bucket}' and (storage.foldername(name))[1] = auth.uid()::text)
      with check (bucket_id = '${bucket}' and (storage.foldername(name))[1] = auth.uid()::text)`)
    const hers = user(ada).from(bucket)
    const his = user(bob).from(bucket)
    const path = `${ada}/diary`
    done(await hers.upload(path, 'day one', { metadata: { mood: 'fine' } }))
    done(await hers.upload(path, 'day two', { upsert: true }))
    assert.equal(await done(await hers.download(path)).text(), 'day two')
    assert.equal(done(await service.from(bucket).list(ada))[0]?.name, 'diary')
    assert.deepEqual(told((await his.upload(path, 'forged', { upsert: true })).error), denied)
    assert.deepEqual(told((await his.upload(`${ada}/new`, 'forged')).error), denied)
    assert.deepEqual(told((await his.move(path, `${bob}/stolen`)).error)[0], 404)
    assert.deepEqual(told((await his.copy(path, `${bob}/stolen`)).error)[0], 404)
    assert.deepEqual(told((await hers.move(path, `${bob}/given`)).error), denied)
    assert.deepEqual(told((await hers.copy(path, `${bob}/given`)).error), denied)
    assert.deepEqual(done(await his.list(ada)), [])
    assert.deepEqual(done(await his.listV2({ prefix: ada })).objects, [])
    assert.deepEqual(done(await his.remove([path])), [])
    assert.equal((await anon.from(bucket).exists(path)).data, false)
    done(await hers.copy(path, `${ada}/copy`))
    done(await hers.move(`${ada}/copy`, `${ada}/moved`))
    const gone = done(await hers.remove([path, `${ada}/moved`]))
    assert.deepEqual(gone.map(each => each.name).sort(), [path, `${ada}/moved`].sort())
    assert.equal(gone[0]?.owner, ada)
  })

  test('in a user- bucket everybody has their own id as a folder, and nothing else', async () => {
    const { user, anon, service } = stage()
    const bucket = `user-${folder()}`
    const hers = user(ada).from(bucket)
    const his = user(bob).from(bucket)
    const path = `${ada}/a`
    done(await hers.upload(path, 'hers'))
    assert.equal(done(await service.getBucket(bucket)).public, false)
    done(await his.upload(`${bob}/b`, 'his'))
    assert.equal(await done(await hers.download(path)).text(), 'hers')
    assert.equal(await done(await service.from(bucket).download(path)).text(), 'hers')
    assert.deepEqual(told((await his.upload(`${ada}/b`, 'x')).error), denied)
    assert.deepEqual(told((await his.upload('loose', 'x')).error), denied)
    assert.deepEqual(told((await anon.from(bucket).upload(`${ada}/b`, 'x')).error), denied)
    assert.deepEqual(told((await his.move(`${bob}/b`, `${ada}/b`)).error), denied)
    assert.deepEqual(told((await his.copy(`${bob}/b`, `${ada}/b`)).error), denied)
    for (const other of [his, anon.from(bucket)]) {
      assert.ok([403, 404].includes(told((await other.download(path)).error)[0] as number))
      assert.ok([403, 404].includes(told((await other.copy(path, `${bob}/mine`)).error)[0] as number))
      assert.ok([403, 404].includes(told((await other.createSignedUrl(path, 60)).error)[0] as number))
      assert.deepEqual(told((await other.list(ada)).error), denied)
      assert.deepEqual(told((await other.listV2({ prefix: `${ada}/` })).error), denied)
      const { data } = await other.remove([path])
      assert.deepEqual(data ?? [], [])
    }
    assert.deepEqual(
      done(await his.list()).map(each => each.name),
      [bob],
      'of the bucket, everybody sees their own folder',
    )
    assert.equal((await hers.exists(path)).data, true)
    // Even a policy that is open to all does not open it.
    const { sql } = stage()
    await sql('create policy open_to_all on storage.objects using (true) with check (true)')
    assert.deepEqual(told((await his.upload(`${ada}/b`, 'x')).error), denied)
    assert.ok([403, 404].includes(told((await his.download(path)).error)[0] as number))
    await sql('drop policy open_to_all on storage.objects')
    const opened = await service.updateBucket(bucket, { public: true })
    assert.equal(told(opened.error)[0], 400)
  })
}
