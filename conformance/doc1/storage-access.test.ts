// 1 §1, §5, §7 and storage contract §9: policies on storage.objects and storage.buckets, written as for
// Supabase, control access to files.
import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { unique } from '../people.ts'
import { bodyOf } from '../service.ts'
import {
  ada,
  assertOneOf,
  assertRefused,
  assertStatus,
  bob,
  type Caller,
  objectPath,
  type StorageApi,
  storageProject,
  storageTarget,
  tokenIn,
  upsert,
} from '../storage.ts'
import type { Target } from '../target.ts'
import { requestUpload, resumable } from '../uploads.ts'
import type { Reply } from '../wire.ts'

let it: Target
let storage: StorageApi
/** Policies give each user a folder in this bucket. */
let folders: string
/** No policy mentions this bucket. */
let closed: string
before(async () => {
  it = await storageTarget()
  storage = await storageProject(it)
  folders = await storage.bucket()
  closed = await storage.bucket()
  const own = `bucket_id = '${folders}' and (storage.foldername(name))[1] = auth.uid()::text`
  await storage.sql(`
    create policy "users read their files" on storage.objects for select to authenticated using (${own});
    create policy "users create their files" on storage.objects for insert to authenticated with check (${own});
    create policy "users change their files" on storage.objects for update to authenticated using (${own}) with check (${own});
    create policy "users delete their files" on storage.objects for delete to authenticated using (${own});`)
})
after(() => it.stop())

const others: Caller[] = ['anon', bob]
const permitted: Caller[] = [ada, 'service_role']
const fresh = () => `${ada.sub}/${unique('new')}.txt`
const stored = async (bucket = folders) => {
  const key = fresh()
  await storage.store(bucket, key, 'content')
  return key
}

type Operation = (as: Caller, key: string, bucket: string) => Promise<Reply>
const carry = (bucketId: string, sourceKey: string) => ({ bucketId, sourceKey, destinationKey: fresh() })

/** Operations that need SELECT. Without it the response must equal that for a missing file. */
const reading: Record<string, Operation> = {
  download: (as, key, bucket) => storage.get(objectPath(bucket, key), { as }),
  'download/authenticated': (as, key, bucket) =>
    storage.get(objectPath(bucket, key, 'object/authenticated'), { as }),
  info: (as, key, bucket) => storage.get(objectPath(bucket, key, 'object/info'), { as }),
  'info/authenticated': (as, key, bucket) =>
    storage.get(objectPath(bucket, key, 'object/info/authenticated'), { as }),
  sign: (as, key, bucket) => storage.post(objectPath(bucket, key, 'object/sign'), { expiresIn: 9 }, { as }),
  'sign with a transformation': (as, key, bucket) =>
    storage.post(objectPath(bucket, key, 'object/sign'), { expiresIn: 9, transform: { width: 5 } }, { as }),
  move: (as, key, bucket) => storage.post('object/move', carry(bucket, key), { as }),
  copy: (as, key, bucket) => storage.post('object/copy', carry(bucket, key), { as }),
  delete: (as, key, bucket) => storage.delete(objectPath(bucket, key), undefined, { as }),
}

/** Operations that need INSERT. */
const writing: Record<string, Operation> = {
  upload: (as, key, bucket) => storage.upload(bucket, key, 'new', { as }),
  'upload with upsert': (as, key, bucket) => storage.upload(bucket, key, 'new', { as, headers: upsert }),
  put: (as, key, bucket) => storage.ask('PUT', objectPath(bucket, key), { raw: 'new', as }),
  'signed upload': (as, key, bucket) =>
    storage.post(objectPath(bucket, key, 'object/upload/sign'), {}, { as }),
  'resumable upload': (as, key, bucket) => requestUpload(storage, { bucket, key, length: 3, as }),
  'resumable upload with upsert': (as, key, bucket) =>
    requestUpload(storage, { bucket, key, length: 3, as, headers: upsert }),
}

for (const [what, operation] of Object.entries(reading)) {
  test(`contract §9 ${what} returns 404, as for a missing file, if no policy allows SELECT`, async () => {
    for (const bucket of [folders, closed]) {
      const key = await stored(bucket)
      for (const as of bucket === closed ? [...others, ada] : others) {
        const [hidden, missing] = [
          await operation(as, key, bucket),
          await operation(as, `${ada.sub}/missing`, bucket),
        ]
        assertRefused(hidden, 404, 'NoSuchKey')
        assert.deepEqual(hidden.body, missing.body)
      }
      assert.equal((await storage.read(bucket, key)).toString(), 'content')
    }
  })

  test(`contract §9 ${what} succeeds for permitted callers`, async () => {
    for (const as of permitted) assertStatus(await operation(as, await stored(), folders), 200)
  })
}

for (const [what, operation] of Object.entries(writing)) {
  test(`contract §9 ${what} returns 403 and writes nothing if no policy allows INSERT`, async () => {
    for (const bucket of [folders, closed]) {
      const before = await storage.keys(bucket)
      for (const as of bucket === closed ? [...others, ada] : others)
        assertRefused(await operation(as, fresh(), bucket), 403, 'AccessDenied')
      assert.deepEqual(await storage.keys(bucket), before)
    }
  })

  test(`contract §9 ${what} succeeds for permitted callers`, async () => {
    for (const as of permitted) assertOneOf(await operation(as, fresh(), folders), [200, 201])
  })
}

test('contract §9 a caller cannot replace a file that it cannot see', async () => {
  for (const bucket of [folders, closed]) {
    const key = await stored(bucket)
    for (const as of bucket === closed ? [...others, ada] : others)
      for (const operation of Object.values(writing))
        assertOneOf(await operation(as, key, bucket), [403, 409])
    assert.equal((await storage.read(bucket, key)).toString(), 'content')
  }
})

test('contract §9 HEAD, list and bulk delete skip hidden files', async () => {
  const key = await stored()
  for (const as of others) {
    assertOneOf(await storage.head(objectPath(folders, key), { as }), [400, 404])
    for (const prefix of ['', ada.sub])
      assert.deepEqual(bodyOf(await storage.post(`object/list/${folders}`, { prefix }, { as })), [])
    const page = bodyOf(await storage.post(`object/list-v2/${folders}`, { with_delimiter: true }, { as }))
    assert.deepEqual(page, { hasNext: false, folders: [], objects: [] })
    assert.deepEqual(bodyOf(await storage.delete(`object/${folders}`, { prefixes: [key] }, { as })), [])
    const [signed] = bodyOf(
      await storage.post(`object/sign/${folders}`, { expiresIn: 9, paths: [key] }, { as }),
    )
    assert.deepEqual([signed.signedURL, typeof signed.error], [null, 'string'])
  }
  const listed = bodyOf(await storage.post(`object/list/${folders}`, { prefix: '' }, { as: ada }))
  assert.deepEqual(
    listed.map(({ name }: any) => name),
    [ada.sub],
  )
  const removed = bodyOf(await storage.delete(`object/${folders}`, { prefixes: [key] }, { as: ada }))
  assert.equal(removed.length, 1)
})

test('contract §9 copy and move need permission to write the destination', async () => {
  const theirs = `${bob.sub}/stolen.txt`
  for (const operation of ['object/move', 'object/copy']) {
    const key = await stored()
    const ask = (fields: Record<string, string>) =>
      storage.post(
        operation,
        { bucketId: folders, sourceKey: key, destinationKey: theirs, ...fields },
        { as: ada },
      )
    assertRefused(await ask({}), 403, 'AccessDenied')
    assertRefused(await ask({ destinationKey: fresh(), destinationBucket: closed }), 403, 'AccessDenied')
    const nowhere = unique('none')
    assertRefused(await ask({ destinationKey: fresh(), destinationBucket: nowhere }), 404, 'NoSuchBucket')
    assertRefused(await storage.get(`bucket/${nowhere}`), 404)
    assert.equal((await storage.read(folders, key)).toString(), 'content')
  }
  assert.ok(!(await storage.keys(folders)).includes(theirs))
})

test('1 §4.6.4 the public route of a public bucket needs no credential, but listing and writing need permission', async () => {
  const bucket = await storage.bucket({ public: true })
  await storage.store(bucket, 'a.txt', 'content')
  for (const as of ['anon', ada] as const) {
    assert.equal((await storage.read(bucket, 'a.txt', { as })).toString(), 'content')
    assert.deepEqual(bodyOf(await storage.post(`object/list/${bucket}`, { prefix: '' }, { as })), [])
    assert.deepEqual(bodyOf(await storage.post(`object/list-v2/${bucket}`, {}, { as })).objects, [])
    assertRefused(await storage.upload(bucket, 'b.txt', 'x', { as }), 403, 'AccessDenied')
    assertOneOf(await storage.delete(objectPath(bucket, 'a.txt'), undefined, { as }), [403, 404])
    assert.deepEqual(bodyOf(await storage.delete(`object/${bucket}`, { prefixes: ['a.txt'] }, { as })), [])
  }
  assert.deepEqual(await storage.keys(bucket), ['a.txt'])
})

interface Rights {
  select?: boolean
  insert?: boolean
  update?: boolean
  delete?: boolean
}
/** A bucket with these policies for authenticated users. */
async function bucketWith(rights: Rights): Promise<string> {
  const bucket = await storage.bucket()
  const mine = `bucket_id = '${bucket}'`
  const clauses: Record<string, string> = {
    select: `using (${mine})`,
    insert: `with check (${mine})`,
    update: `using (${mine}) with check (${mine})`,
    delete: `using (${mine})`,
  }
  const policies = Object.keys(rights).map(
    right =>
      `create policy "${bucket} ${right}" on storage.objects for ${right} to authenticated ${clauses[right]}`,
  )
  await storage.sql(policies.join(';'))
  await storage.store(bucket, 'a.txt', 'content')
  return bucket
}
const rightsOf = async (rights: Rights) => {
  const bucket = await bucketWith(rights)
  const replacing = { as: ada, headers: upsert }
  const destination = { bucketId: bucket, sourceKey: 'a.txt' }
  const done = async (reply: Promise<Reply>) => (await reply).status === 200
  return {
    upload: await done(storage.upload(bucket, 'new.txt', 'x', { as: ada })),
    download: await done(storage.get(objectPath(bucket, 'a.txt'), { as: ada })),
    upsert: await done(storage.upload(bucket, 'a.txt', 'y', replacing)),
    copy: await done(storage.post('object/copy', { ...destination, destinationKey: 'c.txt' }, { as: ada })),
    deleteOne: await done(storage.delete(objectPath(bucket, 'a.txt'), undefined, { as: ada })),
    move: await (async () => {
      await storage.store(bucket, 'a.txt', 'again', { headers: upsert })
      return done(storage.post('object/move', { ...destination, destinationKey: 'm.txt' }, { as: ada }))
    })(),
  }
}
const none = { upload: false, download: false, upsert: false, copy: false, deleteOne: false, move: false }

for (const [what, rights, may] of [
  ['SELECT only: download', { select: true }, { download: true }],
  ['INSERT only: upload', { insert: true }, { upload: true }],
  [
    'SELECT and INSERT: download, upload and copy',
    { select: true, insert: true },
    { download: true, upload: true, copy: true },
  ],
  ['SELECT and UPDATE: download and move', { select: true, update: true }, { download: true, move: true }],
  [
    'SELECT and DELETE: download and delete',
    { select: true, delete: true },
    { download: true, deleteOne: true },
  ],
  [
    'INSERT and UPDATE without SELECT: upload, but no upsert',
    { insert: true, update: true },
    { upload: true },
  ],
  ['DELETE and UPDATE only: nothing', { delete: true, update: true }, {}],
  [
    'INSERT, SELECT and UPDATE: everything but delete',
    { select: true, insert: true, update: true },
    { download: true, upload: true, copy: true, upsert: true, move: true },
  ],
] as const)
  test(`contract §9 with ${what}`, async () => {
    assert.deepEqual(await rightsOf(rights), { ...none, ...may })
  })

test('contract §9 policies can use the folder, file name and extension of a key, the owner and the caller', async () => {
  const own = await storageProject(it)
  const bucket = await own.bucket()
  const rows = await own.sql(`select storage.foldername('a/b/c.tar.gz') as folders,
    storage.foldername('c.txt') as top, storage.filename('a/b/c.txt') as file, storage.extension('a/b/c.txt') as extension`)
  assert.deepEqual(rows, [{ folders: ['a', 'b'], top: [], file: 'c.txt', extension: 'txt' }])
  await own.sql(`
    create policy images on storage.objects for select to anon using (storage.extension(name) = 'png');
    create policy named on storage.objects for select to anon using (storage.filename(name) = 'readme.txt');
    create policy owned on storage.objects for select to authenticated using (owner_id = auth.uid()::text and owner = auth.uid());
    create policy mail on storage.objects for insert to authenticated with check (auth.email() = 'ada@example.test' and path_tokens[1] = 'mail');
    create policy claim on storage.objects for delete to authenticated using ((auth.jwt() -> 'app_metadata' ->> 'plan') = 'pro')`)
  for (const key of ['a.png', 'x/readme.txt', 'x/other.txt']) await own.store(bucket, key)
  const seenBy = async (as: Caller) => {
    const { objects } = bodyOf(await own.post(`object/list-v2/${bucket}`, {}, { as }))
    return objects.map(({ name }: any) => name)
  }
  assert.deepEqual(await seenBy('anon'), ['a.png', 'x/readme.txt'])
  assert.deepEqual(await seenBy(ada), [])
  bodyOf(await own.upload(bucket, 'mail/a.txt', 'x', { as: ada }))
  assert.deepEqual(await seenBy(ada), ['mail/a.txt'])
  assertRefused(await own.upload(bucket, 'else/a.txt', 'x', { as: ada }), 403, 'AccessDenied')
  assertRefused(await own.upload(bucket, 'mail/b.txt', 'x', { as: bob }), 403, 'AccessDenied')
  assertOneOf(await own.delete(objectPath(bucket, 'mail/a.txt'), undefined, { as: ada }), [403, 404])
  const pro = { ...ada, app_metadata: { plan: 'pro' } }
  bodyOf(await own.delete(objectPath(bucket, 'mail/a.txt'), undefined, { as: pro }))
})

test('contract §9 policies can use the content type and user metadata of an upload', async () => {
  const own = await storageProject(it)
  const bucket = await own.bucket()
  await own.sql(`
    create policy images on storage.objects for insert to authenticated with check (metadata ->> 'mimetype' like 'image/%');
    create policy drafts on storage.objects for insert to anon with check (user_metadata ->> 'state' = 'draft')`)
  const image = { 'content-type': 'image/png' }
  const draft = { 'x-metadata': Buffer.from('{"state":"draft"}').toString('base64') }
  assertRefused(await own.upload(bucket, 'a', 'x', { as: ada }), 403, 'AccessDenied')
  assertRefused(await own.upload(bucket, 'a', 'x', { as: 'anon' }), 403, 'AccessDenied')
  assertStatus(await own.upload(bucket, 'a', 'x', { as: ada, headers: image }), 200)
  assertStatus(await own.upload(bucket, 'b', 'x', { as: 'anon', headers: draft }), 200)
  const form = new FormData()
  form.append('', new Blob(['x'], { type: 'image/png' }))
  assertStatus(await own.ask('POST', objectPath(bucket, 'c'), { raw: form, as: ada }), 200)
  const fields = { contentType: 'image/png' }
  assertStatus(
    await requestUpload(own, { bucket, key: 'd', length: 1, first: Buffer.from('x'), fields, as: ada }),
    201,
  )
  assertStatus(await requestUpload(own, { bucket, key: 'e', length: 1, as: ada }), 403)
})

test('contract §9 policies on storage.buckets control who reads, creates, changes and deletes buckets', async () => {
  const own = await storageProject(it)
  const bucket = await own.bucket({ public: true })
  for (const as of others) {
    assert.deepEqual(bodyOf(await own.get('bucket', { as })), [])
    assertOneOf(await own.get(`bucket/${bucket}`, { as }), [404])
    assertRefused(await own.post('bucket', { id: unique('x') }, { as }), 403, 'AccessDenied')
    assertOneOf(await own.put(`bucket/${bucket}`, { public: false }, { as }), [403, 404])
    assertOneOf(await own.delete(`bucket/${bucket}`, {}, { as }), [403, 404])
  }
  await own.sql(`
    create policy seen on storage.buckets for select to authenticated using (true);
    create policy made on storage.buckets for insert to authenticated with check (name like 'mine-%');
    create policy changed on storage.buckets for update to authenticated using (owner = auth.uid());
    create policy deleted on storage.buckets for delete to authenticated using (owner = auth.uid())`)
  const mine = unique('mine')
  bodyOf(await own.post('bucket', { id: mine }, { as: ada }))
  assert.equal(bodyOf(await own.get(`bucket/${mine}`, { as: bob })).owner, ada.sub)
  assertRefused(await own.post('bucket', { id: unique('other') }, { as: ada }), 403, 'AccessDenied')
  assert.equal(bodyOf(await own.get('bucket', { as: bob })).length, 2)
  assert.deepEqual(bodyOf(await own.get('bucket', { as: 'anon' })), [])
  assertOneOf(await own.put(`bucket/${mine}`, { public: true }, { as: bob }), [403, 404])
  assertOneOf(await own.delete(`bucket/${mine}`, {}, { as: bob }), [403, 404])
  bodyOf(await own.put(`bucket/${mine}`, { public: true }, { as: ada }))
  bodyOf(await own.delete(`bucket/${mine}`, {}, { as: ada }))
  assert.equal(bodyOf(await own.get(`bucket/${bucket}`)).public, true)
})

test('1 §5 a dropped policy takes effect with the next request', async () => {
  const bucket = await bucketWith({ select: true })
  const look = async () => (await storage.get(objectPath(bucket, 'a.txt'), { as: ada })).status
  assert.equal(await look(), 200)
  await storage.sql(`drop policy "${bucket} select" on storage.objects`)
  assert.equal(await look(), 404)
})

test('contract §8 permission to write is checked again for every part of a resumable upload', async () => {
  const bucket = await bucketWith({ insert: true })
  const created = await requestUpload(storage, { bucket, key: 'r.txt', length: 6, as: ada })
  const upload = resumable(storage, created, { as: ada })
  assertStatus(await upload.append(0, Buffer.from('abc')), 204)
  await storage.sql(`drop policy "${bucket} insert" on storage.objects`)
  assertStatus(await upload.append(3, Buffer.from('def')), 403)
  assertStatus(await upload.terminate(), 403)
  assert.deepEqual(await storage.keys(bucket), ['a.txt'])
})

test('contract §8 only the user who created a resumable upload can continue it', async () => {
  const key = fresh()
  const upload = resumable(
    storage,
    await requestUpload(storage, { bucket: folders, key, length: 3, as: ada }),
    {
      as: ada,
    },
  )
  for (const as of others) {
    assertOneOf(await upload.append(0, Buffer.from('bad'), { as }), [403, 404])
    assertOneOf(await upload.head({ as }), [403, 404])
    assertOneOf(await upload.terminate({ as }), [403, 404])
  }
  assertStatus(await upload.append(0, Buffer.from('abc')), 204)
  assert.equal((await storage.read(folders, key, { as: ada })).toString(), 'abc')
})

test('1 §5 applications cannot access storage tables through the rows API', async () => {
  await stored()
  const { id, anon_key } = storage.project
  for (const path of ['objects', 'buckets', 'objects?select=name']) {
    const reply = await it.call('GET', `/v1/rest/${id}/${path}`, {
      apikey: anon_key,
      headers: { 'accept-profile': 'storage' },
    })
    assert.ok(reply.status >= 400 && reply.status < 500, `${reply.status} ${reply.text}`)
  }
})

test('contract §5 a URL signed by a user works for everyone who has it', async () => {
  const key = await stored()
  const reply = await storage.post(objectPath(folders, key, 'object/sign'), { expiresIn: 60 }, { as: ada })
  const url = bodyOf(reply).signedURL
  assert.equal((await storage.get(url.slice(1), { as: 'nobody' })).text, 'content')
  assert.notEqual(tokenIn(url), '')
})
