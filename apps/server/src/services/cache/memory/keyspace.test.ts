import assert from 'node:assert/strict'
import { test } from 'node:test'
import { createKeyspace, evictedAtOnce, type Keyspace } from './keyspace.ts'

const plenty = 64 * 1024 * 1024
const overhead = 200

function stage(maxBytes = plenty) {
  const clock = { now: () => time }
  let time = 1000
  let weighed = 0
  const space = createKeyspace(bytes => {
    weighed += bytes
  }, clock)
  space.maxBytes = maxBytes
  return {
    space,
    weighed: () => weighed,
    pass: (ms: number) => {
      time += ms
    },
  }
}

function keysOf(space: Keyspace): string[] {
  const keys: string[] = []
  space.walk(0, Number.POSITIVE_INFINITY, key => {
    keys.push(key)
    return true
  })
  return keys
}

test('keyspace: a value is read as written, and absent after removal', () => {
  const { space } = stage()
  for (const text of [
    '',
    '\0',
    'a:b*[\\]?',
    '😀',
    'e\u0301',
    '__proto__',
    'constructor',
    'x'.repeat(100_000),
  ]) {
    space.set(text, text)
    assert.equal(space.get(text), text)
  }
  assert.ok(space.remove('\0'))
  assert.equal(space.remove('\0'), false)
  assert.equal(space.get('\0'), undefined)
  assert.equal(space.get('toString'), undefined)
})

test('keyspace: expiry is exact to the millisecond', () => {
  const { space, pass } = stage()
  space.set('a', '1', 50)
  pass(50)
  assert.equal(space.get('a'), '1')
  assert.equal(space.ttlMs('a'), 0)
  pass(1)
  assert.equal(space.get('a'), undefined)
  assert.equal(space.ttlMs('a'), undefined)
  assert.equal(space.has('a'), false)
  assert.equal(space.remove('a'), false)
  assert.equal(space.expire('a', 1000), false)
})

test('keyspace: a write without expiry removes the expiry, an addition keeps it', () => {
  const { space, pass } = stage()
  space.set('a', '1', 100)
  assert.equal(space.add('a', 1n), 2n)
  assert.equal(space.ttlMs('a'), 100)
  space.set('a', '3')
  assert.equal(space.ttlMs('a'), Number.POSITIVE_INFINITY)
  pass(1000)
  assert.equal(space.get('a'), '3')
})

test('keyspace: an addition treats an expired key as absent', () => {
  const { space, pass } = stage()
  space.set('a', '41', 10)
  pass(11)
  assert.equal(space.add('a', 1n), 1n)
  assert.equal(space.ttlMs('a'), Number.POSITIVE_INFINITY)
})

test('keyspace: a rejected addition changes nothing', () => {
  const { space } = stage()
  space.set('a', '9223372036854775807', 100)
  assert.throws(() => space.add('a', 1n), { code: 'not_an_integer' })
  assert.equal(space.get('a'), '9223372036854775807')
  assert.equal(space.ttlMs('a'), 100)
})

test('keyspace: expiry can be set and changed, and 0 or less removes the key', () => {
  const { space, pass } = stage()
  space.set('a', '1')
  assert.ok(space.expire('a', 1000))
  pass(500)
  assert.equal(space.ttlMs('a'), 500)
  assert.ok(space.expire('a', 2000))
  assert.equal(space.ttlMs('a'), 2000)
  assert.ok(space.expire('a', 0))
  assert.equal(space.get('a'), undefined)
})

test('keyspace: over its limit the least recently used keys are evicted', () => {
  const room = 10 * (overhead + 1 + 100)
  const { space, weighed } = stage(room)
  for (const key of '0123456789') space.set(key, 'x'.repeat(100))
  assert.equal(space.bytes, room)
  space.get('0')
  space.set('a', 'x'.repeat(100))
  assert.deepEqual(keysOf(space).sort(), ['0', '2', '3', '4', '5', '6', '7', '8', '9', 'a'])
  space.set('b', 'x'.repeat(301))
  assert.ok(space.bytes <= room)
  assert.equal(space.get('0')?.length, 100)
  assert.equal(space.get('2'), undefined)
  assert.equal(weighed(), space.bytes)
})

test('keyspace: a value over the limit is rejected, and the old value stays', () => {
  const { space } = stage(1000)
  space.set('a', '1')
  space.set('b', '2')
  assert.throws(() => space.set('a', 'x'.repeat(1000)), { code: 'cache_value_too_large', status: 413 })
  assert.throws(
    () =>
      space.setAll([
        ['c', 'x'.repeat(300)],
        ['d', 'x'.repeat(300)],
      ]),
    { status: 413 },
  )
  assert.deepEqual([space.get('a'), space.get('b'), space.get('c')], ['1', '2', undefined])
})

test('keyspace: texts with two bytes per character count double', () => {
  const { space } = stage()
  space.set('a', 'x'.repeat(1000))
  assert.equal(space.bytes, overhead + 1 + 1000)
  space.set('a', `${'x'.repeat(999)}ü`)
  assert.equal(space.bytes, overhead + 1 + 2000)
  space.set('a', '日'.repeat(1000))
  assert.equal(space.bytes, overhead + 1 + 3000)
})

test('keyspace: new keys evict expired keys first', () => {
  const each = overhead + 5 + 10
  const { space, pass } = stage(200 * each)
  space.set('keepr', 'x'.repeat(10))
  for (let number = 100; number < 200; number++) space.set(`t-${number}`, 'x'.repeat(10), 10)
  pass(11)
  for (let number = 100; number < 240; number++) space.set(`n-${number}`, 'x'.repeat(10))
  assert.equal(space.get('keepr'), 'x'.repeat(10))
  assert.equal(keysOf(space).filter(key => key.startsWith('n-')).length, 140)
  assert.equal(space.bytes, 141 * each)
})

test('keyspace: a scan visits every key once, the latest first, in any number of pages', () => {
  const { space } = stage()
  for (let number = 0; number < 100; number++) space.set(`key ${number}`, '')
  const seen: string[] = []
  let place = 0
  let parts = 0
  do {
    let left = 7
    place = space.walk(place, 1000, key => {
      seen.push(key)
      return --left > 0
    })
    parts++
  } while (place !== 0)
  assert.deepEqual(
    seen,
    Array.from({ length: 100 }, (_, number) => `key ${99 - number}`),
  )
  assert.equal(parts, 15)
})

test('keyspace: a scan ends while keys are added, and misses no key that existed throughout', () => {
  const { space } = stage()
  const staying = Array.from({ length: 500 }, (_, number) => `stays ${number}`)
  for (const key of staying) {
    space.set(key, '')
    space.set(`goes ${key}`, '')
  }
  const seen = new Set<string>()
  let place = 0
  let parts = 0
  do {
    let left = 3
    place = space.walk(place, 50, key => {
      seen.add(key)
      return --left > 0
    })
    for (let more = 0; more < 10; more++) space.set(`new ${parts} ${more}`, '')
    for (const key of staying.slice(parts, parts + 5)) {
      space.remove(`goes ${key}`)
      space.set(key, 'rewritten')
    }
    assert.ok(++parts < 1000, 'it ends')
  } while (place !== 0)
  assert.deepEqual(
    staying.filter(key => !seen.has(key)),
    [],
  )
})

/** A simple model of a keyspace. */
function createModel() {
  const held = new Map<string, { value: string; until: number }>()
  let time = 0
  return {
    pass: (ms: number) => {
      time += ms
    },
    get(key: string) {
      const known = held.get(key)
      return known && known.until >= time ? known : undefined
    },
    set: (key: string, value: string, ttlMs = Number.POSITIVE_INFINITY) =>
      void held.set(key, { value, until: time + ttlMs }),
    remove: (key: string) => void held.delete(key),
    left: (until: number) => until - time,
  }
}

test('keyspace: random operations give the same result as a plain map', () => {
  const { space, pass, weighed } = stage()
  const model = createModel()
  const pick = (items: readonly string[]) => items[Math.floor(Math.random() * items.length)]!
  const keys = Array.from({ length: 30 }, (_, number) => `k${number}`)
  const values = ['1', '-7', 'text', '9223372036854775807', '😀']
  const actions: ((key: string, ms: number) => void)[] = [
    key => assert.equal(space.get(key), model.get(key)?.value),
    (key, ms) => {
      const value = pick(values)
      space.set(key, value, ms)
      model.set(key, value, ms)
    },
    key => {
      const value = pick(values)
      space.set(key, value)
      model.set(key, value)
    },
    key => {
      assert.equal(space.remove(key), model.get(key) !== undefined)
      model.remove(key)
    },
    (key, ms) => {
      const known = model.get(key)
      assert.equal(space.expire(key, ms), known !== undefined)
      if (known) model.set(key, known.value, ms)
    },
    key => {
      const known = model.get(key)
      const value = known?.value ?? '0'
      if (!/^-?\d{1,18}$/.test(value))
        return assert.throws(() => space.add(key, 5n), { code: 'not_an_integer' })
      const sum = BigInt(value) + 5n
      assert.equal(space.add(key, 5n), sum)
      model.set(key, String(sum), known && model.left(known.until))
    },
    (_key, ms) => {
      pass(ms)
      model.pass(ms)
    },
    key => {
      const known = model.get(key)
      assert.equal(space.ttlMs(key), known && model.left(known.until))
    },
  ]
  for (let run = 0; run < 50_000; run++)
    actions[run % actions.length]!(pick(keys), 1 + Math.floor(Math.random() * 100))

  assert.deepEqual(keysOf(space).sort(), keys.filter(key => model.get(key)).sort())
  for (const key of keys) if (!space.remove(key)) space.get(key)
  assert.equal(space.bytes, 0)
  assert.equal(weighed(), 0)
})

test('keyspace: a write evicts a bounded number of keys, and `trim` evicts the rest', () => {
  const { space } = stage(3 * evictedAtOnce * (overhead + 5))
  for (let number = 0; number < 3 * evictedAtOnce; number++) space.set(String(number + 10_000), '')
  const before = keysOf(space).length
  space.set('large', 'x'.repeat(space.maxBytes - 1000))
  assert.equal(keysOf(space).length, before + 1 - evictedAtOnce)
  assert.equal(space.get('large')?.length, space.maxBytes - 1000)
  assert.equal(space.trim(evictedAtOnce), false)
  assert.equal(space.trim(evictedAtOnce), true)
  assert.ok(space.bytes <= space.maxBytes)
})
