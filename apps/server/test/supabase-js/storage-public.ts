// Public files, fetched like in a browser.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { done, folder, type Stage } from './storage-stage.ts'

export function publicTests(stage: () => Stage): void {
  test('a public URL needs no headers and supports a download name', async () => {
    const { shown, base } = stage()
    const path = `${folder()}/it's + me.txt`
    done(await shown.upload(path, 'everybody', { cacheControl: '77' }))
    const { publicUrl } = shown.getPublicUrl(path).data
    assert.ok(publicUrl.startsWith(`${base}/object/public/shown/`), publicUrl)
    const reply = await fetch(publicUrl)
    assert.deepEqual([reply.status, await reply.text()], [200, 'everybody'])
    assert.equal(reply.headers.get('cache-control'), 'max-age=77')
    const etag = reply.headers.get('etag')!
    const again = await fetch(publicUrl, { headers: { 'if-none-match': etag } })
    assert.deepEqual([again.status, await again.text()], [304, ''])
    const head = await fetch(publicUrl, { method: 'HEAD' })
    assert.deepEqual([head.status, head.headers.get('content-length')], [200, '9'])
    const saved = shown.getPublicUrl(path, { download: 'Grüße "heute".txt', cacheNonce: '1' }).data.publicUrl
    assert.match(
      (await fetch(saved)).headers.get('content-disposition')!,
      /^attachment; filename=.*; filename\*=UTF-8''Gr%C3%BC%C3%9Fe%20%22heute%22\.txt$/,
    )
    const unnamed = shown.getPublicUrl(path, { download: true }).data.publicUrl
    assert.match((await fetch(unnamed)).headers.get('content-disposition')!, /^attachment/)
    // The route without `public` works as well for a public bucket.
    const plain = await fetch(publicUrl.replace('/object/public/', '/object/'))
    assert.equal(await plain.text(), 'everybody')
  })

  test('a private file, a missing file and a missing bucket get the same answer', async () => {
    const { service, files } = stage()
    const at = folder()
    done(await files.upload(`${at}/a`, 'x'))
    const answers = []
    for (const [bucket, path] of [
      ['private', `${at}/a`],
      ['private', `${at}/b`],
      [folder(), `${at}/a`],
    ] as const) {
      const reply = await fetch(service.from(bucket).getPublicUrl(path).data.publicUrl)
      answers.push([reply.status, await reply.text()])
    }
    assert.equal(answers[0]![0], 404)
    assert.deepEqual(answers[1], answers[0])
    assert.deepEqual(answers[2], answers[0])
  })

  test('active content is sent as an attachment', async () => {
    const { shown } = stage()
    const at = folder()
    for (const [contentType, inline] of Object.entries({
      'image/png': true,
      'application/pdf': true,
      'text/plain': true,
      'text/html': false,
      'image/svg+xml': false,
      'application/xhtml+xml': false,
    })) {
      const path = `${at}/${contentType.replace('/', '-')}`
      done(await shown.upload(path, '<script>alert(1)</script>', { contentType }))
      const { headers } = await fetch(shown.getPublicUrl(path).data.publicUrl)
      assert.equal(
        headers.get('content-disposition')?.startsWith('attachment') ?? false,
        !inline,
        contentType,
      )
      if (!inline) assert.equal(headers.get('x-content-type-options'), 'nosniff')
    }
  })
}
