import assert from 'node:assert/strict'
import { test } from 'node:test'
import { atOnce } from '#src/kernel/slices.ts'
import { jsonTextInSlices, sliceChars } from './json-text.ts'

const written = (value: unknown) => String(atOnce(jsonTextInSlices(value)).bytes)

function slicesOf(value: unknown): number {
  const work = jsonTextInSlices(value)
  for (let slices = 1; ; slices++) if (work.next().done) return slices
}

test('writes what JSON.stringify writes', () => {
  for (const value of [
    null,
    'text',
    1.5,
    true,
    [],
    {},
    [[], {}, [null, undefined, 'é"\\\n\ud800']],
    { a: undefined, b: { '': [1] }, 'c"': 'x', d: undefined },
    { a: undefined },
    Array.from({ length: 10_000 }, (_, at) => ({ at, text: `t${at}` })),
    JSON.parse('{"__proto__":{"a":1},"constructor":null}'),
  ])
    assert.equal(written(value), JSON.stringify(value))
})

test('long texts are written in pieces without splitting a surrogate pair', () => {
  for (let shift = 0; shift < 3; shift++) {
    const value = { text: `${'x'.repeat(sliceChars - 2 + shift)}${'😀'.repeat(sliceChars)}\n`, end: [1] }
    assert.equal(written(value), JSON.stringify(value))
  }
})

test('a slice writes a bounded number of characters', () => {
  const large = 10 * sliceChars
  for (const value of [
    '\n'.repeat(large),
    ['é'.repeat(large)],
    Array(large / 2).fill(1),
    { list: Array(large / 10).fill('12345678') },
  ]) {
    const slices = slicesOf(value)
    assert.ok(slices >= 9 && slices <= 13, `${slices} slices`)
  }
})
