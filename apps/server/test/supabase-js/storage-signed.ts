// Signed URLs for one file, fetched like in a browser.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import { ada, done, folder, type Stage, statusAndCode } from './storage-stage.ts'

const invalid = (status: unknown) => assert.equal(status, 400)

export function signedTests(stage: () => Stage): void {
  test('a signed URL downloads one file without headers, until it expires', async () => {
    const { files, base } = stage()
    const path = `${folder()}/a b+c&d.json`
    done(await files.upload(path, '{"a":1}', { contentType: 'application/json' }))
    const { signedUrl } = done(await files.createSignedUrl(path, 60))
    assert.ok(signedUrl.startsWith(`${base}/object/sign/private/`), signedUrl)
    const reply = await fetch(signedUrl)
    assert.deepEqual([reply.status, await reply.text()], [200, '{"a":1}'])
    assert.equal(reply.headers.get('content-type'), 'application/json')
    assert.equal(reply.headers.get('content-disposition')?.startsWith('attachment') ?? false, false)
    const ends = Date.parse(reply.headers.get('expires')!) - Date.now()
    assert.ok(ends > 30_000 && ends <= 61_000, `${ends} ms`)
    const part = await fetch(signedUrl, { headers: { range: 'bytes=1-3' } })
    assert.deepEqual([part.status, await part.text()], [206, '"a"'])
    assert.equal((await fetch(signedUrl, { method: 'HEAD' })).status, 200)
    const short = done(await files.createSignedUrl(path, 4)).signedUrl
    assert.equal((await fetch(short)).status, 200)
    await sleep(4100)
    const late = await fetch(short)
    invalid(late.status)
    const { code, message } = (await late.json()) as { code: string; message: string }
    assert.ok(['InvalidJWT', 'ExpiredToken'].includes(code), code)
    assert.match(message, /exp/i)
  })

  test('a signed URL supports a download name', async () => {
    const { files } = stage()
    const path = `${folder()}/plain.txt`
    done(await files.upload(path, 'x'))
    const disposition = async (download: string | boolean) => {
      const { signedUrl } = done(await files.createSignedUrl(path, 60, { download, cacheNonce: '1' }))
      const reply = await fetch(signedUrl)
      assert.equal(reply.status, 200)
      return reply.headers.get('content-disposition')
    }
    assert.match((await disposition(true))!, /^attachment;?$/)
    // The published client encodes non-ASCII characters twice.
    const named = (await disposition('to day.txt'))!
    assert.match(named, /^attachment; filename=.*; filename\*=UTF-8''to%20day\.txt$/)
  })

  test('a signed URL is valid only for its file', async () => {
    const { files, shown, base } = stage()
    const at = folder()
    for (const path of [`${at}/a`, `${at}/b`]) done(await files.upload(path, path))
    done(await shown.upload(`${at}/a`, 'public'))
    const token = new URL(done(await files.createSignedUrl(`${at}/a`, 60)).signedUrl).searchParams.get(
      'token',
    )!
    const statusOf = async (path: string, method = 'GET') =>
      (await fetch(`${base}/${path}?token=${token}`, { method })).status
    assert.equal(await statusOf(`object/sign/private/${at}/a`), 200)
    invalid(await statusOf(`object/sign/private/${at}/b`))
    invalid(await statusOf(`object/sign/shown/${at}/a`))
    invalid(await statusOf(`object/sign/private/${at}/a/../b`))
    invalid(await statusOf(`render/image/sign/private/${at}/b`))
    invalid(await statusOf(`object/upload/sign/private/${at}/a`, 'PUT'))
    const [head, body, signature] = token.split('.')
    for (const forged of [
      '',
      'x',
      `${head}.${body}.`,
      `${head}.${body}.${signature}A`,
      `${head}.e30.${signature}`,
    ]) {
      const reply = await fetch(`${base}/object/sign/private/${at}/a?token=${forged}`)
      assert.equal(reply.status, 400, forged)
    }
    // Its token is not valid as a user token.
    const asUser = await fetch(`${base}/object/private/${at}/a`, {
      headers: { apikey: stage().project.anon_key, authorization: `Bearer ${token}` },
    })
    assert.equal(asUser.status, 401)
  })

  test('createSignedUrls returns the URLs in order, and an error for each missing file', async () => {
    const { files, user, sql } = stage()
    const at = folder()
    const paths = [`${at}/b`, `${at}/none`, `${at}/a`]
    for (const path of [`${at}/a`, `${at}/b`, `${at}/hidden`]) done(await files.upload(path, path))
    const urls = done(await files.createSignedUrls(paths, 60, { download: 'x.txt' }))
    assert.deepEqual(
      urls.map(({ path, error }) => [path, typeof error]),
      [
        [`${at}/b`, 'object'],
        [`${at}/none`, 'string'],
        [`${at}/a`, 'object'],
      ],
    )
    assert.deepEqual([urls[1]!.signedUrl, urls[1]!.signedURL], [null, null])
    for (const { path, signedUrl } of [urls[0]!, urls[2]!]) {
      const reply = await fetch(signedUrl!)
      assert.equal(await reply.text(), path)
      assert.match(reply.headers.get('content-disposition')!, /x\.txt/)
    }
    await sql(
      `create policy signed_${at} on storage.objects for select to authenticated using (name = '${at}/a')`,
    )
    const asAda = done(
      await user(ada)
        .from('private')
        .createSignedUrls([`${at}/a`, `${at}/hidden`], 60),
    )
    assert.deepEqual(
      asAda.map(each => each.signedUrl === null),
      [false, true],
      'a hidden file counts as missing',
    )
    const later = done(await files.createSignedUrls([`${at}/a`], 60, { cacheNonce: '7' }))
    assert.equal((await fetch(later[0]!.signedUrl!)).status, 200)
    assert.equal(statusAndCode((await files.createSignedUrls([`${at}/a`], 0)).error)[0], 400)
  })

  test('a signed URL returns the replaced file, and 404 after its removal', async () => {
    const { files } = stage()
    const path = `${folder()}/a`
    done(await files.upload(path, 'old'))
    const { signedUrl } = done(await files.createSignedUrl(path, 60))
    done(await files.update(path, 'new'))
    assert.equal(await (await fetch(signedUrl)).text(), 'new')
    done(await files.remove([path]))
    assert.equal((await fetch(signedUrl)).status, 404)
  })
}
