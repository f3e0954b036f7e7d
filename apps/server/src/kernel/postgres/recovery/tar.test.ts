import assert from 'node:assert/strict'
import { test } from 'node:test'
import { TarReader } from './tar.ts'

function header(name: string, size: number, type = '0'): Buffer {
  const bytes = Buffer.alloc(512)
  bytes.write(name, 0)
  bytes.write(size.toString(8).padStart(11, '0'), 124)
  bytes.write(type, 156)
  return bytes
}
const padded = (content: string) => Buffer.from(content.padEnd(Math.ceil(content.length / 512) * 512, '\0'))
const archive = Buffer.concat([
  header('base/', 0, '5'),
  header('base/1/112', 600),
  padded('x'.repeat(600)),
  header('empty', 0),
  header('global/pg_control', 512),
  padded('y'.repeat(512)),
  Buffer.alloc(1024),
])

test('tar: files are the same, however the archive is cut into chunks', () => {
  for (const step of [1, 7, 512, 513, 4096]) {
    const reader = new TarReader()
    const found: [string, string][] = []
    const raw: Buffer[] = []
    for (let at = 0; at < archive.length; at += step)
      for (const part of reader.push(archive.subarray(at, at + step))) {
        raw.push(Buffer.from(part.bytes))
        if (part.kind === 'entry') found.push([part.name + (part.isDirectory ? ' directory' : ''), ''])
        if (part.kind === 'content') found.at(-1)![1] += part.bytes.toString()
      }
    reader.end()
    assert.deepEqual(found, [
      ['base/ directory', ''],
      ['base/1/112', 'x'.repeat(600)],
      ['empty', ''],
      ['global/pg_control', 'y'.repeat(512)],
    ])
    assert.ok(
      Buffer.concat(raw).equals(archive.subarray(0, -1024)),
      'the parts are the archive without its end',
    )
  }
})

test('tar: an archive that is cut off is an error', () => {
  const reader = new TarReader()
  for (const part of reader.push(archive.subarray(0, 1100))) assert.ok(part)
  assert.throws(() => reader.end(), /incomplete/)
})
