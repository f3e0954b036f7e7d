// Signed URLs for the upload of one file.
import assert from 'node:assert/strict'
import { Readable } from 'node:stream'
import { test } from 'node:test'
import { ada, done, folder, type Stage, statusAndCode } from './storage-stage.ts'

const invalid = (status: unknown) => assert.equal(status, 400)

export function signedUploadTests(stage: () => Stage): void {
  test('a signed upload needs only its token', async () => {
    const { files, anon, base } = stage()
    const at = folder()
    const nobody = anon.from('private')
    const bodies = {
      blob: new Blob(['body'], { type: 'text/csv' }),
      buffer: Buffer.from('body'),
      stream: Readable.from(['bo', 'dy']),
    }
    for (const [name, body] of Object.entries(bodies)) {
      const { token, path, signedUrl } = done(await files.createSignedUploadUrl(`${at}/${name}`))
      assert.equal(path, `${at}/${name}`)
      assert.ok(signedUrl.startsWith(`${base}/object/upload/sign/private/`), signedUrl)
      const made = done(
        await nobody.uploadToSignedUrl(path, token, body, {
          contentType: 'text/csv',
          cacheControl: '9',
          metadata: { by: name },
        }),
      )
      assert.deepEqual([made.path, made.fullPath], [path, `private/${path}`])
      const { size, contentType, cacheControl, metadata } = done(await files.info(path))
      assert.deepEqual(
        [size, contentType, cacheControl, metadata],
        [4, 'text/csv', 'max-age=9', { by: name }],
      )
    }
    // Like a browser, without project headers.
    const { signedUrl } = done(await files.createSignedUploadUrl(`${at}/bare`))
    const bare = await fetch(signedUrl, {
      method: 'PUT',
      body: 'bare',
      headers: { 'content-type': 'text/css' },
    })
    assert.equal(bare.status, 200)
    assert.equal(await done(await files.download(`${at}/bare`)).text(), 'bare')
  })

  test('a signed upload replaces a file only if it was signed with upsert', async () => {
    const { files } = stage()
    const path = `${folder()}/a`
    const { token } = done(await files.createSignedUploadUrl(path))
    done(await files.uploadToSignedUrl(path, token, 'first'))
    const again = await files.uploadToSignedUrl(path, token, 'second', { upsert: true })
    assert.deepEqual(statusAndCode(again.error).slice(0, 2), [409, 409])
    assert.deepEqual(statusAndCode((await files.createSignedUploadUrl(path)).error).slice(0, 2), [409, 409])
    const replacing = done(await files.createSignedUploadUrl(path, { upsert: true }))
    done(await files.uploadToSignedUrl(path, replacing.token, 'third'))
    assert.equal(await done(await files.download(path)).text(), 'third')
  })

  test('the owner is the user who signed the URL', async () => {
    const { user, anon, files, sql } = stage()
    const at = folder()
    await sql(
      `create policy drop_${at} on storage.objects for insert to authenticated with check (name like '${at}/%')`,
    )
    const { token, path } = done(await user(ada).from('private').createSignedUploadUrl(`${at}/hers`))
    done(await anon.from('private').uploadToSignedUrl(path, token, 'x'))
    assert.equal(done(await files.remove([path]))[0]?.owner, ada)
  })

  test('an upload token is valid only for its path', async () => {
    const { files, base, service } = stage()
    const at = folder()
    const { token } = done(await files.createSignedUploadUrl(`${at}/a`))
    invalid(statusAndCode((await files.uploadToSignedUrl(`${at}/b`, token, 'x')).error)[0])
    invalid(statusAndCode((await service.from('shown').uploadToSignedUrl(`${at}/a`, token, 'x')).error)[0])
    invalid(statusAndCode((await files.uploadToSignedUrl(`${at}/a`, `${token}x`, 'x')).error)[0])
    invalid(statusAndCode((await files.uploadToSignedUrl(`${at}/a`, 'none', 'x')).error)[0])
    done(await files.upload(`${at}/a`, 'x'))
    invalid((await fetch(`${base}/object/sign/private/${at}/a?token=${token}`)).status)
    assert.equal((await files.exists(`${at}/b`)).data, false)
  })

  test('the limits of a bucket apply to signed uploads', async () => {
    const { service } = stage()
    const bucket = folder()
    done(
      await service.createBucket(bucket, {
        public: false,
        fileSizeLimit: 10,
        allowedMimeTypes: ['text/csv'],
      }),
    )
    const files = service.from(bucket)
    const { token } = done(await files.createSignedUploadUrl('a'))
    const put = (body: string, contentType: string) =>
      files.uploadToSignedUrl('a', token, body, { contentType })
    assert.equal(statusAndCode((await put('x'.repeat(11), 'text/csv')).error)[0], 413)
    assert.equal(statusAndCode((await put('x', 'text/html')).error)[0], 415)
    done(await put('x', 'text/csv'))
  })
}
