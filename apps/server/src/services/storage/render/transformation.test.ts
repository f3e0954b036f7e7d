import assert from 'node:assert/strict'
import { test } from 'node:test'
import {
  fromToken,
  outputFormat,
  renderKey,
  toToken,
  transformationFrom,
  transformationsHeader,
  type Wish,
} from './transformation.ts'

const plain = { resize: 'cover', quality: 80 } as const
const refuses = (wish: Wish, message: RegExp) =>
  assert.throws(() => transformationFrom(wish), { code: 'InvalidRequest', status: 400, message })

test('without a wish the image is only encoded anew', () => {
  assert.deepEqual(transformationFrom({}), plain)
  assert.deepEqual(transformationFrom({ width: null, quality: undefined }), plain)
})

test('a query and a body are read alike', () => {
  const read = { width: 100, height: 50, resize: 'contain', quality: 20, format: 'avif' }
  assert.deepEqual(
    transformationFrom({ width: '100', height: '50', resize: 'contain', quality: '20', format: 'avif' }),
    read,
  )
  assert.deepEqual(
    transformationFrom({ width: 100, height: 50, resize: 'contain', quality: 20, format: 'avif' }),
    read,
  )
})

test('a side is held within 1 to 2000, and 0 is none', () => {
  assert.deepEqual(transformationFrom({ width: '0', height: '2001' }), { ...plain, height: 2000 })
  assert.deepEqual(transformationFrom({ width: '9'.repeat(400) }), { ...plain, width: 2000 })
  assert.deepEqual(transformationFrom({ width: 1 }), { ...plain, width: 1 })
})

test('what is out of range is refused with what is allowed', () => {
  for (const width of ['-1', '1.5', '1e3', '', ' 1', '0x10', 'NaN', 'undefined', -1, 0.5])
    refuses({ width }, /width must be a whole number.* 2000/)
  for (const quality of ['19', '101', '0', '', 'high', 19.5]) refuses({ quality }, /20 to 100/)
  for (const resize of ['', 'COVER', 'inside']) refuses({ resize }, /cover, contain, fill/)
  for (const format of ['', 'jpeg', 'svg', 'constructor']) refuses({ format }, /origin, webp, avif/)
})

test('a token holds what was signed, and the format beside it', () => {
  const wish = transformationFrom({ width: 100, height: 50, resize: 'cover' })
  assert.equal(toToken(wish), 'width:100,height:50,resize:cover')
  for (const each of [
    {},
    { width: 7 },
    { height: 7, resize: 'fill', quality: 33 },
    { width: 9, format: 'webp' },
  ]) {
    const wanted = transformationFrom(each)
    assert.deepEqual(fromToken(toToken(wanted), wanted.format), wanted)
  }
})

test('a token is read as strictly as a query', () => {
  assert.throws(() => fromToken('width:abc'), { code: 'InvalidRequest' })
  assert.throws(() => fromToken('width:100', 'svg'), { code: 'InvalidRequest' })
  assert.deepEqual(fromToken('width:100,gravity:no,__proto__:x', undefined), { ...plain, width: 100 })
})

test('the header names sizes and the kind of resizing in the words of imgproxy', () => {
  const header = (wish: Wish) => transformationsHeader(transformationFrom(wish))
  assert.equal(header({ width: 100, height: 50 }), 'height:50,width:100,resizing_type:fill')
  assert.equal(header({ width: 100, resize: 'contain' }), 'width:100,resizing_type:fit')
  assert.equal(
    header({ height: 9, resize: 'fill', quality: 30, format: 'webp' }),
    'height:9,resizing_type:force,quality:30,format:webp',
  )
  assert.equal(header({ format: 'origin' }), '')
})

test('a format that is asked for is given, whatever the client accepts', () => {
  for (const format of ['origin', 'webp', 'avif'] as const)
    assert.equal(outputFormat(transformationFrom({ format }), 'image/webp,image/avif'), format)
})

test('otherwise what the client names decides, and WebP comes before AVIF', () => {
  const negotiated = (accept?: string) => outputFormat(transformationFrom({}), accept)
  assert.equal(negotiated('image/avif,image/webp,image/apng,*/*;q=0.8'), 'webp')
  assert.equal(negotiated('image/avif, */*'), 'avif')
  assert.equal(negotiated('text/html, Image/WebP;q=0.5'), 'webp')
  assert.equal(negotiated('image/webp;q=0, image/avif;q=0.0'), 'origin')
  for (const accept of [undefined, '', '*/*', 'image/*', 'image/webpx', 'image/png'])
    assert.equal(negotiated(accept), 'origin')
})

test('renders that differ have keys that differ', () => {
  const wishes: Wish[] = [
    {},
    { width: 10 },
    { height: 10 },
    { width: 10, height: 10 },
    { width: 10, height: 10, resize: 'fill' },
    { width: 10, quality: 20 },
  ]
  const keys = wishes.flatMap(wish =>
    (['origin', 'webp', 'avif'] as const).map(format => renderKey(transformationFrom(wish), format)),
  )
  assert.equal(new Set(keys).size, keys.length)
})
