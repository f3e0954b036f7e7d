// client.cache against a real platform.
import assert from 'node:assert/strict'
import { after, before, describe, test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import { granted, refused, type Stage, setStage } from './stage.ts'

let stage: Stage
before(async () => {
  stage = await setStage()
})
after(() => stage.stop())
const cache = () => stage.service.cache

describe('get and set', () => {
  test('get returns the value of set', async () => {
    assert.equal(granted(await cache().set('greeting', 'hello')), true)
    assert.equal(granted(await cache().get('greeting')), 'hello')
  })

  test('get of an absent key returns null without an error', async () => {
    assert.deepEqual(await cache().get('absent'), { data: null, error: null })
  })

  test('an empty value differs from an absent key', async () => {
    granted(await cache().set('empty', ''))
    assert.equal(granted(await cache().get('empty')), '')
  })

  test('ex and px set the expiry, and ex overrides px', async () => {
    granted(await cache().set('seconds', 'v', { ex: 100 }))
    granted(await cache().set('both', 'v', { ex: 100, px: 1 }))
    granted(await cache().set('milliseconds', 'v', { px: 200_000 }))
    granted(await cache().set('brief', 'v', { px: 1 }))
    for (const [key, most] of [
      ['seconds', 100],
      ['both', 100],
      ['milliseconds', 200],
    ] as const) {
      const ttl = granted(await cache().ttl(key))
      assert.ok(ttl > 0 && ttl <= most, `${key}: ${ttl}`)
    }
    while (granted(await cache().get('brief')) !== null) await sleep(5)
  })

  test('nx writes only an absent key, xx only an existing one', async () => {
    assert.equal(granted(await cache().set('lock', 'a', { xx: true })), false)
    assert.equal(granted(await cache().set('lock', 'a', { nx: true })), true)
    assert.equal(granted(await cache().set('lock', 'b', { nx: true })), false)
    assert.equal(granted(await cache().get('lock')), 'a')
    assert.equal(granted(await cache().set('lock', 'b', { xx: true })), true)
    assert.equal(granted(await cache().get('lock')), 'b')
    refused(await cache().set('lock', 'c', { nx: true, xx: true }), 400, 'invalid_request')
  })
})

describe('keys', () => {
  const unusual = [
    'a:b',
    'a/b',
    '100%',
    '?x=1#y',
    '*',
    '[x]',
    '\\',
    '\u0000',
    '☀️🙂',
    ' ',
    '...',
    'a/../b',
    "'",
  ]
  /** URL parsers remove these segments, or they are too long for a URL. */
  const notInUrl = ['.', '..', '日'.repeat(2048)]

  for (const key of [...unusual, ...notInUrl])
    test(`${JSON.stringify(key).slice(0, 20)} is a valid key`, async () => {
      assert.equal(granted(await cache().get(key)), null)
      assert.equal(granted(await cache().exists(key)), false)
      granted(await cache().set(key, `value of ${key}`))
      assert.equal(granted(await cache().get(key)), `value of ${key}`)
      assert.equal(granted(await cache().exists(key)), true)
      assert.equal(granted(await cache().del(key)), 1)
      assert.equal(granted(await cache().exists(key)), false)
    })

  test('ttl rejects a key that a URL cannot contain, without a request', async () => {
    granted(await cache().set('.', 'v', { ex: 100 }))
    for (const key of [...notInUrl, '', '\ud800']) refused(await cache().ttl(key), 0, 'invalid_argument')
    assert.equal(granted(await cache().del('.')), 1)
  })

  test('the platform rejects an empty key, a lone surrogate and a key that is too long', async () => {
    for (const key of ['', 'lone \ud800', 'x'.repeat(2049)]) {
      const [got, exists, set] = [cache().get(key), cache().exists(key), cache().set(key, 'v')]
      for (const answer of [got, exists, set]) assert.equal((await answer).error?.status, 400)
    }
  })
})

describe('counting', () => {
  test('incr and decr start at 0 and count by 1 by default', async () => {
    assert.equal(granted(await cache().incr('hits')), 1)
    assert.equal(granted(await cache().incr('hits', { by: 41 })), 42)
    assert.equal(granted(await cache().decr('hits')), 41)
    assert.equal(granted(await cache().decr('hits', { by: 50 })), -9)
    assert.equal(granted(await cache().incr('hits', { by: -1 })), -10)
  })

  test('a 64-bit integer outside the safe range of a number is returned as a bigint', async () => {
    granted(await cache().set('big', String(Number.MAX_SAFE_INTEGER - 1)))
    assert.equal(granted(await cache().incr('big')), Number.MAX_SAFE_INTEGER)
    assert.equal(granted(await cache().incr('big')), 9007199254740992n)
    assert.equal(granted(await cache().incr('big')), 9007199254740993n)
    granted(await cache().set('big', '9223372036854775806'))
    assert.equal(granted(await cache().incr('big')), 9223372036854775807n)
    granted(await cache().set('big', '-9223372036854775807'))
    assert.equal(granted(await cache().decr('big')), -9223372036854775808n)
    refused(await cache().decr('big'), 400, 'not_an_integer')
    assert.equal(granted(await cache().get('big')), '-9223372036854775808')
  })

  test('incr and decr reject a value that is not an integer', async () => {
    granted(await cache().set('word', 'one'))
    refused(await cache().incr('word'), 400, 'not_an_integer')
    refused(await cache().decr('word'), 400, 'not_an_integer')
    refused(await cache().incr('word', { by: 1.5 }), 400, 'invalid_request')
    assert.equal(granted(await cache().get('word')), 'one')
  })
})

describe('expiry', () => {
  test('ttl returns the seconds left, -1 without expiry and -2 for an absent key', async () => {
    assert.equal(granted(await cache().ttl('no such key')), -2)
    granted(await cache().set('lasting', 'v'))
    assert.equal(granted(await cache().ttl('lasting')), -1)
    assert.equal(granted(await cache().expire('lasting', 500)), true)
    const ttl = granted(await cache().ttl('lasting'))
    assert.ok(ttl > 0 && ttl <= 500)
  })

  test('expire with 0 deletes the key, and returns false for an absent key', async () => {
    granted(await cache().set('going', 'v'))
    assert.equal(granted(await cache().expire('going', 0)), true)
    assert.equal(granted(await cache().exists('going')), false)
    assert.equal(granted(await cache().expire('going', 10)), false)
  })
})

describe('several keys', () => {
  test('mset writes several keys, and mget reads them in the given order', async () => {
    assert.equal(granted(await cache().mset({ 'm:1': 'one', 'm:2': 'two' })), true)
    assert.deepEqual(granted(await cache().mget(['m:2', 'm:3', 'm:1'])), ['two', null, 'one'])
    assert.deepEqual(granted(await cache().mget([])), [])
  })

  test('names of Object.prototype are ordinary keys', async () => {
    const pairs = JSON.parse('{"__proto__": "p", "constructor": "c", "toString": "t"}')
    granted(await cache().mset(pairs))
    assert.deepEqual(granted(await cache().mget(['__proto__', 'constructor', 'toString'])), ['p', 'c', 't'])
    assert.equal(granted(await cache().get('__proto__')), 'p')
  })

  test('del of several keys returns the number that existed', async () => {
    granted(await cache().mset({ 'd:1': '', 'd:2': '' }))
    assert.equal(granted(await cache().del(['d:1', 'd:2', 'd:3'])), 2)
    assert.equal(granted(await cache().del([])), 0)
  })
})

describe('scan and keys()', () => {
  const names = Array.from({ length: 57 }, (_, i) => `walk:${i}`)
  before(async () => {
    granted(await cache().mset(Object.fromEntries(names.map(name => [name, 'v']))))
  })

  test('scan returns all keys page by page until the cursor is 0', async () => {
    const seen = new Set<string>()
    let cursor: string | undefined
    let pages = 0
    do {
      const page = granted(await cache().scan({ match: 'walk:*', count: 10, ...(cursor && { cursor }) }))
      for (const key of page.keys) seen.add(key)
      cursor = page.cursor
      pages++
    } while (cursor !== '0')
    assert.deepEqual([...seen].sort(), names.toSorted())
    assert.ok(pages > 1)
  })

  test('keys() yields all keys, with any page size', async () => {
    for (const count of [undefined, 7]) {
      const seen = new Set<string>()
      for await (const key of cache().keys({ match: 'walk:*', ...(count && { count }) })) seen.add(key)
      assert.deepEqual([...seen].sort(), names.toSorted())
    }
    const all = new Set<string>()
    for await (const key of cache().keys()) all.add(key)
    for (const name of names) assert.ok(all.has(name))
  })

  test('a pattern can have a character class', async () => {
    const seen = new Set<string>()
    for await (const key of cache().keys({ match: 'walk:[^1-4]?' })) seen.add(key)
    assert.deepEqual([...seen].sort(), [
      'walk:50',
      'walk:51',
      'walk:52',
      'walk:53',
      'walk:54',
      'walk:55',
      'walk:56',
    ])
  })

  test('a loop over keys() can end early, and throws errors of the platform', async () => {
    for await (const key of cache().keys({ match: 'walk:*', count: 5 })) {
      assert.match(key, /^walk:/)
      break
    }
    await assert.rejects(stage.anon.cache.keys().next(), { name: 'PlinthError', status: 403 })
    await assert.rejects(cache().keys({ signal: AbortSignal.abort() }).next(), { code: 'request_aborted' })
  })

  test('scan rejects an invalid cursor and a lone surrogate', async () => {
    refused(await cache().scan({ cursor: 'x' }), 400, 'invalid_request')
    refused(await cache().scan({ match: '\ud800*' }), 0, 'invalid_argument')
  })
})

function callAll(from: Stage['service']['cache'], options: { signal?: AbortSignal } = {}) {
  return {
    get: from.get('k', options),
    'get by body': from.get('.', options),
    set: from.set('k', 'v', options),
    del: from.del('k', options),
    incr: from.incr('k', options),
    decr: from.decr('k', options),
    expire: from.expire('k', 1, options),
    ttl: from.ttl('k', options),
    exists: from.exists('k', options),
    'exists by body': from.exists('.', options),
    mget: from.mget(['k'], options),
    mset: from.mset({ k: 'v' }, options),
    scan: from.scan(options),
  }
}

test('every method rejects the anon key', async () => {
  for (const [name, call] of Object.entries(callAll(stage.anon.cache))) {
    const error = refused(await call, 403, 'role_not_allowed')
    assert.match(error.message, /service_role/, name)
  }
})

test('a call with an aborted signal sends no request', async () => {
  const calls = Object.values(callAll(cache(), { signal: AbortSignal.abort() }))
  for (const call of calls) refused(await call, 0, 'request_aborted')
  assert.equal(granted(await cache().get('k')), null)
})
