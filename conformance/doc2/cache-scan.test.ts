// 2 §4.1 scan: returns all keys of the project and no others, ends, and supports patterns.
import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { type CacheApi, cacheProject, oddKeys } from '../cache.ts'
import { unique } from '../people.ts'
import { bodyOf, shapes } from '../service.ts'
import { type Target, target } from '../target.ts'

let it: Target
let cache: CacheApi
before(async () => {
  it = await target()
  cache = await cacheProject(it)
})
after(() => it.stop())

const keysNamed = (prefix: string, length: number) =>
  Array.from({ length }, (_, place) => `${prefix}:${place}`)
const fill = (where: CacheApi, keys: string[]) =>
  where.mset(Object.fromEntries(keys.map(key => [key, 'x'] as const)))
/** A scan may return a key more than once. */
const distinct = (keys: string[]) => [...new Set(keys)].toSorted()

test('2 §4.1 a scan of an empty cache ends', async () => {
  const empty = await cacheProject(it)
  assert.deepEqual(await empty.scan(), [])
  assert.deepEqual(await empty.scan({ match: '*', count: '1000' }), [])
})

test('2 §4.1 a scan begins without a cursor or with 0, and returns string cursors and unprefixed keys', async () => {
  const own = await cacheProject(it)
  const key = unique('one')
  await own.set(key, 'x')
  for (const shape of shapes)
    for (const query of ['', '?cursor=0', '?match=*', '?cursor=0&match=*&count=10']) {
      const body = bodyOf(await own.ask('GET', `scan${query}`, undefined, shape))
      assert.deepEqual(Object.keys(body).sort(), ['cursor', 'keys'])
      assert.match(body.cursor, /^[0-9]+$/)
      assert.ok(Array.isArray(body.keys))
    }
  assert.deepEqual(distinct(await own.scan()), [key])
})

for (const count of [undefined, '1', '7', '100', '1000', '1000000'])
  test(`2 §4.1 a scan with count ${count ?? 'omitted'} ends and returns every key at least once`, async () => {
    const own = await cacheProject(it)
    const keys = keysNamed('k', 500)
    await fill(own, keys)
    assert.deepEqual(distinct(await own.scan(count ? { count } : {})), keys.toSorted())
  })

test('2 §4.1 count is the approximate size of a page, at most about 1000', async () => {
  const own = await cacheProject(it)
  await fill(own, keysNamed('k', 4000))
  const small = await own.page({ count: '10' })
  assert.ok(small.keys.length < 200, String(small.keys.length))
  assert.notEqual(small.cursor, '0')
  const large = await own.page({ count: '1000000' })
  assert.ok(large.keys.length < 2500, String(large.keys.length))
  assert.notEqual(large.cursor, '0')
})

test('2 §4.1 a scan returns every key that exists throughout, despite concurrent writes and deletes', async () => {
  const own = await cacheProject(it)
  const staying = keysNamed('staying', 600)
  await fill(own, [...staying, ...keysNamed('leaving', 600)])
  let isScanning = true
  async function disturb() {
    for (let round = 0; isScanning; round++) {
      await fill(own, keysNamed(`coming${round % 3}`, 200))
      await own.del(...keysNamed('leaving', 600).slice((round * 50) % 600, (round * 50 + 50) % 600 || 600))
      await own.del(...keysNamed(`coming${(round + 1) % 3}`, 200))
      // Overwritten, but never absent.
      await fill(own, staying.slice((round * 100) % 600, (round * 100 + 100) % 600 || 600))
    }
  }
  const disturbing = disturb()
  try {
    for (const count of ['10', '50', '500']) {
      const seen = new Set(await own.scan({ count }))
      assert.deepEqual(
        staying.filter(key => !seen.has(key)),
        [],
      )
    }
  } finally {
    isScanning = false
    await disturbing
  }
})

test('2 §4.1 concurrent scans are independent', async () => {
  const own = await cacheProject(it)
  const keys = keysNamed('k', 300)
  await fill(own, keys)
  const scans = await Promise.all(Array.from({ length: 8 }, () => own.scan({ count: '20' })))
  for (const scan of scans) assert.deepEqual(distinct(scan), keys.toSorted())
})

test('2 §4.1 a deleted key is not returned', async () => {
  const own = await cacheProject(it)
  await fill(own, keysNamed('k', 30))
  await own.del(...keysNamed('k', 20))
  assert.deepEqual(distinct(await own.scan()), keysNamed('k', 30).slice(20).toSorted())
  await own.del(...keysNamed('k', 30))
  assert.deepEqual(await own.scan(), [])
})

const animals = [
  'cat',
  'cot',
  'cut',
  'coat',
  'ct',
  'c*t',
  'c?t',
  'c[a]t',
  'c\\t',
  'c😀t',
  'c-t',
  'c^t',
  'CAT',
  'cat:1',
]
const patterns: [string, string[]][] = [
  ['*', animals],
  ['**', animals],
  ['cat', ['cat']],
  ['dog', []],
  ['c?t', ['cat', 'cot', 'cut', 'c*t', 'c?t', 'c\\t', 'c😀t', 'c-t', 'c^t']],
  ['c??t', ['coat']],
  ['c*t', animals.filter(each => each.startsWith('c') && each.endsWith('t'))],
  ['cat*', ['cat', 'cat:1']],
  ['*:1', ['cat:1']],
  ['*a*', ['cat', 'coat', 'c[a]t', 'cat:1']],
  ['c[ao]t', ['cat', 'cot']],
  ['c[a-o]t', ['cat', 'cot']],
  ['c[o-z]t', ['cot', 'cut']],
  ['c[^a]t', ['cot', 'cut', 'c*t', 'c?t', 'c\\t', 'c😀t', 'c-t', 'c^t']],
  ['c[^a-z]t', ['c*t', 'c?t', 'c\\t', 'c😀t', 'c-t', 'c^t']],
  ['c\\*t', ['c*t']],
  ['c\\?t', ['c?t']],
  ['c\\[a\\]t', ['c[a]t']],
  ['c\\\\t', ['c\\t']],
  ['c[*]t', ['c*t']],
  ['c[?]t', ['c?t']],
  ['c[😀]t', ['c😀t']],
  ['c😀t', ['c😀t']],
  ['?', []],
  ['C*', ['CAT']],
]

test('2 §4.1 match supports * ? [abc] [a-z] [^a] and \\, by characters', async () => {
  const own = await cacheProject(it)
  await fill(own, animals)
  for (const [match, expected] of patterns)
    assert.deepEqual(distinct(await own.scan({ match })), expected.toSorted(), match)
})

test('2 §4.1 a pattern finds its keys among many, page by page', async () => {
  const own = await cacheProject(it)
  await fill(own, [...keysNamed('hay', 1500), ...keysNamed('needle', 5)])
  for (const count of ['10', '1000'])
    assert.deepEqual(distinct(await own.scan({ match: 'needle:*', count })), keysNamed('needle', 5))
})

test('case 5: an escaped key matches only itself', async () => {
  const own = await cacheProject(it)
  for (const key of oddKeys) await own.set(key, 'x')
  for (const key of oddKeys) {
    const match = key.replace(/[*?[\]\\^-]/g, '\\$&')
    assert.deepEqual(distinct(await own.scan({ match, count: '1000' })), [key], JSON.stringify(key))
  }
})

test('case 5: no pattern reaches the keys of another project', async () => {
  const own = await cacheProject(it)
  const theirs = await cacheProject(it)
  const secret = unique('secret')
  await theirs.set(secret, 'x')
  const mine = [unique('mine'), `${theirs.project.id}:planted`]
  await fill(own, mine)
  assert.deepEqual(distinct(await own.scan({ match: '*' })), mine.toSorted())
  for (const match of [
    secret,
    `*${secret}*`,
    `${theirs.project.id}:${secret}`,
    `*:${secret}`,
    `../${theirs.project.id}:*`,
    `*\0${secret}`,
    `:${secret}`,
  ])
    assert.deepEqual(await own.scan({ match }), [], match)
  // A key that looks like another project's prefix is an ordinary key, and the project's own prefix is not
  // part of a key.
  assert.deepEqual(distinct(await own.scan({ match: `${theirs.project.id}:*` })), [mine[1]])
  assert.deepEqual(await own.scan({ match: `${own.project.id}*` }), [])
})

test('2 §4.1 incomplete and expensive patterns get a response', {
  timeout: 120_000,
}, async () => {
  const own = await cacheProject(it)
  await fill(own, [...keysNamed('a'.repeat(1000), 50), ...animals])
  for (const match of [
    '[',
    '[a',
    '[^',
    '[]',
    '[^]',
    '[z-a]',
    '[a-',
    '\\',
    'cat\\',
    '',
    `${'*a'.repeat(400)}b`,
    `${'a*'.repeat(400)}b`,
    `${'?*'.repeat(400)}b`,
    '*'.repeat(1000),
    `${'[a-z]*'.repeat(160)}!`,
  ]) {
    const reply = await own.get(`scan?${new URLSearchParams({ match, count: '1000' })}`)
    assert.ok([200, 400].includes(reply.status), `${match}: ${reply.status} ${reply.text}`)
    assert.equal(await own.exists('cat'), true)
  }
  assert.deepEqual(await own.scan({ match: `${'*a'.repeat(400)}b`, count: '1000' }), [])
})

test('2 §4.1 invalid query parameters are 400', async () => {
  for (const query of [
    'cursor=x',
    'cursor=-1',
    'cursor=1.5',
    'cursor=',
    'count=0',
    'count=-5',
    'count=x',
    'count=1.5',
  ])
    assert.equal((await cache.get(`scan?${query}`)).status, 400, query)
})

test('2 §4.1 a forged cursor gives no access', async () => {
  const own = await cacheProject(it)
  await fill(own, keysNamed('k', 20))
  for (const cursor of ['1', '17', '18446744073709551615', '99999999999999999999']) {
    const reply = await own.get(`scan?cursor=${cursor}`)
    assert.ok([200, 400].includes(reply.status), `${cursor}: ${reply.status} ${reply.text}`)
    if (reply.status === 200) for (const key of reply.body.keys) assert.match(key, /^k:\d+$/)
  }
})
