import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { Refusal } from '#src/kernel/errors.ts'
import { atOnce } from '#src/kernel/slices.ts'
import { formRow } from './form.ts'
import { sliceBytes } from './json-scan.ts'

const read = (text: string | Buffer) => atOnce(formRow(Buffer.from(text)))
const row = (text: string | Buffer) => JSON.parse(read(text).json.toString())

test('form: fields become strings under their names', () => {
  for (const [text, expected] of [
    ['', {}],
    ['a=1&b=x+y%20z&&c', { a: '1', b: 'x y z', c: '' }],
    ['a=b=c&%C3%BC=%e2%82%ac&=x', { a: 'b=c', ü: '€', '': 'x' }],
    ['a=1&a=2&__proto__=3', { a: '2', ['__proto__']: '3' }],
    ['a="\\%0A%22', { a: '"\\\n"' }],
    ['a=ü', { a: 'ü' }],
  ] as const)
    assert.deepEqual(Object.entries(row(text)), Object.entries(expected), text)
  assert.deepEqual([...read('b=1&a=2&b=3').values.keys()], ['b', 'a'])
})

test('form: the positions of values in the JSON are returned', () => {
  const { json, values } = read('a=1&b=x%22&a=2')
  const texts = [...values].map(([name, { from, to }]) => [name, json.toString('utf8', from, to)])
  assert.deepEqual(texts, [
    ['a', '"2"'],
    ['b', '"x\\""'],
  ])
})

for (const text of ['a=%', 'a=%4', 'a=%zz', 'a=%00', 'a=\0', 'a=%ff', '%ff=1'])
  test(`form: ${JSON.stringify(text)} is refused`, () => assert.throws(() => row(text), { code: 'PGRST102' }))

function slicesOf(text: string): { slices: number; error?: Refusal } {
  const work = formRow(Buffer.from(text))
  let slices = 0
  try {
    for (;;) {
      slices++
      if (work.next().done) return { slices }
    }
  } catch (error) {
    return { slices, error: error as Refusal }
  }
}

test('form: too many fields are refused before any is decoded', () => {
  const fields = (count: number) => Array.from({ length: count }, (_, index) => `f${index}=%zz`).join('&')
  assert.match(slicesOf(fields(1664)).error!.message, /two hexadecimal digits/)
  const { slices, error } = slicesOf(fields(1665))
  assert.deepEqual([error?.status, slices], [400, 1])
  assert.match(error!.message, /more than 1664 fields/)
  assert.equal(slicesOf('a&'.repeat(4_000_000)).slices, 1)
})

test('form: a slice reads a limited number of bytes', () => {
  const bytes = 2 * 1024 * 1024
  // One pass counts the fields, one writes the JSON.
  for (const text of [
    `a=${'x'.repeat(bytes)}`,
    `a=${'%41'.repeat(bytes / 3)}`,
    `${'x'.repeat(bytes)}=1`,
    '&'.repeat(bytes),
    Array.from({ length: 1600 }, (_, index) => `f${index}=${'x'.repeat(bytes / 1600)}`).join('&'),
  ])
    assert.ok(slicesOf(text).slices >= 2 * Math.floor(text.length / (sliceBytes + 2)), text.slice(0, 20))
})
