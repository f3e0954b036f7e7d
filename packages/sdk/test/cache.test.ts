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
  test('what is set is got', async () => {
    assert.equal(granted(await cache().set('greeting', 'hello')), true)
    assert.equal(granted(await cache().get('greeting')), 'hello')
  })

  test('an absent key is null and no error', async () => {
    assert.deepEqual(await cache().get('nobody'), { data: null, error: null })
  })

  test('an empty value is not an absent one', async () => {
    granted(await cache().set('empty', ''))
    assert.equal(granted(await cache().get('empty')), '')
  })

  test('ex and px let the value expire, ex first', async () => {
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

  test('nx and xx make the write depend on what is there', async () => {
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
  const strange = [
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
  /** Not to be told apart in a URL, or too long for one. */
  const lost = ['.', '..', '日'.repeat(2048)]

  for (const key of [...strange, ...lost])
    test(`${JSON.stringify(key).slice(0, 20)} is a key like any other`, async () => {
      assert.equal(granted(await cache().get(key)), null)
      assert.equal(granted(await cache().exists(key)), false)
      granted(await cache().set(key, `value of ${key}`))
      assert.equal(granted(await cache().get(key)), `value of ${key}`)
      assert.equal(granted(await cache().exists(key)), true)
      assert.equal(granted(await cache().del(key)), 1)
      assert.equal(granted(await cache().exists(key)), false)
    })

  test('the ttl of a key that a URL would lose is refused, and no other is asked for', async () => {
    granted(await cache().set('.', 'v', { ex: 100 }))
    for (const key of [...lost, '', '\ud800']) refused(await cache().ttl(key), 0, 'invalid_argument')
    assert.equal(granted(await cache().del('.')), 1)
  })

  test('no key, half a character and a key too long are refused by the platform', async () => {
    for (const key of ['', 'half \ud800', 'x'.repeat(2049)]) {
      const [got, exists, set] = [cache().get(key), cache().exists(key), cache().set(key, 'v')]
      for (const answer of [got, exists, set]) assert.equal((await answer).error?.status, 400)
    }
  })
})

describe('counting', () => {
  test('incr and decr count from 0, by one unless told', async () => {
    assert.equal(granted(await cache().incr('hits')), 1)
    assert.equal(granted(await cache().incr('hits', { by: 41 })), 42)
    assert.equal(granted(await cache().decr('hits')), 41)
    assert.equal(granted(await cache().decr('hits', { by: 50 })), -9)
    assert.equal(granted(await cache().incr('hits', { by: -1 })), -10)
  })

  test('every digit of a 64-bit integer is kept: as a bigint where a number has not enough', async () => {
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

  test('what is no integer cannot be counted', async () => {
    granted(await cache().set('word', 'one'))
    refused(await cache().incr('word'), 400, 'not_an_integer')
    refused(await cache().decr('word'), 400, 'not_an_integer')
    refused(await cache().incr('word', { by: 1.5 }), 400, 'invalid_request')
    assert.equal(granted(await cache().get('word')), 'one')
  })
})

describe('expiry', () => {
  test('ttl says how long, or that there is no end, or no key', async () => {
    assert.equal(granted(await cache().ttl('no such key')), -2)
    granted(await cache().set('lasting', 'v'))
    assert.equal(granted(await cache().ttl('lasting')), -1)
    assert.equal(granted(await cache().expire('lasting', 500)), true)
    const ttl = granted(await cache().ttl('lasting'))
    assert.ok(ttl > 0 && ttl <= 500)
  })

  test('expire with 0 or less deletes, and an absent key is false', async () => {
    granted(await cache().set('going', 'v'))
    assert.equal(granted(await cache().expire('going', 0)), true)
    assert.equal(granted(await cache().exists('going')), false)
    assert.equal(granted(await cache().expire('going', 10)), false)
  })
})

describe('several keys', () => {
  test('mset writes and mget reads in the order of the keys', async () => {
    assert.equal(granted(await cache().mset({ 'm:1': 'one', 'm:2': 'two' })), true)
    assert.deepEqual(granted(await cache().mget(['m:2', 'm:3', 'm:1'])), ['two', null, 'one'])
    assert.deepEqual(granted(await cache().mget([])), [])
  })

  test('names that mean something to JavaScript mean nothing here', async () => {
    const pairs = JSON.parse('{"__proto__": "p", "constructor": "c", "toString": "t"}')
    granted(await cache().mset(pairs))
    assert.deepEqual(granted(await cache().mget(['__proto__', 'constructor', 'toString'])), ['p', 'c', 't'])
    assert.equal(granted(await cache().get('__proto__')), 'p')
  })

  test('del takes several and counts those that were there', async () => {
    granted(await cache().mset({ 'd:1': '', 'd:2': '' }))
    assert.equal(granted(await cache().del(['d:1', 'd:2', 'd:3'])), 2)
    assert.equal(granted(await cache().del([])), 0)
  })
})

describe('going through the keys', () => {
  const names = Array.from({ length: 57 }, (_, i) => `walk:${i}`)
  before(async () => {
    granted(await cache().mset(Object.fromEntries(names.map(name => [name, 'v']))))
  })

  test('scan goes on with its cursor until that is 0', async () => {
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

  test('keys() yields them all, in requests as large as told', async () => {
    for (const count of [undefined, 7]) {
      const seen = new Set<string>()
      for await (const key of cache().keys({ match: 'walk:*', ...(count && { count }) })) seen.add(key)
      assert.deepEqual([...seen].sort(), names.toSorted())
    }
    const all = new Set<string>()
    for await (const key of cache().keys()) all.add(key)
    for (const name of names) assert.ok(all.has(name))
  })

  test('a pattern with a class of characters chooses', async () => {
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

  test('a loop can end early, and throws what the platform refuses', async () => {
    for await (const key of cache().keys({ match: 'walk:*', count: 5 })) {
      assert.match(key, /^walk:/)
      break
    }
    await assert.rejects(stage.anon.cache.keys().next(), { name: 'PlinthError', status: 403 })
    await assert.rejects(cache().keys({ signal: AbortSignal.abort() }).next(), { code: 'request_aborted' })
  })

  test('a cursor of nobody and half a character are refused', async () => {
    refused(await cache().scan({ cursor: 'x' }), 400, 'invalid_request')
    refused(await cache().scan({ match: '\ud800*' }), 0, 'invalid_argument')
  })
})

function everyCall(from: Stage['service']['cache'], options: { signal?: AbortSignal } = {}) {
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

test('the anon key is refused by every method', async () => {
  for (const [name, call] of Object.entries(everyCall(stage.anon.cache))) {
    const error = refused(await call, 403, 'role_not_allowed')
    assert.match(error.message, /service_role/, name)
  }
})

test('a call whose signal has been aborted is not made', async () => {
  const calls = Object.values(everyCall(cache(), { signal: AbortSignal.abort() }))
  for (const call of calls) refused(await call, 0, 'request_aborted')
  assert.equal(granted(await cache().get('k')), null)
})
