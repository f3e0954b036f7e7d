// Image transformations in downloads, public URLs and signed URLs, and their cache.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import sharp from 'sharp'
import { bytesOf, done, folder, type Stage, statusAndCode } from './storage-stage.ts'

const red = { r: 200, g: 30, b: 30 }
const blue = { r: 30, g: 30, b: 200 }

/** A single-colour image of 400 by 200 pixels. */
const picture = (background: typeof red, format: 'png' | 'jpeg' = 'png') =>
  sharp({ create: { width: 400, height: 200, channels: 3, background } })
    .toFormat(format)
    .toBuffer()

async function looked(image: Blob | Response) {
  const bytes = Buffer.from(await image.arrayBuffer())
  const { width, height, format } = await sharp(bytes).metadata()
  return { size: [width, height], format, bytes }
}

async function uploaded({ files }: Pick<Stage, 'files'>, format: 'png' | 'jpeg' = 'png', background = red) {
  const path = `${folder()}/picture.${format}`
  done(await files.upload(path, await picture(background, format), { contentType: `image/${format}` }))
  return path
}

export function transformTests(stage: () => Stage): void {
  test('one side keeps the aspect ratio, and both sides crop, fit or stretch', async () => {
    const { files } = stage()
    const path = await uploaded(stage())
    const sizeOf = async (transform: object) => {
      const blob = done(await files.download(path, { transform }))
      assert.match(blob.type, /^image\//)
      return (await looked(blob)).size
    }
    assert.deepEqual(await sizeOf({ width: 100 }), [100, 50])
    assert.deepEqual(await sizeOf({ height: 50 }), [100, 50])
    assert.deepEqual(await sizeOf({ width: 60, height: 60 }), [60, 60])
    assert.deepEqual(await sizeOf({ width: 60, height: 60, resize: 'cover' }), [60, 60])
    assert.deepEqual(await sizeOf({ width: 60, height: 60, resize: 'contain' }), [60, 30])
    assert.deepEqual(await sizeOf({ width: 60, height: 70, resize: 'fill' }), [60, 70])
    assert.deepEqual(await sizeOf({ quality: 50 }), [400, 200])
    const original = done(await files.download(path))
    assert.deepEqual((await looked(original)).size, [400, 200])
  })

  test('a lower quality gives a smaller file, and format keeps or changes the type', async () => {
    const { files, service } = stage()
    const path = `${folder()}/noise.jpeg`
    const noise = {
      create: {
        width: 300,
        height: 300,
        channels: 3,
        background: red,
        noise: { type: 'gaussian', mean: 128, sigma: 40 },
      },
    } as const
    done(await files.upload(path, await sharp(noise).jpeg().toBuffer(), { contentType: 'image/jpeg' }))
    const at = async (transform: object) => looked(done(await files.download(path, { transform })))
    const [rough, fine] = [
      await at({ width: 200, quality: 20, format: 'origin' }),
      await at({ width: 200, quality: 100, format: 'origin' }),
    ]
    assert.ok(rough.bytes.length < fine.bytes.length / 2, `${rough.bytes.length} and ${fine.bytes.length}`)
    assert.equal(rough.format, 'jpeg')
    assert.equal((await at({ width: 200, format: 'webp' })).format, 'webp')
    // Without a format the Accept header decides.
    const accepting = service.from('private').setHeader('accept', 'image/webp,image/*')
    const negotiated = done(await accepting.download(path, { transform: { width: 100 } }))
    assert.deepEqual([negotiated.type, (await looked(negotiated)).format], ['image/webp', 'webp'])
    const kept = done(await accepting.download(path, { transform: { width: 100, format: 'origin' } }))
    assert.equal((await looked(kept)).format, 'jpeg')
  })

  test('a transformed image can be streamed, and needs the same permission as the file', async () => {
    const { files, anon } = stage()
    const path = await uploaded(stage())
    const transform = { width: 40 }
    const stream = done(await files.download(path, { transform }).asStream())
    assert.deepEqual((await looked(new Response(stream))).size, [40, 20])
    const hidden = await anon.from('private').download(path, { transform })
    assert.deepEqual(statusAndCode(hidden.error), [404, 404, 'NoSuchKey'])
  })

  test('a public URL transforms images of public buckets only', async () => {
    const { shown, files, base } = stage()
    const path = await uploaded({ files: shown })
    const { publicUrl } = shown.getPublicUrl(path, { transform: { width: 80, height: 80 } }).data
    assert.ok(publicUrl.startsWith(`${base}/render/image/public/shown/`), publicUrl)
    const reply = await fetch(publicUrl)
    assert.equal(reply.status, 200)
    assert.match(reply.headers.get('x-transformations')!, /width:80/)
    assert.deepEqual((await looked(reply)).size, [80, 80])
    const hidden = files.getPublicUrl(await uploaded(stage()), { transform: { width: 80 } }).data.publicUrl
    assert.equal((await fetch(hidden)).status, 404)
    const named = shown.getPublicUrl(path, { transform: { width: 80 }, download: 'small.png' }).data.publicUrl
    assert.match((await fetch(named)).headers.get('content-disposition')!, /small\.png/)
  })

  test('a signed URL uses the signed transformation, regardless of its query', async () => {
    const { files, base } = stage()
    const path = await uploaded(stage())
    const transform = { width: 50, height: 40, resize: 'fill', quality: 60 } as const
    const { signedUrl } = done(await files.createSignedUrl(path, 60, { transform, download: 'x.png' }))
    assert.ok(signedUrl.startsWith(`${base}/render/image/sign/private/`), signedUrl)
    const reply = await fetch(`${signedUrl}&width=300&height=300`)
    assert.deepEqual((await looked(reply)).size, [50, 40])
    assert.match(reply.headers.get('content-disposition')!, /x\.png/)
    const other = await uploaded(stage())
    assert.equal((await fetch(signedUrl.replace(path, other))).status, 400)
    // A URL signed for a transformation does not return the original.
    const original = await fetch(signedUrl.replace('/render/image/sign/', '/object/sign/'))
    if (original.status === 200) assert.deepEqual((await looked(original)).size, [50, 40])
  })

  test('invalid transformations and files that are not images are rejected', async () => {
    const { files } = stage()
    const path = await uploaded(stage())
    for (const transform of [
      { quality: 19 },
      { quality: 101 },
      { width: -1 },
      { width: 1.5 },
      { width: 10, resize: 'twist' as 'fill' },
      { format: 'exe' as 'origin' },
    ])
      assert.deepEqual(
        statusAndCode((await files.download(path, { transform })).error),
        [400, 400, 'InvalidRequest'],
        JSON.stringify(transform),
      )
    const text = `${folder()}/not-an-image.png`
    done(await files.upload(text, 'just words', { contentType: 'image/png' }))
    const [status] = statusAndCode((await files.download(text, { transform: { width: 10 } })).error)
    assert.ok([400, 422].includes(status as number), `${status}`)
    const missing = await files.download(`${path}.none`, { transform: { width: 10 } })
    assert.deepEqual(statusAndCode(missing.error), [404, 404, 'NoSuchKey'])
  })

  test('a transformed image is current after a replacement, a removal and a cache purge', async () => {
    const { files, service, anon } = stage()
    const path = await uploaded(stage())
    const transform = { width: 10 }
    const colour = async () => {
      const blob = done(await files.download(path, { transform }))
      const { channels } = await sharp(await bytesOf(blob)).stats()
      return channels[0]!.mean > channels[2]!.mean ? 'red' : 'blue'
    }
    assert.equal(await colour(), 'red')
    assert.equal(await colour(), 'red')
    done(await files.update(path, await picture(blue), { contentType: 'image/png' }))
    assert.equal(await colour(), 'blue')
    assert.equal(typeof done(await files.purgeCache(path)).message, 'string')
    done(await files.purgeCache(path, { transformations: true }))
    assert.equal(typeof done(await service.purgeBucketCache('private')).message, 'string')
    done(await service.purgeBucketCache('private', { transformations: true }))
    assert.equal(await colour(), 'blue')
    for (const refused of [
      await anon.from('private').purgeCache(path),
      await anon.purgeBucketCache('private'),
    ])
      assert.equal(statusAndCode(refused.error)[0], 403)
    done(await files.remove([path]))
    assert.equal(statusAndCode((await files.download(path, { transform })).error)[0], 404)
  })
}
