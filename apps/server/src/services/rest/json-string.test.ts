import assert from 'node:assert/strict'
import { test } from 'node:test'
import { atOnce } from '#src/kernel/slices.ts'
import { sliceBytes } from './json-scan.ts'
import { stringIn } from './json-string.ts'

const read = (json: string) => atOnce(stringIn(Buffer.from(json), { from: 0, to: Buffer.byteLength(json) }))

test('json: a string is decoded like JSON.parse, wherever the slices end', () => {
  for (const piece of ['x', 'ü', '😀', '\\n', '\\\\', '\\"', '\\u00fc', '\\ud83d\\ude00', 'ab\\\\\\u0041c'])
    for (const before of ['', 'a', 'ab', 'abc', 'abcd', 'abcde']) {
      const json = ` "${before}${piece.repeat(Math.ceil((sliceBytes * 2.5) / piece.length))}" `
      assert.equal(read(json), JSON.parse(json), piece)
    }
})

test('json: a value that is not a string is undefined', () => {
  for (const json of ['1', 'null', '{"a":"b"}', '["a"]', ' true']) assert.equal(read(json), undefined)
  assert.equal(read(' ""'), '')
})

test('json: a slice decodes a limited number of bytes', () => {
  const json = Buffer.from(`"${'\\u0061'.repeat(200_000)}"`)
  const work = stringIn(json, { from: 0, to: json.length })
  let slices = 1
  while (!work.next().done) slices++
  assert.ok(slices >= Math.floor(json.length / (sliceBytes + 6)))
})
