import assert from 'node:assert/strict'
import { test } from 'node:test'
import { sumOf } from './integer.ts'

const most = '9223372036854775807'
const least = '-9223372036854775808'

const sums: [text: string, by: bigint, sum: bigint][] = [
  ['0', 1n, 1n],
  ['-1', 1n, 0n],
  ['41', -42n, -1n],
  [most, 0n, 9223372036854775807n],
  [least, 0n, -9223372036854775808n],
  ['9223372036854775806', 1n, 9223372036854775807n],
  ['-9223372036854775807', -1n, -9223372036854775808n],
  ['9007199254740993', 1n, 9007199254740994n],
]
for (const [text, by, sum] of sums)
  test(`${text} and ${by} are ${sum}`, () => assert.equal(sumOf(text, by), sum))

for (const text of [
  ...['', ' 1', '1 ', '+1', '01', '-0', '-01', '1.0', '1e3', '0x1', '--1', 'a', '１', '1\n', '1\0'],
  ...['9223372036854775808', '-9223372036854775809', '99999999999999999999'],
])
  test(`${JSON.stringify(text)} is not a 64-bit integer`, () =>
    assert.throws(() => sumOf(text, 1n), { code: 'not_an_integer', status: 400 }))

test('cache integer: a sum outside the range is rejected', () => {
  assert.throws(() => sumOf(most, 1n), { code: 'not_an_integer' })
  assert.throws(() => sumOf(least, -1n), { code: 'not_an_integer' })
  assert.throws(() => sumOf(least, -(2n ** 53n)), { code: 'not_an_integer' })
})
