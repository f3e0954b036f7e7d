import assert from 'node:assert/strict'
import { test } from 'node:test'
import { mimeTypeOf } from './mime-types.ts'

test('content type: depends on the extension, in any case', () => {
  for (const [name, type] of [
    ['logo.png', 'image/png'],
    ['PHOTO.JPG', 'image/jpeg'],
    ['a/b.c/page.html', 'text/html'],
    ['archive.tar.gz', 'application/gzip'],
    ['notes.txt', 'text/plain'],
    ['data.json', 'application/json'],
    ['drawing.svg', 'image/svg+xml'],
  ] as const)
    assert.equal(mimeTypeOf(name), type, name)
})

test('content type: application/octet-stream without a known extension', () => {
  for (const name of [
    '',
    'README',
    'html',
    '.png',
    'a/.json',
    'x.constructor',
    'x.',
    'file.unheard',
    'dir.png/file',
  ])
    assert.equal(mimeTypeOf(name), 'application/octet-stream', name)
})
