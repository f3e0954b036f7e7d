// 1 §4.6, storage contract §6 and cases 16, 34: images in another size or format.
import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { crc32, deflateSync } from 'node:zlib'
import sharp from 'sharp'
import { unique } from '../people.ts'
import { bodyOf, shapes } from '../service.ts'
import {
  ada,
  assertOneOf,
  assertRefused,
  assertStatus,
  claimsOf,
  objectPath,
  type StorageApi,
  storageProject,
  storageTarget,
  tokenIn,
  upsert,
} from '../storage.ts'
import type { Target } from '../target.ts'
import type { Reply } from '../wire.ts'

let it: Target
let storage: StorageApi
let open: string
let closed: string
/** 300 by 100 pixels: one third red, one third green, one third blue. */
let stripes: Buffer
let photo: Buffer
before(async () => {
  it = await storageTarget()
  storage = await storageProject(it)
  open = await storage.bucket({ public: true })
  closed = await storage.bucket()
  const third = (background: string) =>
    sharp({ create: { width: 100, height: 100, channels: 3, background } })
      .png()
      .toBuffer()
  const colours = await Promise.all(['#f00', '#0f0', '#00f'].map(third))
  stripes = await sharp({ create: { width: 300, height: 100, channels: 3, background: '#000' } })
    .composite(colours.map((input, i) => ({ input, left: i * 100, top: 0 })))
    .png()
    .toBuffer()
  photo = await sharp({
    create: {
      width: 400,
      height: 300,
      channels: 3,
      background: '#888',
      noise: { type: 'gaussian', mean: 128, sigma: 40 },
    },
  })
    .jpeg({ quality: 95 })
    .toBuffer()
  for (const bucket of [open, closed]) {
    await storage.store(bucket, 'in/stripes.png', stripes, { headers: { 'content-type': 'image/png' } })
    await storage.store(bucket, 'photo.jpg', photo, { headers: { 'content-type': 'image/jpeg' } })
    await storage.store(bucket, 'text.txt', 'no image')
  }
})
after(() => it.stop())

const image = 'in/stripes.png'
const render = (query: string, key = image, headers: Record<string, string> = { accept: '*/*' }) =>
  storage.get(`${objectPath(open, key, 'render/image/public')}?${query}`, { as: 'nobody', headers })
const facts = async (reply: Reply) => {
  assert.equal(reply.status, 200, `${reply.status} ${reply.text.slice(0, 300)}`)
  const { width, height, format } = await sharp(reply.bytes).metadata()
  return { width, height, format }
}
const sizeOf = async (reply: Reply) => {
  const { width, height } = await facts(reply)
  return [width, height]
}
/** The dominant colour of a pixel. */
async function colourAt(reply: Reply, left: number, top: number): Promise<string> {
  const pixel = await sharp(reply.bytes)
    .removeAlpha()
    .extract({ left, top, width: 1, height: 1 })
    .raw()
    .toBuffer()
  return ['red', 'green', 'blue'][[...pixel.subarray(0, 3)].findIndex(value => value > 200)] ?? 'other'
}

for (const [query, size] of [
  ['width=150', [150, 50]],
  ['height=50', [150, 50]],
  ['width=100&height=100', [100, 100]],
  ['width=100&height=100&resize=cover', [100, 100]],
  ['width=100&height=100&resize=contain', [100, 33]],
  ['width=90&height=20&resize=contain', [60, 20]],
  ['width=50&height=80&resize=fill', [50, 80]],
  ['quality=50', [300, 100]],
  ['', [300, 100]],
] as const)
  test(`contract §6 ${query || 'no parameter'} renders 300 by 100 as ${size.join(' by ')}`, async () => {
    assert.deepEqual(await sizeOf(await render(query)), size)
  })

test('contract §6 cover crops to the center, fill stretches', async () => {
  const cover = await render('width=60&height=60')
  for (const left of [2, 30, 57]) assert.equal(await colourAt(cover, left, 30), 'green')
  const fill = await render('width=60&height=60&resize=fill')
  assert.deepEqual(
    [await colourAt(fill, 5, 30), await colourAt(fill, 30, 30), await colourAt(fill, 55, 30)],
    ['red', 'green', 'blue'],
  )
})

test('contract §6 a size is clamped, and 0 is accepted', async () => {
  for (const query of ['width=99999', 'width=99999&height=99999&resize=fill', 'height=2147483647']) {
    const [width, height] = await sizeOf(await render(query))
    assert.ok(width! <= 2500 && height! <= 2500, `${width} ${height}`)
  }
  for (const query of ['width=0', 'width=0&height=50', 'height=0']) assertStatus(await render(query), 200)
})

for (const query of [
  'width=-1',
  'width=abc',
  'width=1.5',
  'height=-5',
  'height=1e3',
  'resize=stretch',
  'width=10&resize=',
  'quality=19',
  'quality=101',
  'quality=abc',
  'quality=-1',
  'format=gif',
  'format=../x',
  'width=10&height=10&resize=__proto__',
])
  test(`contract §6 ${query} returns 400`, async () => {
    assertRefused(await render(query), 400, ['InvalidRequest', 'InvalidParameter'])
    const path = `${objectPath(closed, image, 'render/image/authenticated')}?${query}`
    assertRefused(await storage.get(path), 400, ['InvalidRequest', 'InvalidParameter'])
  })

test('contract §6 quality 20 to 100 changes the size of the file', async () => {
  const length = async (quality: number) => {
    const reply = await render(`quality=${quality}`, 'photo.jpg')
    assert.equal((await facts(reply)).format, 'jpeg')
    return reply.bytes.length
  }
  const [least, middle, most] = [await length(20), await length(80), await length(100)]
  assert.ok(least < middle && middle < most, `${least} ${middle} ${most}`)
  assert.equal((await render('', 'photo.jpg')).bytes.length, middle, '80 unless said otherwise')
})

const types: Record<string, string> = {
  png: 'image/png',
  jpeg: 'image/jpeg',
  webp: 'image/webp',
  avif: 'image/avif',
}
async function assertFormat(reply: Reply, format: string): Promise<void> {
  const found = (await facts(reply)).format
  assert.equal(found === 'heif' ? 'avif' : found, format)
  assert.equal(reply.headers.get('content-type'), types[format])
}

test('contract §6 format selects the output format; origin keeps that of the source', async () => {
  const accept = { accept: 'image/avif,image/webp,*/*' }
  await assertFormat(await render('width=50&format=webp', image), 'webp')
  await assertFormat(await render('width=50&format=avif', image), 'avif')
  await assertFormat(await render('width=50&format=origin', image, accept), 'png')
  await assertFormat(await render('width=50&format=origin', 'photo.jpg', accept), 'jpeg')
})

test('contract §6 without format, Accept selects the output format', async () => {
  await assertFormat(await render('width=50', image, { accept: 'image/webp,image/png' }), 'webp')
  await assertFormat(await render('width=50', image, { accept: 'image/avif' }), 'avif')
  await assertFormat(await render('width=50', image, { accept: 'image/png' }), 'png')
  await assertFormat(await render('width=50', image, { accept: '*/*' }), 'png')
  const both = await render('width=50', image, { accept: 'image/avif,image/webp,image/*;q=0.8' })
  assert.ok(['image/webp', 'image/avif'].includes(both.headers.get('content-type') ?? ''))
  assert.match(both.headers.get('vary') ?? '', /accept/i, 'a cache must tell them apart')
  // The cache must not return the format of another Accept header.
  await assertFormat(await render('width=50', image, { accept: 'image/webp' }), 'webp')
  await assertFormat(await render('width=50', image, { accept: 'image/png' }), 'png')
})

test('contract §6 x-transformations lists the applied transformation', async () => {
  const reply = await render('width=90&height=60&resize=contain')
  const applied = reply.headers.get('x-transformations') ?? ''
  assert.match(applied, /(^|,)height:60(,|$)/)
  assert.match(applied, /(^|,)width:90(,|$)/)
  assert.match(applied, /(^|,)resizing_type:\w+(,|$)/)
})

test('contract §6 ?download serves an attachment', async () => {
  const reply = await render('width=10&download=small.png')
  assert.match(reply.headers.get('content-disposition') ?? '', /^attachment; filename=small\.png;/)
})

test('1 §4.6 the authenticated route renders for callers with read permission, on the native and the alias path', async () => {
  await storage.sql(`create policy photos on storage.objects for select to authenticated
    using (bucket_id = '${closed}' and auth.uid() = '${ada.sub}')`)
  const path = `${objectPath(closed, image, 'render/image/authenticated')}?width=30`
  for (const shape of shapes)
    for (const as of ['service_role', ada] as const)
      assert.deepEqual(await sizeOf(await storage.get(path, { as, shape })), [30, 10])
  assertRefused(await storage.get(path, { as: 'anon' }), 404, 'NoSuchKey')
  assertRefused(
    await storage.get(path, { as: { sub: '11111111-7d0b-4f6e-9a59-6b5f0a8b2c11' } }),
    404,
    'NoSuchKey',
  )
  assertRefused(await storage.get(path, { as: 'nobody' }), 401)
})

test('case 16: the public route renders no private image, and answers as for a missing bucket', async () => {
  const ask = async (bucket: string, key: string) => {
    const { status, body } = await storage.get(`${objectPath(bucket, key, 'render/image/public')}?width=10`, {
      as: 'nobody',
    })
    return { status, body }
  }
  const none = await ask(unique('none'), image)
  assert.equal(none.status, 404)
  assert.deepEqual(await ask(closed, image), none)
  assert.deepEqual(await ask(closed, 'missing.png'), none)
  assertRefused(await render('width=10', 'missing.png'), 404, 'NoSuchKey')
})

test('clarifications: permission is also checked for a cached render', async () => {
  const bucket = await storage.bucket({ public: true })
  const key = 'a.png'
  const put = (content: Buffer) =>
    storage.store(bucket, key, content, { headers: { 'content-type': 'image/png', 'x-upsert': 'true' } })
  const path = `${objectPath(bucket, key, 'render/image/public')}?width=20&height=20&format=origin`
  const look = () => storage.get(path, { as: 'nobody' })
  await put(stripes)
  for (let i = 0; i < 2; i++) assert.equal(await colourAt(await look(), 10, 10), 'green')
  bodyOf(await storage.put(`bucket/${bucket}`, { public: false }))
  assertStatus(await look(), 404)
  bodyOf(await storage.put(`bucket/${bucket}`, { public: true }))
  await put(await sharp(stripes).extract({ left: 0, top: 0, width: 90, height: 90 }).png().toBuffer())
  assert.equal(await colourAt(await look(), 10, 10), 'red', 'the new file')
  bodyOf(await storage.delete(objectPath(bucket, key)))
  assertStatus(await look(), 404)
})

test('contract §6 a file that is not an image, or a broken image, returns 400 or 422', async () => {
  const broken: Record<string, Buffer> = {
    'half.png': stripes.subarray(0, stripes.length / 2),
    'text.png': Buffer.from('<html>no image</html>'),
    'empty.png': Buffer.alloc(0),
    'random.png': Buffer.from('\x89PNG\r\n\x1a\nnothing', 'latin1'),
  }
  for (const [key, content] of Object.entries(broken))
    await storage.store(open, key, content, { headers: { 'content-type': 'image/png' } })
  for (const key of ['text.txt', ...Object.keys(broken)])
    for (const query of ['width=10', '']) {
      const reply = await render(query, key)
      assertOneOf(reply, [400, 422])
      assertRefused(reply, reply.status, 'InvalidRequest')
    }
})

/** A PNG of few bytes whose header claims this size. */
function bomb(width: number, height: number): Buffer {
  const chunk = (type: string, data: Buffer) => {
    const body = Buffer.concat([Buffer.from(type), data])
    const [length, sum] = [Buffer.alloc(4), Buffer.alloc(4)]
    length.writeUInt32BE(data.length)
    sum.writeUInt32BE(crc32(body))
    return Buffer.concat([length, body, sum])
  }
  const head = Buffer.alloc(13)
  head.writeUInt32BE(width, 0)
  head.writeUInt32BE(height, 4)
  head.set([8, 2, 0, 0, 0], 8)
  return Buffer.concat([
    Buffer.from('\x89PNG\r\n\x1a\n', 'latin1'),
    chunk('IHDR', head),
    chunk('IDAT', deflateSync(Buffer.alloc(1_000_000))),
    chunk('IEND', Buffer.alloc(0)),
  ])
}

test('case 34: an image too large for memory returns 4xx, and the server keeps working', async () => {
  await storage.store(open, 'bomb.png', bomb(50_000, 50_000), { headers: { 'content-type': 'image/png' } })
  const replies = await Promise.all(Array.from({ length: 4 }, () => render('width=100', 'bomb.png')))
  for (const reply of replies)
    assert.ok(reply.status >= 400 && reply.status < 500, `${reply.status} ${reply.text}`)
  assert.deepEqual(await sizeOf(await render('width=30')), [30, 10])
})

test('case 34: many concurrent renders all finish', async () => {
  const replies = await Promise.all(
    Array.from({ length: 24 }, (_, i) => render(`width=${20 + i}`, 'photo.jpg')),
  )
  for (const [i, reply] of replies.entries())
    if (reply.status === 200) assert.equal((await sizeOf(reply))[0], 20 + i)
    else assertOneOf(reply, [429, 503])
  assertStatus(await render('width=20', 'photo.jpg'), 200)
})

test('issue 6: a file replaced or deleted while its render waits renders in its current version or returns 404', async () => {
  const large = await sharp(photo).resize({ width: 1600 }).jpeg({ quality: 95 }).toBuffer()
  await storage.store(open, 'large.jpg', large, { headers: { 'content-type': 'image/jpeg' } })
  const store = (key: string, headers = {}) =>
    storage.store(open, key, stripes, { headers: { 'content-type': 'image/png', ...headers } })
  await Promise.all(['replaced.png', 'deleted.png'].map(key => store(key)))
  // The renders of a project run one after another.
  const busy = [700, 701].map(width => render(`width=${width}&format=avif`, 'large.jpg'))
  const waiting = ['replaced.png', 'deleted.png'].map(key => render('width=60', key))
  for (let i = 0; i < 5; i++) await storage.head(objectPath(open, image))
  await store('replaced.png', upsert)
  bodyOf(await storage.delete(objectPath(open, 'deleted.png')))
  const [replaced, deleted] = await Promise.all(waiting)
  assert.deepEqual(await sizeOf(replaced!), [60, 20])
  assertOneOf(deleted!, [200, 404])
  await Promise.all(busy)
})

const signing = (transform: unknown, key = image) =>
  storage.post(objectPath(closed, key, 'object/sign'), { expiresIn: 60, transform })
const opened = (url: string) => storage.get(url.slice(1), { as: 'nobody', headers: { accept: '*/*' } })

test('contract §6 a signed URL applies the signed transformation and ignores other parameters', async () => {
  const url = bodyOf(await signing({ width: 60, height: 30, resize: 'contain' })).signedURL
  assert.ok(url.startsWith(`/render/image/sign/${closed}/${image}?token=`), url)
  assert.deepEqual(await sizeOf(await opened(url)), [60, 20])
  for (const more of [
    '&width=300',
    '&width=10&height=10&resize=fill',
    '&width=-5',
    '&format=webp',
    '&quality=1',
  ])
    assert.deepEqual(await facts(await opened(url + more)), { width: 60, height: 20, format: 'png' })
  assert.match(
    (await opened(`${url}&download=x.png`)).headers.get('content-disposition') ?? '',
    /^attachment/,
  )
  const { url: path, scope, transformations } = claimsOf(tokenIn(url))
  assert.deepEqual([path, scope], [`${closed}/${image}`, 'download'])
  assert.deepEqual(transformations.split(',').sort(), ['height:30', 'resize:contain', 'width:60'])
})

test('contract §6 format and quality are part of the signature', async () => {
  await assertFormat(await opened(bodyOf(await signing({ width: 60, format: 'webp' })).signedURL), 'webp')
  const length = async (quality: number) =>
    (await opened(bodyOf(await signing({ quality }, 'photo.jpg')).signedURL)).bytes.length
  assert.ok((await length(20)) < (await length(100)))
})

test('contract §6 an invalid transformation cannot be signed', async () => {
  for (const transform of [
    { width: -1 },
    { quality: 5 },
    { resize: 'stretch' },
    { format: 'exe' },
    { width: 'a' },
  ])
    assertRefused(await signing(transform), 400)
})

test('case 16: a signed URL renders no other image', async () => {
  const url: string = bodyOf(await signing({ width: 60 })).signedURL
  const plain: string = bodyOf(
    await storage.post(objectPath(closed, image, 'object/sign'), { expiresIn: 60 }),
  ).signedURL
  for (const token of [tokenIn(url), tokenIn(plain)]) {
    assertRefused(
      await opened(`/render/image/sign/${closed}/photo.jpg?token=${token}`),
      400,
      'InvalidSignature',
    )
    assertRefused(await opened(`/render/image/sign/${open}/${image}?token=${token}`), 400, 'InvalidSignature')
  }
  for (const token of ['', 'x', `${tokenIn(url)}x`, 'a.b.c'])
    assertRefused(await opened(`/render/image/sign/${closed}/${image}?token=${token}`), 400)
  assertRefused(await opened(`/render/image/sign/${closed}/${image}`), 400)
})
