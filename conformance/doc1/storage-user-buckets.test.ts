// 1 §2.3, §4.6.4 and case 18: in a user- bucket each user has the folder of their own id, and no other.
import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { unique } from '../people.ts'
import { bodyOf, shapes } from '../service.ts'
import {
  ada,
  assertOneOf,
  assertRefused,
  assertStatus,
  bob,
  type Caller,
  credentialsOf,
  objectPath,
  type StorageApi,
  storageProject,
  storageRoot,
  storageTarget,
  upsert,
} from '../storage.ts'
import type { Target } from '../target.ts'
import { requestUpload, resumable } from '../uploads.ts'
import { type Reply, sendBytes } from '../wire.ts'

let it: Target
/** Has only the built-in rules. */
let plain: StorageApi
/** Also has policies that allow everything. */
let open: StorageApi
const bucket = 'user-files'
const mine = `${ada.sub}/secret.txt`
before(async () => {
  it = await storageTarget()
  plain = await storageProject(it)
  open = await storageProject(it)
  await open.sql(`
    create policy everything on storage.objects for all using (true) with check (true);
    create policy everything on storage.buckets for select using (true)`)
  for (const storage of [plain, open]) {
    await storage.bucket({ id: bucket, name: bucket })
    await storage.bucket({ id: 'shared', name: 'shared' })
    await storage.store(bucket, mine, 'of ada', { as: ada })
  }
})
after(() => it.stop())

const both: [string, () => StorageApi][] = [
  ['with the built-in rules', () => plain],
  ['with policies that allow everything', () => open],
]
const strangers: Caller[] = ['anon', bob]

async function assertUntouched(storage: StorageApi): Promise<void> {
  assert.equal((await storage.read(bucket, mine)).toString(), 'of ada')
  const keys = (await storage.keys(bucket)).filter(key => key.startsWith(ada.sub))
  assert.deepEqual(
    keys.filter(key => !key.includes('/own-')),
    [mine],
  )
}

for (const [what, of] of both) {
  test(`1 §4.6.4 users can do everything under their own prefix, ${what}`, async () => {
    const storage = of()
    for (const shape of shapes) {
      const [a, b, c] = [unique('own'), unique('own'), unique('own')].map(name => `${ada.sub}/deep/${name}`)
      const options = { as: ada, shape }
      bodyOf(await storage.upload(bucket, a!, 'a', options))
      bodyOf(await storage.ask('PUT', objectPath(bucket, a!), { raw: 'b', ...options }))
      assert.equal((await storage.read(bucket, a!, options)).toString(), 'b')
      assertStatus(await storage.head(objectPath(bucket, a!), options), 200)
      const carry = { bucketId: bucket, sourceKey: a, destinationKey: b }
      bodyOf(await storage.post('object/copy', carry, options))
      bodyOf(await storage.post('object/move', { ...carry, sourceKey: b, destinationKey: c }, options))
      const listed = bodyOf(
        await storage.post(`object/list/${bucket}`, { prefix: `${ada.sub}/deep`, search: 'own-' }, options),
      )
      assert.equal(listed.length, 2)
      const { signedURL } = bodyOf(
        await storage.post(objectPath(bucket, a!, 'object/sign'), { expiresIn: 9 }, options),
      )
      assert.equal((await storage.get(signedURL.slice(1), { as: 'nobody' })).text, 'b')
      const upload = resumable(
        storage,
        await requestUpload(storage, { bucket, key: b!, length: 3, ...options }),
        options,
      )
      assertStatus(await upload.append(0, Buffer.from('abc')), 204)
      bodyOf(await storage.delete(objectPath(bucket, a!), undefined, options))
      const removed = bodyOf(
        await storage.delete(`object/${bucket}`, { prefixes: [b, c, `${ada.sub}/missing`] }, options),
      )
      assert.equal(removed.length, 2)
    }
    await assertUntouched(storage)
  })

  test(`case 18: users cannot read under the prefix of another, ${what}`, async () => {
    const storage = of()
    for (const as of strangers) {
      for (const way of ['object', 'object/authenticated', 'object/info', 'object/info/authenticated'])
        assertOneOf(await storage.get(objectPath(bucket, mine, way), { as }), [403, 404])
      assertOneOf(await storage.head(objectPath(bucket, mine), { as }), [400, 403, 404])
      assertOneOf(
        await storage.get(objectPath(bucket, mine, 'render/image/authenticated'), { as }),
        [403, 404],
      )
      const signing = storage.post(objectPath(bucket, mine, 'object/sign'), { expiresIn: 9 }, { as })
      assertOneOf(await signing, [403, 404])
      const many = await storage.post(`object/sign/${bucket}`, { expiresIn: 9, paths: [mine] }, { as })
      assertOneOf(many, [200, 403])
      if (many.status === 200) assert.equal(many.body[0].signedURL, null)
    }
    for (const way of ['object/public', 'object/info/public', 'render/image/public'])
      assertStatus(await storage.get(objectPath(bucket, mine, way), { as: 'nobody' }), 404)
  })

  test(`case 18: listing the prefix of another user returns 403, and no list contains it, ${what}`, async () => {
    const storage = of()
    for (const as of strangers) {
      for (const prefix of [ada.sub, `${ada.sub}/`, `${ada.sub}/deep`])
        for (const route of ['list', 'list-v2'])
          assertRefused(
            await storage.post(`object/${route}/${bucket}`, { prefix }, { as }),
            403,
            'AccessDenied',
          )
      for (const body of [
        { prefix: '' },
        { prefix: '', search: ada.sub.slice(0, 4) },
        { prefix: ada.sub.slice(0, 8) },
      ])
        for (const route of ['list', 'list-v2']) {
          const reply = await storage.post(`object/${route}/${bucket}`, body, { as })
          assertOneOf(reply, [200, 403])
          assert.ok(!reply.text.includes(ada.sub) && !reply.text.includes('secret'), reply.text)
        }
    }
  })

  test(`case 18: users cannot write under the prefix of another, ${what}`, async () => {
    const storage = of()
    for (const as of strangers)
      for (const key of [
        mine,
        `${ada.sub}/new.txt`,
        'top.txt',
        `${ada.sub.toUpperCase()}/x`,
        `${ada.sub}x/x`,
        ada.sub,
      ])
        for (const reply of [
          await storage.upload(bucket, key, 'bad', { as }),
          await storage.upload(bucket, key, 'bad', { as, headers: upsert }),
          await storage.ask('PUT', objectPath(bucket, key), { raw: 'bad', as }),
          await storage.post(objectPath(bucket, key, 'object/upload/sign'), {}, { as }),
          await storage.post(objectPath(bucket, key, 'object/upload/sign'), {}, { as, headers: upsert }),
          await requestUpload(storage, { bucket, key, length: 3, as }),
          await requestUpload(storage, { bucket, key, length: 3, as, headers: upsert }),
          await requestUpload(storage, { bucket, key, length: 3, as, first: Buffer.from('bad') }),
        ])
          assertRefused(reply, 403, 'AccessDenied')
    await assertUntouched(storage)
  })

  test(`case 18: users cannot copy or move from or to the prefix of another, ${what}`, async () => {
    const storage = of()
    await storage.store(bucket, `${bob.sub}/own-b.txt`, 'of bob', { as: bob, headers: upsert })
    const into = {
      bucketId: bucket,
      sourceKey: `${bob.sub}/own-b.txt`,
      destinationKey: `${ada.sub}/planted.txt`,
    }
    const outOf = { bucketId: bucket, sourceKey: mine, destinationKey: `${bob.sub}/own-stolen.txt` }
    for (const operation of ['object/copy', 'object/move'])
      for (const as of strangers) {
        for (const request of [
          outOf,
          { ...outOf, destinationKey: 'stolen.txt', destinationBucket: 'shared' },
          { ...outOf, destinationKey: `${ada.sub}/own-renamed.txt` },
        ])
          assertRefused(await storage.post(operation, request, { as }), 403, 'AccessDenied')
        assertRefused(await storage.post(operation, into, { as, headers: upsert }), 403, 'AccessDenied')
        const onto = { ...into, destinationKey: mine }
        assertRefused(await storage.post(operation, onto, { as, headers: upsert }), 403, 'AccessDenied')
      }
    assert.deepEqual(await storage.keys('shared'), [])
    await assertUntouched(storage)
  })

  test(`case 18: users cannot delete under the prefix of another, ${what}`, async () => {
    const storage = of()
    for (const as of strangers) {
      assertOneOf(await storage.delete(objectPath(bucket, mine), undefined, { as }), [403, 404])
      const many = await storage.delete(`object/${bucket}`, { prefixes: [mine] }, { as })
      assertOneOf(many, [200, 403])
      if (many.status === 200) assert.deepEqual(many.body, [])
    }
    await assertUntouched(storage)
  })

  test(`case 18: dot segments do not lead to the prefix of another user, ${what}`, async () => {
    const storage = of()
    for (const key of [
      `${bob.sub}/../${mine}`,
      `${bob.sub}/./../${mine}`,
      `x/../${mine}`,
      `../${bucket}/${mine}`,
    ])
      for (const reply of [
        await requestUpload(storage, { bucket, key, length: 3, as: bob, headers: upsert }),
        await storage.post(
          'object/copy',
          { bucketId: bucket, sourceKey: key, destinationKey: `${bob.sub}/own-x` },
          { as: bob },
        ),
        await storage.post(
          'object/move',
          { bucketId: bucket, sourceKey: key, destinationKey: `${bob.sub}/own-x` },
          { as: bob },
        ),
      ])
        assertOneOf(reply, [400, 403, 404])
    for (const path of [`${bob.sub}/../${mine}`, `${bob.sub}/%2e%2e/${mine}`, `${bob.sub}%2f..%2f${mine}`])
      for (const method of ['GET', 'PUT', 'DELETE'])
        assertOneOf(await asBob(storage, method, `object/${bucket}/${path}`), [400, 403, 404])
    const reply = await storage.post(
      `object/list/${bucket}`,
      { prefix: `${bob.sub}/../${ada.sub}` },
      { as: bob },
    )
    assertOneOf(reply, [200, 400, 403])
    assert.ok(!reply.text.includes('secret'))
    await assertUntouched(storage)
  })
}

/** Sends the path unchanged. fetch would resolve the dots in it. */
function asBob(storage: StorageApi, method: string, path: string): Promise<Reply> {
  const { apikey, token } = credentialsOf(storage.project, bob)
  return sendBytes(
    it.url,
    `${method} ${storageRoot(storage.project)}/${path} HTTP/1.1\r\nhost: x\r\napikey: ${apikey}\r\n` +
      `authorization: Bearer ${token}\r\ncontent-length: ${method === 'PUT' ? 3 : 0}\r\n\r\n${method === 'PUT' ? 'bad' : ''}`,
  )
}

test('1 §4.6.4 service_role bypasses the rules of user- buckets', async () => {
  for (const key of [`${ada.sub}/by-service.txt`, 'top.txt']) {
    await plain.store(bucket, key, 'x')
    assert.equal((await plain.read(bucket, key)).toString(), 'x')
    bodyOf(await plain.delete(objectPath(bucket, key)))
  }
})

test('case 18: SQL that makes a user- bucket public does not open it on the public route', async () => {
  const storage = await storageProject(it)
  await storage.store(bucket, mine, 'of ada', { as: ada })
  const { service_role_key: apikey, id } = storage.project
  await it.call('POST', `/v1/rest/${id}/rpc/exec_sql`, {
    apikey,
    body: { sql: `update storage.buckets set public = true where id = '${bucket}'` },
  })
  for (const way of ['object/public', 'object', 'render/image/public'])
    assertOneOf(await storage.get(objectPath(bucket, mine, way), { as: 'nobody' }), [400, 401, 403, 404])
})

test('1 §2.3 a bucket that contains user- elsewhere in its name is an ordinary one', async () => {
  const other = await plain.bucket({ id: unique('my-user-files'), public: true })
  await plain.store(other, 'a.txt', 'content')
  assert.equal(
    (await plain.get(objectPath(other, 'a.txt', 'object/public'), { as: 'nobody' })).text,
    'content',
  )
})
