// 2 §1, §2 "Cache key", §4.1, §7: values and keys of the cache, single and in batches.
import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { type CacheApi, cacheProject, inPath, oddKeys } from '../cache.ts'
import { unique } from '../people.ts'
import { bodyOf, rootOf, shapes } from '../service.ts'
import { type Target, target } from '../target.ts'
import { assertDataError, sendBytes } from '../wire.ts'

let it: Target
let cache: CacheApi
let other: CacheApi
before(async () => {
  it = await target()
  cache = await cacheProject(it)
  other = await cacheProject(it)
})
after(() => it.stop())

const manage = (rest: string) => it.manage('GET', `/projects/${cache.project.id}/cache/${rest}`)

const oddValues = [
  '',
  ' ',
  '0',
  'null',
  '"',
  '\\',
  '\0',
  'a\0b',
  '\r\n\t',
  'Grüße, 日本語, 😀👩‍👩‍👧‍👦',
  'e\u0301 is not é',
  '\ufeffbom',
  '\uffff\u{10ffff}',
  '\u2028\u2029\u0085',
  '{"a":[1,2]}',
  '*3\r\n$3\r\nSET\r\n',
  'ä'.repeat(100_000),
]

test('2 §4.1 set and get work in both URL shapes', async () => {
  for (const shape of shapes) {
    const key = unique('both')
    const set = await cache.ask('POST', 'set', { key, value: 'hello' }, shape)
    assert.deepEqual([set.status, set.body], [200, { ok: true }])
    for (const reading of shapes) {
      const got = await cache.ask('GET', `get/${key}`, undefined, reading)
      assert.deepEqual([got.status, got.body], [200, { value: 'hello' }])
    }
  }
})

test('2 §4.1 the batch routes work in both URL shapes', async () => {
  for (const shape of shapes) {
    const [a, b] = [unique('a'), unique('b')]
    const post = async (path: string, body: unknown) => bodyOf(await cache.ask('POST', path, body, shape))
    assert.deepEqual(await post('mset', { pairs: { [a]: '1', [b]: '2' } }), { ok: true })
    assert.deepEqual(await post('mget', { keys: [b, a] }), { values: ['2', '1'] })
    assert.deepEqual(await post('expire', { key: a, seconds: 5000 }), { applied: true })
    assert.deepEqual(await post('del', { keys: [a, b] }), { deleted: 2 })
  }
})

test('2 §7 get of an absent key is 404', async () => {
  for (const shape of shapes)
    assertDataError(
      await cache.ask('GET', `get/${unique('absent')}`, undefined, shape),
      'cache_key_not_found',
    )
  const key = unique('gone')
  await cache.set(key, 'x')
  await cache.del(key)
  assertDataError(await cache.get(`get/${key}`), 'cache_key_not_found')
})

test('2 §4.1 set replaces the previous value', async () => {
  const key = unique('replaced')
  for (const value of ['long before', '', 'now']) {
    assert.equal(await cache.set(key, value), true)
    assert.equal(await cache.value(key), value)
  }
})

test('issue 5: a value is any Unicode string, including NUL, and is returned unchanged', async () => {
  for (const value of oddValues) {
    const key = unique('value')
    await cache.set(key, value)
    assert.equal(await cache.value(key), value)
    assert.deepEqual(await cache.mget(key), [value])
  }
})

test('issue 5, case 5: a key is any Unicode string and is used literally by every route', async () => {
  const own = await cacheProject(it)
  for (const [place, key] of oddKeys.entries()) {
    assert.equal(await own.exists(key), false, JSON.stringify(key))
    assert.equal(await own.set(key, `value ${place}`), true)
  }
  for (const [place, key] of oddKeys.entries()) {
    const name = JSON.stringify(key)
    assert.equal(await own.value(key), `value ${place}`, name)
    assert.equal(await own.exists(key), true, name)
    assert.equal(await own.ttl(key), -1, name)
  }
  assert.deepEqual(
    await own.mget(...oddKeys),
    oddKeys.map((_, place) => `value ${place}`),
  )
  assert.deepEqual((await own.scan()).toSorted(), oddKeys.toSorted())
  for (const [place, key] of oddKeys.entries()) {
    const name = JSON.stringify(key)
    assert.equal(await own.expire(key, 1000), true, name)
    assert.equal(await own.del(key), 1, name)
    assert.equal(await own.value(key), null, name)
    const { value } = bodyOf(await own.post('incr', { key, by: place }))
    assert.equal(value, place, name)
  }
  assert.equal(await own.del(...oddKeys), oddKeys.length)
  assert.deepEqual(await own.scan(), [])
})

test('issue 5: mset accepts the same keys, including __proto__ and similar names', async () => {
  const own = await cacheProject(it)
  // JSON text, since an object literal would lose __proto__.
  const pairs = oddKeys.map((key, place) => `${JSON.stringify(key)}:"pair ${place}"`).join()
  const reply = await own.post('mset', `{"pairs":{${pairs}}}`)
  assert.deepEqual(bodyOf(reply), { ok: true })
  assert.deepEqual(
    await own.mget(...oddKeys),
    oddKeys.map((_, place) => `pair ${place}`),
  )
  assert.equal(await own.value('polluted'), null)
})

test('2 §4.1 . and .. are valid keys where a client can send them', async () => {
  // fetch would resolve them as path segments, also when encoded.
  for (const [key, written] of [
    ['.', '.'],
    ['..', '%2E%2E'],
    ['..', '..'],
  ] as const) {
    await cache.set(key, `dots ${key}`)
    const head = `GET ${rootOf('cache', cache.project.id)}/get/${written} HTTP/1.1\r\nhost: x\r\n`
    const reply = await sendBytes(
      it.url,
      `${head}authorization: Bearer ${cache.project.service_role_key}\r\n\r\n`,
    )
    assert.deepEqual([reply.status, reply.body], [200, { value: `dots ${key}` }], written)
  }
})

test('2 §4.1 every key that is valid in a body is valid in a path, up to 2048 characters', async () => {
  for (const letter of ['k', 'ä', '%', '日', '😀']) {
    const key = letter.repeat(2048)
    const set = await cache.post('set', { key, value: 'long' })
    // The server may reject a very long URL, as long as it also rejects writing such a key.
    if (set.status === 400 && Buffer.byteLength(key) > 4096) continue
    assert.deepEqual(bodyOf(set), { ok: true }, letter)
    assert.deepEqual(await cache.mget(key), ['long'])
    assert.equal(await cache.value(key), 'long')
    assert.equal(await cache.exists(key), true)
    assert.equal(await cache.ttl(key), -1)
    assert.equal(bodyOf(await manage(`keys/${inPath(key)}`)).value, 'long')
    assert.equal(await cache.del(key), 1)
  }
  for (const key of ['', 'k'.repeat(2049)]) {
    for (const [path, body] of [
      ['set', { key, value: 'x' }],
      ['del', { keys: [key] }],
      ['mget', { keys: ['fine', key] }],
      ['mset', { pairs: { [key]: 'x' } }],
      ['incr', { key }],
      ['decr', { key }],
      ['expire', { key, seconds: 5 }],
    ] as const)
      assert.equal((await cache.post(path, body)).status, 400, `${path} ${key.length}`)
  }
})

test('Clarifications "Cache": lone surrogates and invalid UTF-8 are 400, and nothing is stored', async () => {
  const key = unique('broken')
  const bytes = (text: string) => Buffer.from(text, 'latin1')
  for (const body of [
    `{"key":"${key}","value":"\\ud800"}`,
    `{"key":"${key}","value":"a\\udc00b"}`,
    `{"key":"${key}\\ud83d","value":"x"}`,
    bytes(`{"key":"${key}","value":"\xff"}`),
    bytes(`{"key":"${key}","value":"\xed\xa0\x80"}`),
    bytes(`{"key":"${key}","value":"\xc0\x80"}`),
    `{"key":"${key}","value":"x"`,
  ])
    assert.equal((await cache.post('set', body)).status, 400, String(body))
  assert.equal((await cache.post('mset', `{"pairs":{"${key}":"x","\\ud800":"y"}}`)).status, 400)
  for (const path of ['get/%FF', 'get/%ED%A0%80', 'get/%C0%80', 'ttl/%FF', 'exists/%E4'])
    assert.equal((await cache.get(path)).status, 400, path)
  assert.equal(await cache.exists(key), false)
})

test('2 §4.1 an invalid body is 400 and changes nothing', async () => {
  const key = unique('shape')
  await cache.set(key, 'before')
  for (const [path, body] of [
    ['set', {}],
    ['set', []],
    ['set', { key }],
    ['set', { value: 'x' }],
    ['set', { key, value: 5 }],
    ['set', { key, value: null }],
    ['set', { key, value: { a: 1 } }],
    ['set', { key: 5, value: 'x' }],
    ['set', { key, value: 'x', nx: 'yes' }],
    ['set', { key, value: 'x', keepttl: true }],
    ['del', {}],
    ['del', { keys: key }],
    ['del', { keys: [key, 5] }],
    ['mget', { keys: key }],
    ['mset', { pairs: [[key, 'x']] }],
    ['mset', { pairs: { [key]: 'x', other: 5 } }],
    ['mset', { [key]: 'x' }],
  ] as const)
    assert.equal((await cache.post(path, body)).status, 400, `${path} ${JSON.stringify(body)}`)
  assert.equal(await cache.value(key), 'before')
})

test('2 §4.1 exists returns whether the key is present', async () => {
  const key = unique('exists')
  assert.deepEqual(bodyOf(await cache.get(`exists/${key}`)), { exists: false })
  await cache.set(key, '')
  assert.deepEqual(bodyOf(await cache.get(`exists/${key}`)), { exists: true })
})

test('2 §4.1 del returns the number of deleted keys, each counted once', async () => {
  const [a, b, c] = [unique('a'), unique('b'), unique('c')]
  await cache.mset({ [a]: '1', [b]: '2', [c]: '3' })
  const reply = await cache.post('del', { keys: [a, b, a, unique('never')] })
  assert.deepEqual(bodyOf(reply), { deleted: 2 })
  assert.deepEqual(await cache.mget(a, b, c), [null, null, '3'])
  assert.equal(await cache.del(a, b), 0)
  assert.equal(await cache.del(), 0)
})

test('2 §4.1 mget returns values in the order of the keys, null for an absent one', async () => {
  const [a, b, absent] = [unique('a'), unique('b'), unique('absent')]
  await cache.set(a, 'first')
  await cache.set(b, '')
  const reply = await cache.post('mget', { keys: [b, absent, a, a] })
  assert.deepEqual(bodyOf(reply), { values: ['', null, 'first', 'first'] })
  assert.deepEqual(await cache.mget(), [])
  const many = Array.from({ length: 1000 }, (_, place) => `${a}:${place}`)
  assert.equal(await cache.mset(Object.fromEntries(many.map(key => [key, key]))), true)
  assert.deepEqual(await cache.mget(...many), many)
  assert.equal(await cache.del(...many), 1000)
})

test('2 §4.1 mset writes every pair', async () => {
  const [a, b] = [unique('a'), unique('b')]
  await cache.set(a, 'before')
  const reply = await cache.post('mset', { pairs: { [a]: 'after', [b]: '😀' } })
  assert.deepEqual(bodyOf(reply), { ok: true })
  assert.deepEqual(await cache.mget(a, b), ['after', '😀'])
  assert.equal(await cache.mset({}), true)
})

test('2 §1 keys of different projects are separate', async () => {
  const key = unique('shared')
  await cache.set(key, 'mine')
  assert.equal(await other.value(key), null)
  await other.set(key, 'theirs')
  assert.equal(await cache.value(key), 'mine')
  const reaching = [
    `${cache.project.id}:${key}`,
    `:${key}`,
    `../${cache.project.id}:${key}`,
    `*:${key}`,
    `\0${key}`,
  ]
  assert.deepEqual(
    await other.mget(...reaching),
    reaching.map(() => null),
  )
  assert.equal(await other.del(...reaching), 0)
  for (const each of reaching) {
    assert.equal((await other.get(`get/${inPath(each)}`)).status, 404)
    await other.set(each, 'planted')
  }
  assert.equal(await cache.value(key), 'mine')
  assert.equal(await other.value(key), 'theirs')
})
