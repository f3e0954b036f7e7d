import assert from 'node:assert/strict'
import { test } from 'node:test'
import { TooMuchToPublish } from '#src/kernel/redis/publisher.ts'
import { RedisError, RedisUnreachable } from '#src/kernel/redis/redis-error.ts'
import { createTroubles } from './troubles.ts'

function observed() {
  const lines: string[] = []
  const take = (_facts: unknown, line?: unknown) => void lines.push(String(line))
  return { lines, troubles: createTroubles({ info: take, warn: take }) }
}

const words: [reason: unknown, told: RegExp][] = [
  [
    new RedisUnreachable('gone'),
    /^Redis cannot be reached: broadcast and presence do not reach other nodes$/,
  ],
  [
    new RedisError('NOPERM No permissions to access a channel'),
    /does not let the login of REDIS_URL use channels/,
  ],
  [new RedisError('WRONGPASS invalid username-password pair'), /refuses the login of REDIS_URL/],
  [new RedisError('LOADING Redis is loading the dataset in memory'), /Redis answers LOADING/],
  [new TooMuchToPublish('x'), /does not keep up/],
]
for (const [reason, told] of words)
  test(`${told}`, () => {
    const { troubles } = observed()
    troubles.note('listen', reason)
    assert.match(troubles.all().join(), told)
  })

test('a trouble is logged once however often it is met, and its end once both are over', () => {
  const { lines, troubles } = observed()
  for (const trouble of ['listen', 'publish', 'listen'] as const)
    troubles.note(trouble, new RedisUnreachable('gone'))
  assert.equal(lines.length, 1)
  assert.equal(troubles.all().length, 1)
  troubles.over('listen')
  assert.equal(lines.length, 1)
  troubles.over('publish')
  assert.match(lines[1]!, /again/)
  troubles.over('publish')
  assert.equal(lines.length, 2)
  assert.deepEqual(troubles.all(), [])
})

test('what nobody needs any more is forgotten without a word', () => {
  const { lines, troubles } = observed()
  troubles.note('listen', new RedisUnreachable('gone'))
  troubles.forget('listen')
  assert.deepEqual(troubles.all(), [])
  assert.equal(lines.length, 1)
})
