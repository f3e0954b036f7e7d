import assert from 'node:assert/strict'
import { test } from 'node:test'
import sharp from 'sharp'
import { headBytes, typeOf } from './file-type.ts'

const latin1 = (text: string) => Buffer.from(text, 'latin1')
const branded = (brand: string, ...others: string[]) => {
  const box = latin1(`\0\0\0\0ftyp${brand}\0\0\0\0${others.join('')}`)
  box.writeUInt32BE(box.length)
  return Buffer.concat([box, latin1('\0\0\0\x08mdat')])
}

test('file type: images that an encoder writes are recognized', async () => {
  const image = sharp({ create: { width: 3, height: 2, channels: 3, background: 'red' } })
  for (const format of ['png', 'jpeg', 'gif', 'webp', 'avif', 'tiff'] as const)
    assert.equal(typeOf(await image.clone().toFormat(format).toBuffer()), `image/${format}`, format)
})

test('file type: common formats are recognized by their first bytes', () => {
  const bmp = Buffer.alloc(54)
  bmp.write('BM')
  bmp[14] = 40
  const cases: [string, Buffer][] = [
    ['application/pdf', latin1('%PDF-1.7\n')],
    ['application/zip', latin1('PK\x03\x04rest')],
    ['application/gzip', latin1('\x1f\x8b\x08\0')],
    ['audio/mpeg', latin1('ID3\x03\0')],
    ['audio/wav', latin1('RIFF\x24\0\0\0WAVEfmt ')],
    ['audio/ogg', latin1(`OggS${'\0'.repeat(24)}OpusHead`)],
    ['video/mp4', branded('isom', 'iso2', 'mp41')],
    ['video/quicktime', branded('qt  ')],
    ['audio/mp4', branded('M4A ', 'mp42')],
    ['image/avif', branded('mif1', 'avif', 'miaf')],
    ['image/heic', branded('heic', 'mif1')],
    ['image/heif', branded('mif1')],
    ['video/webm', latin1('\x1aE\xdf\xa3\x9f\x42\x86\x81\x01\x42\x82\x84webm')],
    ['image/bmp', bmp],
    ['font/woff2', latin1('wOF2\0\x01')],
  ]
  for (const [type, bytes] of cases) assert.equal(typeOf(bytes), type)
})

test('file type: text, markup, scripts and short or cut bytes are unknown', () => {
  const unknown = [
    '',
    'B',
    'BM',
    'BMW is a car, and this is a text about it',
    'GIF',
    'RIFF',
    'RIFF1234',
    '\0\0\0\x0cftyp',
    '\0\0\0\x18ftypxxxx\0\0\0\0',
    '<!doctype html><script>alert(1)</script>',
    '<svg xmlns="http://www.w3.org/2000/svg"/>',
    '<?xml version="1.0"?><svg/>',
    ' %PDF-1.7',
    'ID3 tags are metadata',
    '#!/bin/sh',
    '{"a": 1}',
    '\x1aE\xdf\xa3',
  ]
  for (const text of unknown) assert.equal(typeOf(latin1(text)), undefined, JSON.stringify(text))
})

test('file type: only the first bytes are read', () => {
  const long = Buffer.concat([latin1('\x1aE\xdf\xa3'), Buffer.alloc(headBytes), latin1('webm')])
  assert.equal(typeOf(long), undefined)
})
