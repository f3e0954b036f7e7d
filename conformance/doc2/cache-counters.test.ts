// 2 §4.1 incr and decr: 64-bit integers, exact to the last digit also on the wire.
import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { type CacheApi, cacheProject } from '../cache.ts'
import { unique } from '../people.ts'
import { bodyOf, shapes } from '../service.ts'
import { type Target, target } from '../target.ts'
import { assertDataError, type Reply } from '../wire.ts'

let it: Target
let cache: CacheApi
before(async () => {
  it = await target()
  cache = await cacheProject(it)
})
after(() => it.stop())

const max = '9223372036854775807'
const min = '-9223372036854775808'

/** The digits from the JSON text: JSON.parse would round them. */
function digitsOf(reply: Reply): string {
  assert.equal(reply.status, 200, reply.text)
  assert.deepEqual(Object.keys(reply.body), ['value'])
  assert.equal(typeof reply.body.value, 'number', reply.text)
  return /"value"\s*:\s*(-?[0-9]+)\s*\}$/.exec(reply.text)?.[1] ?? assert.fail(reply.text)
}
const count = (path: 'incr' | 'decr', key: string, by?: number) =>
  cache.post(path, by === undefined ? { key } : { key, by })

test('2 §4.1 an absent key counts as 0, and the default of by is 1', async () => {
  const [up, down] = [unique('up'), unique('down')]
  assert.deepEqual(bodyOf(await count('incr', up)), { value: 1 })
  assert.deepEqual(bodyOf(await count('incr', up)), { value: 2 })
  assert.deepEqual(bodyOf(await count('decr', down)), { value: -1 })
  assert.deepEqual(bodyOf(await count('decr', down)), { value: -2 })
  assert.deepEqual(await cache.mget(up, down), ['2', '-2'])
})

test('2 §4.1 both shapes of the URL change the same key', async () => {
  const key = unique('shapes')
  for (const shape of shapes) {
    await cache.ask('POST', 'incr', { key, by: 5 }, shape)
    await cache.ask('POST', 'decr', { key, by: 2 }, shape)
  }
  assert.equal(await cache.value(key), '6')
})

test('2 §4.1 by may be any integer, including negative ones and 0', async () => {
  const key = unique('by')
  const steps: ['incr' | 'decr', number, number][] = [
    ['incr', 10, 10],
    ['incr', -4, 6],
    ['decr', 9, -3],
    ['decr', -5, 2],
    ['incr', 0, 2],
    ['decr', 0, 2],
    ['incr', Number.MAX_SAFE_INTEGER - 2, Number.MAX_SAFE_INTEGER],
    ['decr', Number.MAX_SAFE_INTEGER, 0],
    ['incr', Number.MIN_SAFE_INTEGER, Number.MIN_SAFE_INTEGER],
    ['decr', Number.MIN_SAFE_INTEGER, 0],
  ]
  for (const [path, by, value] of steps) {
    assert.equal(digitsOf(await count(path, key, by)), String(value), `${path} ${by}`)
    assert.equal(await cache.value(key), String(value))
  }
  const fresh = unique('zero')
  assert.equal(digitsOf(await count('incr', fresh, 0)), '0')
  assert.equal(await cache.value(fresh), '0')
})

test('2 §4.1 incr works on a value written by set', async () => {
  const key = unique('set')
  for (const [value, next] of [
    ['41', '42'],
    ['-1', '0'],
    ['0', '1'],
    ['9007199254740993', '9007199254740994'],
    ['-9007199254740995', '-9007199254740994'],
  ] as const) {
    await cache.set(key, value)
    assert.equal(digitsOf(await count('incr', key)), next)
    assert.equal(await cache.value(key), next)
  }
})

test('issue 5: the bounds of 64 bits are reached exactly, on the wire and in the value', async () => {
  const key = unique('bounds')
  for (const [path, from, by, to] of [
    ['incr', '9223372036854775806', 1, max],
    ['incr', max, 0, max],
    ['decr', max, 1, '9223372036854775806'],
    ['decr', '-9223372036854775807', 1, min],
    ['incr', min, 1, '-9223372036854775807'],
    ['decr', '9223372036854775805', -2, max],
    ['incr', '-9223372036854775806', -2, min],
    ['incr', '9214364837600034816', Number.MAX_SAFE_INTEGER, max],
  ] as const) {
    await cache.set(key, from)
    assert.equal(digitsOf(await count(path, key, by)), to, `${path} ${from} ${by}`)
    assert.equal(await cache.value(key), to)
  }
})

test('issue 5: a result beyond 64 bits is 400, and the value does not change', async () => {
  const key = unique('overflow')
  for (const [path, from, by] of [
    ['incr', max, 1],
    ['incr', max, Number.MAX_SAFE_INTEGER],
    ['decr', min, 1],
    ['decr', max, -1],
    ['incr', min, -1],
    ['incr', '9223372036854775800', 8],
    ['decr', '-9223372036854775800', 9],
  ] as const) {
    await cache.set(key, from)
    assertDataError(await count(path, key, by), 'not_an_integer')
    assert.equal(await cache.value(key), from, `${path} ${from} ${by}`)
  }
})

test('issue 5: incr of a value that is not an integer is 400 and does not change it', async () => {
  const key = unique('text')
  for (const value of [
    '',
    ' ',
    'abc',
    ' 1',
    '1 ',
    '1\n',
    '1\0',
    '+1',
    '01',
    '-01',
    '-',
    '-0',
    '--1',
    '1.0',
    '1.5',
    '1e3',
    '0x10',
    '1_000',
    '1,000',
    '١',
    '１',
    'NaN',
    'Infinity',
    'true',
    '9223372036854775808',
    '-9223372036854775809',
    '99999999999999999999999999',
  ])
    for (const path of ['incr', 'decr'] as const) {
      await cache.set(key, value, { ex: 5000 })
      const reply = await count(path, key)
      assert.equal(reply.status, 400, `${path} ${JSON.stringify(value)}: ${reply.text}`)
      assertDataError(reply, 'not_an_integer')
      assert.equal(await cache.value(key), value)
      assert.ok((await cache.ttl(key)) > 0)
    }
})

test('2 §4.1 a step that is not an integer, or not exact, is 400', async () => {
  const key = unique('step')
  await cache.set(key, '7')
  for (const path of ['incr', 'decr']) {
    for (const by of ['1.5', '"1"', 'null', 'true', '[]', '1e400', '9007199254740993', max]) {
      const reply = await cache.post(path, `{"key":"${key}","by":${by}}`)
      assert.equal(reply.status, 400, `${path} ${by}: ${reply.text}`)
    }
    assert.equal((await cache.post(path, {})).status, 400)
    assert.equal((await cache.post(path, { by: 1 })).status, 400)
  }
  assert.equal(await cache.value(key), '7')
})

test('2 §4.1 concurrent incr calls lose no count and return no number twice', async () => {
  const key = unique('many')
  const replies = await Promise.all(Array.from({ length: 100 }, () => count('incr', key)))
  const numbers = replies.map(reply => bodyOf(reply).value).toSorted((a, b) => a - b)
  assert.deepEqual(
    numbers,
    Array.from({ length: 100 }, (_, place) => place + 1),
  )
  await Promise.all(Array.from({ length: 50 }, (_, place) => count(place % 2 ? 'incr' : 'decr', key, place)))
  assert.equal(await cache.value(key), String(100 + 25))
})

test('2 §1 counters of different projects are separate', async () => {
  const other = await cacheProject(it)
  const key = unique('apart')
  await count('incr', key, 5)
  assert.equal(bodyOf(await other.post('incr', { key })).value, 1)
  assert.equal(await cache.value(key), '5')
})
