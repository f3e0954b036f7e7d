// Image rendering: the rendered images, and hostile images.
import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import { before, test } from 'node:test'
import { crc32, deflateSync } from 'node:zlib'
import sharp from 'sharp'
import { maxSourceBytes, type Renderer } from '#src/services/storage/render/renderer.ts'
import type { TransformationInput } from '#src/services/storage/render/transformation.ts'
import {
  cpuSeconds,
  imageRenderers,
  onlyProcess,
  picture,
  processesOf,
  rejection,
  renderWith,
  sizeOf,
  slowImage,
} from './image-renderers.ts'

const { newRenderer } = imageRenderers()
let renderer: Renderer
let slow: Buffer
before(async () => {
  renderer = newRenderer()
  slow = await slowImage()
})
const render = renderWith(() => renderer)

test('image rendering: each resize mode gives the documented size', async () => {
  const source = await picture(400, 200).jpeg().toBuffer()
  const sizes: [TransformationInput, string][] = [
    [{}, '400x200'],
    [{ width: 100 }, '100x50'],
    [{ height: 50 }, '100x50'],
    [{ width: 100, resize: 'fill' }, '100x50'],
    [{ width: 100, height: 100 }, '100x100'],
    [{ width: 100, height: 100, resize: 'contain' }, '100x50'],
    [{ width: 100, height: 100, resize: 'fill' }, '100x100'],
    // Larger than the original.
    [{ width: 500, height: 500 }, '500x500'],
    [{ width: 500, height: 500, resize: 'fill' }, '500x500'],
    [{ width: 500, height: 500, resize: 'contain' }, '400x200'],
    [{ width: 1000 }, '400x200'],
    [{ width: 99_999, height: 1 }, '2000x1'],
  ]
  for (const [input, size] of sizes)
    assert.equal(await sizeOf(await render(source, input)), size, JSON.stringify(input))
})

test('image rendering: cover crops, fill distorts', async () => {
  const source = await picture(400, 100).png().toBuffer()
  const leftmost = async (input: TransformationInput) => {
    const { bytes } = await render(source, { width: 100, height: 100, ...input })
    return [...(await sharp(bytes).removeAlpha().raw().toBuffer()).subarray(0, 3)]
  }
  assert.deepEqual(await leftmost({ resize: 'cover' }), [255, 0, 0])
  const { bytes } = await render(source, { width: 40, height: 40, resize: 'fill' })
  const middle = await sharp(bytes).extract({ left: 22, top: 0, width: 1, height: 1 }).raw().toBuffer()
  assert.ok(middle[2]! > 200)
})

const magic: Record<string, (bytes: Buffer) => boolean> = {
  'image/jpeg': bytes => bytes.toString('hex', 0, 3) === 'ffd8ff',
  'image/png': bytes => bytes.toString('latin1', 1, 4) === 'PNG',
  'image/webp': bytes => bytes.toString('latin1', 8, 12) === 'WEBP',
  'image/gif': bytes => bytes.toString('latin1', 0, 6) === 'GIF89a',
  'image/avif': bytes => bytes.toString('latin1', 4, 12) === 'ftypavif',
}

test('image rendering: every format converts to WebP and AVIF, or keeps its format', async () => {
  const kept = { jpeg: 'jpeg', png: 'png', webp: 'webp', gif: 'gif', avif: 'avif', tiff: 'jpeg' } as const
  for (const [kind, own] of Object.entries(kept)) {
    const source = await picture(64, 32)
      .toFormat(kind as keyof typeof kept)
      .toBuffer()
    for (const [format, type] of [
      ['webp', 'image/webp'],
      ['avif', 'image/avif'],
      ['origin', `image/${own}`],
    ] as const) {
      const rendered = await render(source, { width: 32 }, format)
      assert.equal(rendered.contentType, type, `${kind} as ${format}`)
      assert.ok(magic[type]!(rendered.bytes), `${kind} as ${format}`)
      assert.equal(await sizeOf(rendered), '32x16')
    }
  }
})

test('image rendering: a transparent TIFF becomes a transparent PNG', async () => {
  const source = await picture(64, 32).ensureAlpha(0.5).tiff({ compression: 'lzw' }).toBuffer()
  assert.equal((await render(source)).contentType, 'image/png')
})

test('image rendering: an animated image gives its first frame', async () => {
  const frames = await Promise.all(
    ['red', 'lime'].map(background =>
      sharp({ create: { width: 20, height: 20, channels: 3, background } })
        .png()
        .toBuffer(),
    ),
  )
  const source = await sharp(frames, { join: { animated: true } })
    .gif()
    .toBuffer()
  assert.equal((await sharp(source).metadata()).pages, 2)
  const { bytes } = await render(source, {}, 'webp')
  assert.equal((await sharp(bytes).metadata()).pages ?? 1, 1)
  const [red, green] = await sharp(bytes).removeAlpha().raw().toBuffer()
  assert.ok(red! > 240 && green! < 10)
})

test('image rendering: a lower quality gives a smaller file', async () => {
  for (const format of ['origin', 'webp', 'avif'] as const) {
    const [low, high] = await Promise.all(
      [20, 100].map(quality => render(slow, { width: 300, quality }, format)),
    )
    assert.ok(low!.bytes.length * 2 < high!.bytes.length, format)
  }
})

test('image rendering: a photo is rotated upright and its location metadata is removed', async () => {
  const source = await picture(40, 20)
    .jpeg()
    .withExif({ IFD0: { Copyright: 'somebody', Orientation: '6' }, IFD3: { GPSLatitudeRef: 'N' } })
    .withMetadata({ orientation: 6 })
    .toBuffer()
  assert.equal((await sharp(source).metadata()).orientation, 6)
  const rendered = await render(source)
  const { width, height, orientation, exif } = await sharp(rendered.bytes).metadata()
  assert.deepEqual(
    { width, height, orientation, exif },
    { width: 20, height: 40, orientation: undefined, exif: undefined },
  )
  // The rotation applies before the resize.
  assert.equal(await sizeOf(await render(source, { width: 10 })), '10x20')
})

function png(width: number, height: number, data: Buffer): Buffer {
  const chunk = (type: string, content: Buffer) => {
    const body = Buffer.concat([Buffer.from(type), content])
    const [length, sum] = [Buffer.alloc(4), Buffer.alloc(4)]
    length.writeUInt32BE(content.length)
    sum.writeUInt32BE(crc32(body))
    return Buffer.concat([length, body, sum])
  }
  const head = Buffer.from([0, 0, 0, 0, 0, 0, 0, 0, 8, 2, 0, 0, 0])
  head.writeUInt32BE(width, 0)
  head.writeUInt32BE(height, 4)
  return Buffer.concat([
    Buffer.from('89504e470d0a1a0a', 'hex'),
    chunk('IHDR', head),
    chunk('IDAT', data),
    chunk('IEND', Buffer.alloc(0)),
  ])
}

test('image rendering: a decompression bomb is rejected by its header within a second', async () => {
  await render(await picture(8, 8).png().toBuffer())
  const pid = await onlyProcess()
  const before = cpuSeconds(pid)
  // The full image would be 7.5 GB of one colour in 7 MB. A part is enough to start.
  const bombs = [
    png(50_000, 50_000, deflateSync(Buffer.alloc(150_001 * 200))),
    Buffer.from(
      `${Buffer.from('GIF89a').toString('hex')}ffffffff800000000000ffffff2c00000000ffffffff00020101003b`,
      'hex',
    ),
    await picture(8, 8).jpeg().toBuffer().then(withJpegSize(65_000, 65_000)),
  ]
  for (const bomb of bombs)
    await assert.rejects(render(bomb, { width: 100 }), rejection(/more than 50 megapixels/))
  assert.ok(cpuSeconds(pid) - before < 1, `${cpuSeconds(pid) - before} s`)
  assert.deepEqual(processesOf(), [pid])
})

/** Another size in the frame header (SOF0). */
const withJpegSize = (width: number, height: number) => (jpeg: Buffer) => {
  const at = jpeg.indexOf(Buffer.from('ffc0', 'hex'))
  jpeg.writeUInt16BE(height, at + 5)
  jpeg.writeUInt16BE(width, at + 7)
  return jpeg
}

test('image rendering: files that are not images, and SVG or PDF, are rejected', async () => {
  const svg =
    '<svg xmlns="http://www.w3.org/2000/svg" width="10" height="10"><rect width="5" height="5"/></svg>'
  const notImages = {
    svg,
    'svg behind a declaration': `<?xml version="1.0"?>\n<!DOCTYPE svg [<!ENTITY x SYSTEM "file:///etc/passwd">]>${svg}`,
    pdf: '%PDF-1.4\n1 0 obj<</Type/Catalog>>endobj\ntrailer<</Root 1 0 R>>',
    postscript: '%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9',
    magick: "push graphic-context\nviewbox 0 0 9 9\nfill 'url(https://127.0.0.1/)'",
    ppm: 'P6\n2 2\n255\n0123456789AB',
    vips: `${String.fromCharCode(8, 0xf2, 0xa6, 0xb6)}${'\0'.repeat(100)}`,
    csv: '1,2,3\n4,5,6\n',
    matrix: '2 2\n1 2\n3 4\n',
    html: '<html><script>alert(1)</script></html>',
  }
  for (const [what, text] of Object.entries(notImages))
    await assert.rejects(render(Buffer.from(text, 'latin1')), rejection(/not an image/), what)
  for (const size of [0, 1, 100, 100_000])
    await assert.rejects(render(randomBytes(size)), rejection(/not an image/), `${size} random bytes`)
})

test('image rendering: a damaged or truncated image is rejected', async () => {
  for (const kind of ['jpeg', 'png', 'webp', 'gif', 'avif', 'tiff'] as const) {
    const whole = await sharp(slow).resize(300, 300).toFormat(kind).toBuffer()
    await assert.rejects(
      render(whole.subarray(0, whole.length / 2), { width: 100 }),
      rejection(/damaged or cut short|not an image/),
      kind,
    )
    await assert.rejects(
      render(Buffer.concat([whole.subarray(0, 32), randomBytes(2000)]), { width: 100 }),
      rejection(/damaged|not an image|megapixels/),
      kind,
    )
  }
})

test('image rendering: ten thousand random bit flips give an image or an error, never a crash', async () => {
  const sources = await Promise.all(
    (['jpeg', 'png', 'webp', 'gif', 'avif', 'tiff'] as const).map(kind =>
      picture(40, 40).toFormat(kind).toBuffer(),
    ),
  )
  const outcomes = { images: 0, refusals: 0 }
  for (let round = 0; round < 300; round++) {
    const bytes = Buffer.from(sources[round % sources.length]!)
    for (let flip = 0; flip < 33; flip++) {
      const [a, b, c] = randomBytes(3)
      bytes[((a! << 8) | b!) % bytes.length]! ^= 1 << (c! % 8)
    }
    const rendered = await render(bytes, { width: 20 }).catch((error: { status?: number }) => error)
    if ('bytes' in rendered) outcomes.images++
    else {
      assert.equal(rendered.status, 400, String(rendered))
      outcomes.refusals++
    }
  }
  assert.ok(outcomes.refusals > 0, JSON.stringify(outcomes))
})

test('image rendering: HTML inside an image does not reach the output', async () => {
  const script = '<html><script>alert(document.domain)</script></html>'
  const gif = await picture(20, 20).gif().toBuffer()
  const sources = [
    Buffer.concat([gif, Buffer.from(script)]),
    await picture(20, 20)
      .jpeg()
      .withXmp(`<x:xmpmeta xmlns:x="adobe:ns:meta/">${script}</x:xmpmeta>`)
      .toBuffer(),
    await picture(20, 20)
      .png()
      .withExif({ IFD0: { ImageDescription: script } })
      .toBuffer(),
  ]
  for (const source of sources) {
    assert.ok(source.includes('<script>'))
    const { bytes, contentType } = await render(source)
    assert.ok(!bytes.includes('<script>'))
    assert.ok(magic[contentType]!(bytes))
  }
  await assert.rejects(
    render(Buffer.from(`GIF89a/*${script}*/`)),
    rejection(/damaged|not an image|megapixels/),
  )
})

test('image rendering: a source over the size limit is rejected', async () => {
  const tooLarge = Buffer.concat([await picture(8, 8).jpeg().toBuffer(), Buffer.alloc(maxSourceBytes)])
  await assert.rejects(render(tooLarge), rejection(/more than 25 MB/))
})
