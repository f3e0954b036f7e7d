// Our own code matches patterns for both engines. It has to agree with Redis.
import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import type { RedisConnection } from '#src/kernel/redis/connection.ts'
import { createMatcher } from '#src/services/cache/glob.ts'
import { type RedisServer, startRedis } from '#test/redis-server.ts'

let redis: RedisServer
let connection: RedisConnection
before(async () => {
  redis = await startRedis()
  connection = await redis.connect()
})
after(async () => {
  connection?.close()
  await redis?.stop()
})

const draw = (letters: string, most: number) =>
  Array.from(
    { length: Math.floor(Math.random() * most) },
    () => letters[Math.floor(Math.random() * letters.length)],
  ).join('')

test('cache patterns: random patterns match the same keys as in Redis', async () => {
  const keys = [
    ...new Set(
      Array.from(
        { length: 500 },
        () => `a${draw('abc*?[]\\^-', 5)}`.slice(Math.random() < 0.5 ? 1 : 0) || 'b',
      ),
    ),
  ]
  await connection.send(['MSET', ...keys.flatMap(key => [key, ''])])
  for (let run = 0; run < 3000; run++) {
    const pattern = draw('abc**??[[]]\\^-', 8)
    const { matches } = createMatcher(pattern)
    const chosen = (await connection.send(['KEYS', pattern])) as string[]
    assert.deepEqual(keys.filter(matches).sort(), chosen.sort(), JSON.stringify(pattern))
  }
})
