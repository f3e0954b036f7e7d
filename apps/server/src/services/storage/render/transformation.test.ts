import assert from 'node:assert/strict'
import { test } from 'node:test'
import {
  fromToken,
  outputFormat,
  renderKey,
  type TransformationInput,
  toToken,
  transformationFrom,
  transformationsHeader,
} from './transformation.ts'

const plain = { resize: 'cover', quality: 80 } as const
const refuses = (input: TransformationInput, message: RegExp) =>
  assert.throws(() => transformationFrom(input), { code: 'InvalidRequest', status: 400, message })

test('transformation: without options the image is only encoded again', () => {
  assert.deepEqual(transformationFrom({}), plain)
  assert.deepEqual(transformationFrom({ width: null, quality: undefined }), plain)
})

test('transformation: a query and a body are parsed alike', () => {
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

test('transformation: a side is limited to 2000, and 0 means none', () => {
  assert.deepEqual(transformationFrom({ width: '0', height: '2001' }), { ...plain, height: 2000 })
  assert.deepEqual(transformationFrom({ width: '9'.repeat(400) }), { ...plain, width: 2000 })
  assert.deepEqual(transformationFrom({ width: 1 }), { ...plain, width: 1 })
})

test('transformation: an invalid value is rejected with the allowed values', () => {
  for (const width of ['-1', '1.5', '1e3', '', ' 1', '0x10', 'NaN', 'undefined', -1, 0.5])
    refuses({ width }, /width must be a whole number.* 2000/)
  for (const quality of ['19', '101', '0', '', 'high', 19.5]) refuses({ quality }, /20 to 100/)
  for (const resize of ['', 'COVER', 'inside']) refuses({ resize }, /cover, contain, fill/)
  for (const format of ['', 'jpeg', 'svg', 'constructor']) refuses({ format }, /origin, webp, avif/)
})

test('transformation: a token contains the signed options, with the format separate', () => {
  const input = transformationFrom({ width: 100, height: 50, resize: 'cover' })
  assert.equal(toToken(input), 'width:100,height:50,resize:cover')
  for (const each of [
    {},
    { width: 7 },
    { height: 7, resize: 'fill', quality: 33 },
    { width: 9, format: 'webp' },
  ]) {
    const transformation = transformationFrom(each)
    assert.deepEqual(fromToken(toToken(transformation), transformation.format), transformation)
  }
})

test('transformation: a token is validated like a query', () => {
  assert.throws(() => fromToken('width:abc'), { code: 'InvalidRequest' })
  assert.throws(() => fromToken('width:100', 'svg'), { code: 'InvalidRequest' })
  assert.deepEqual(fromToken('width:100,gravity:no,__proto__:x', undefined), { ...plain, width: 100 })
})

test('transformation: the response header uses the names of imgproxy', () => {
  const header = (input: TransformationInput) => transformationsHeader(transformationFrom(input))
  assert.equal(header({ width: 100, height: 50 }), 'height:50,width:100,resizing_type:fill')
  assert.equal(header({ width: 100, resize: 'contain' }), 'width:100,resizing_type:fit')
  assert.equal(
    header({ height: 9, resize: 'fill', quality: 30, format: 'webp' }),
    'height:9,resizing_type:force,quality:30,format:webp',
  )
  assert.equal(header({ format: 'origin' }), '')
})

test('transformation: a requested format is used, even if the client does not accept it', () => {
  for (const format of ['origin', 'webp', 'avif'] as const)
    assert.equal(outputFormat(transformationFrom({ format }), 'image/webp,image/avif'), format)
})

test('transformation: without a format the Accept header decides, and WebP is preferred over AVIF', () => {
  const negotiated = (accept?: string) => outputFormat(transformationFrom({}), accept)
  assert.equal(negotiated('image/avif,image/webp,image/apng,*/*;q=0.8'), 'webp')
  assert.equal(negotiated('image/avif, */*'), 'avif')
  assert.equal(negotiated('text/html, Image/WebP;q=0.5'), 'webp')
  assert.equal(negotiated('image/webp;q=0, image/avif;q=0.0'), 'origin')
  for (const accept of [undefined, '', '*/*', 'image/*', 'image/webpx', 'image/png'])
    assert.equal(negotiated(accept), 'origin')
})

test('transformation: different results have different cache keys', () => {
  const inputs: TransformationInput[] = [
    {},
    { width: 10 },
    { height: 10 },
    { width: 10, height: 10 },
    { width: 10, height: 10, resize: 'fill' },
    { width: 10, quality: 20 },
  ]
  const keys = inputs.flatMap(input =>
    (['origin', 'webp', 'avif'] as const).map(format => renderKey(transformationFrom(input), format)),
  )
  assert.equal(new Set(keys).size, keys.length)
})
