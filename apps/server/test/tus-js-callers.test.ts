// The unmodified tus-js-client: users under policies, signed tokens, and what is refused.
import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import type { UploadOptions } from 'tus-js-client'
import { signJwt } from '#src/kernel/crypto/jwt.ts'
import { sql } from '#src/kernel/postgres/sql.ts'
import { startPlatform, type TestPlatform } from './harness.ts'
import { mebibyte, randomFile, rejectionOf, sha256, type TusProject, tusProject } from './tus-files.ts'

const ada = '11111111-1111-4111-8111-111111111111'
const bob = '22222222-2222-4222-8222-222222222222'
let platform: TestPlatform
let files: TusProject

before(async () => {
  platform = await startPlatform({ settings: { PLATFORM_RATE_LIMIT_SERVICE_ROLE: '0' } })
  const project = await platform.createProject()
  files = tusProject(project, `${platform.url}/v1/${project.id}/storage/v1`)
  await bucket({ id: 'files' })
  await script(`create policy own on storage.objects to authenticated
    using (bucket_id = 'files' and (storage.foldername(name))[1] = auth.uid()::text)
    with check (bucket_id = 'files' and (storage.foldername(name))[1] = auth.uid()::text)`)
})
after(() => platform?.stop())

async function bucket(body: object): Promise<void> {
  const reply = await platform.call('POST', `/v1/storage/${files.id}/bucket`, {
    apikey: files.service_role_key,
    body,
  })
  assert.equal(reply.status, 200, JSON.stringify(reply.body))
}
async function script(text: string): Promise<void> {
  const ref = await platform.refOf(files.id)
  await platform.app.databases.asOwner({ ref }, session => session.script(text))
}
function as(id: string): { headers: Record<string, string> } {
  const token = signJwt({ sub: id, role: 'authenticated' }, files.jwt_secret)
  return { headers: { apikey: files.anon_key, authorization: `Bearer ${token}` } }
}
const anonymous = () => ({ headers: { apikey: files.anon_key } })

async function signed(path: string, upsert = false): Promise<string> {
  const { status, body } = await platform.call(
    'POST',
    `/v1/storage/${files.id}/object/upload/sign/files/${path}`,
    {
      apikey: files.service_role_key,
      body: {},
      headers: upsert ? { 'x-upsert': 'true' } : {},
    },
  )
  assert.equal(status, 200, JSON.stringify(body))
  return body.token
}

test('tus: a user uploads where a policy allows it, and owns the file', async () => {
  const file = randomFile(2 * mebibyte + 3)
  await files.send(file, `${ada}/mine`, { ...as(ada), chunkSize: mebibyte })
  assert.equal(await files.hashOf(`${ada}/mine`), sha256(file))
  const owners = await platform.asSuperuser(await platform.refOf(files.id), session =>
    session.rows(sql`select owner_id from storage.objects where name = ${`${ada}/mine`}`),
  )
  assert.deepEqual(owners, [{ owner_id: ada }])
})

test('tus: an upload is rejected at creation without write permission', async () => {
  const file = randomFile(100)
  assert.equal((await rejectionOf(files.send(file, `${ada}/forged`, as(bob))))[0], 403)
  assert.equal((await rejectionOf(files.send(file, `${ada}/forged`, anonymous())))[0], 403)
  assert.equal((await rejectionOf(files.send(file, `${bob}/../${ada}/forged`, as(bob))))[0], 400)
  assert.equal((await rejectionOf(files.send(file, `${ada}/forged`, { headers: {} })))[0], 401)
  const bad = { headers: { apikey: files.anon_key, authorization: 'Bearer nonsense' } }
  assert.equal((await rejectionOf(files.send(file, `${ada}/forged`, bad)))[0], 401)
  assert.equal((await files.fetch('HEAD', `object/files/${ada}/forged`)).status, 404)
})

/** An upload of Ada that is aborted after one of two chunks. */
async function begun(
  name: string,
  options: Partial<UploadOptions> = as(ada),
): Promise<{ url: string; file: Buffer }> {
  const file = randomFile(2000)
  const { promise, resolve } = Promise.withResolvers<void>()
  const sending = files.sending(file, name, {
    chunkSize: 1000,
    ...options,
    onChunkComplete: () => void sending.upload.abort().then(resolve),
  })
  sending.upload.start()
  await Promise.race([promise, sending.over])
  return { url: sending.upload.url!, file }
}

test('tus: other users cannot read, append to or delete an upload', async () => {
  const { url, file } = await begun(`${ada}/begun`)
  const ask = (method: string, headers: Record<string, string>) =>
    fetch(url, {
      method,
      headers: {
        'tus-resumable': '1.0.0',
        ...headers,
        ...(method === 'PATCH' && {
          'upload-offset': '1000',
          'content-type': 'application/offset+octet-stream',
        }),
      },
      ...(method === 'PATCH' && { body: file.subarray(1000) }),
    })
  for (const { headers } of [as(bob), anonymous()])
    for (const method of ['PATCH', 'DELETE', 'HEAD'])
      assert.ok([403, 404].includes((await ask(method, headers)).status), method)
  assert.equal((await ask('PATCH', {})).status, 401)
  assert.equal((await ask('PATCH', as(ada).headers)).status, 204)
  assert.equal(await files.hashOf(`${ada}/begun`), sha256(file))
})

test('tus: a revoked permission ends an upload', async () => {
  await script(`create policy shared on storage.objects to authenticated
    using (bucket_id = 'files' and name like 'shared/%') with check (bucket_id = 'files' and name like 'shared/%')`)
  const { url, file } = await begun('shared/a')
  await script('drop policy shared on storage.objects')
  const [status] = await rejectionOf(
    files.send(file, 'shared/a', { ...as(ada), uploadUrl: url, endpoint: null }),
  )
  assert.equal(status, 403)
  assert.equal((await files.fetch('HEAD', 'object/files/shared/a')).status, 404)
})

test('tus: in a user- bucket the name in the metadata must be in the own folder', async () => {
  const metadata = { bucketName: 'user-docs' }
  const file = randomFile(10)
  await files.send(file, `${ada}/a`, { ...as(ada), metadata })
  const [status] = await rejectionOf(files.send(file, `${ada}/b`, { ...as(bob), metadata }))
  assert.equal(status, 403)
  const reply = await files.fetch('GET', `object/user-docs/${ada}/a`)
  assert.equal(sha256(Buffer.from(await reply.arrayBuffer())), sha256(file))
})

test('tus: a signed token is sufficient without a key', async () => {
  const endpoint = `${files.base}/upload/resumable/sign`
  const file = randomFile(3000)
  const token = await signed('by-token')
  const sent = await files.send(file, 'by-token', {
    endpoint,
    headers: { 'x-signature': token },
    chunkSize: 1000,
  })
  assert.deepEqual(sent.requests, ['POST 201', 'PATCH 204', 'PATCH 204', 'PATCH 204'])
  assert.ok(sent.upload.url!.startsWith(`${endpoint}/`), sent.upload.url!)
  assert.equal(await files.hashOf('by-token'), sha256(file))
})

test('tus: a signed upload can be resumed and deleted, and replaces only if that was signed', async () => {
  const endpoint = `${files.base}/upload/resumable/sign`
  const headers = { 'x-signature': await signed('left') }
  const { url, file } = await begun('left', { endpoint, headers })
  const other = { 'x-signature': await signed('other') }
  for (const wrong of [{}, other, { 'x-signature': 'none' }]) {
    const reply = await fetch(url, { method: 'HEAD', headers: { 'tus-resumable': '1.0.0', ...wrong } })
    assert.ok(reply.status >= 400 && reply.status < 500, `${reply.status}`)
  }
  const resumed = await files.send(file, 'left', { endpoint, headers, uploadUrl: url })
  assert.deepEqual(resumed.requests, ['HEAD 200', 'PATCH 204'])
  assert.equal(await files.hashOf('left'), sha256(file))
  const fresh = randomFile(500)
  assert.equal((await rejectionOf(files.send(fresh, 'left', { endpoint, headers })))[0], 409)
  const upserting = { ...headers, 'x-upsert': 'true' }
  assert.equal((await rejectionOf(files.send(fresh, 'left', { endpoint, headers: upserting })))[0], 409)
  const replacing = { 'x-signature': await signed('left', true) }
  await files.send(fresh, 'left', { endpoint, headers: replacing })
  assert.equal(await files.hashOf('left'), sha256(fresh))
})

test('tus: an invalid token, or one for another name, creates no upload', async () => {
  const endpoint = `${files.base}/upload/resumable/sign`
  const token = await signed('one')
  for (const headers of [{}, { 'x-signature': `${token}x` }, { 'x-signature': 'a.b.c' }]) {
    const [status] = await rejectionOf(files.send(randomFile(10), 'one', { endpoint, headers }))
    assert.ok([400, 401, 403].includes(status!), `${status}`)
  }
  const [status] = await rejectionOf(
    files.send(randomFile(10), 'two', { endpoint, headers: { 'x-signature': token } }),
  )
  assert.ok([400, 403].includes(status!), `${status}`)
})

test('tus: the limits of the bucket are checked at creation', async () => {
  await bucket({ id: 'small', file_size_limit: 1000, allowed_mime_types: ['image/*'] })
  const image = { bucketName: 'small', contentType: 'image/png' }
  const [tooLarge, text] = await rejectionOf(files.send(randomFile(1001), 'a', { metadata: image }))
  assert.equal(tooLarge, 413, text)
  const page = { bucketName: 'small', contentType: 'text/html' }
  assert.equal((await rejectionOf(files.send(randomFile(10), 'a', { metadata: page })))[0], 415)
  await files.send(randomFile(1000), 'a', { metadata: image })
  // The server learns a deferred length only during the upload, and rejects it then.
  const late = files.send(randomFile(1500), 'b', {
    metadata: image,
    uploadLengthDeferred: true,
    chunkSize: 700,
  })
  assert.equal((await rejectionOf(late))[0], 413)
  assert.equal((await files.fetch('HEAD', 'object/small/b')).status, 404)
})

test('tus: a creation without a name or bucket is 400, and an unknown bucket is 404', async () => {
  const file = randomFile(10)
  const without = async (metadata: Record<string, string>) =>
    (await rejectionOf(files.send(file, 'x', { metadata })))[0]
  assert.equal(await without({ bucketName: '' }), 400)
  assert.equal(await without({ objectName: '' }), 400)
  assert.equal(await without({ objectName: '../up' }), 400)
  assert.equal(await without({ metadata: 'no JSON' }), 400)
  const nowhere = { ...as(ada), metadata: { bucketName: 'nowhere' } }
  assert.equal((await rejectionOf(files.send(file, 'x', nowhere)))[0], 404)
})

test('tus: a length over the quota is 413 at creation', async () => {
  const project = await platform.projects.create({
    body: { name: 'small', quotas: { max_storage_size_mb: 1 } },
  })
  const here = tusProject(project, `${platform.url}/v1/${project.id}/storage/v1`)
  const [status, text] = await rejectionOf(here.send(randomFile(mebibyte + 1), 'a'))
  assert.equal(status, 413)
  assert.match(text, /storage_quota_exceeded/)
  await here.send(randomFile(mebibyte - 1000), 'a')
  assert.equal((await rejectionOf(here.send(randomFile(2000), 'b')))[0], 413)
})
