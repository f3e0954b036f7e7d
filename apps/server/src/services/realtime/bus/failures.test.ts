import assert from 'node:assert/strict'
import { test } from 'node:test'
import { PublishBacklogFull } from '#src/kernel/redis/publisher.ts'
import { RedisError, RedisUnreachable } from '#src/kernel/redis/redis-error.ts'
import { createFailures } from './failures.ts'

function observed() {
  const lines: string[] = []
  const record = (_fields: unknown, line?: unknown) => void lines.push(String(line))
  return { lines, failures: createFailures({ info: record, warn: record }) }
}

const messages: [reason: unknown, expected: RegExp][] = [
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
  [new PublishBacklogFull('x'), /does not keep up/],
]
for (const [reason, expected] of messages)
  test(`bus failures: ${reason} is reported as ${expected}`, () => {
    const { failures } = observed()
    failures.report('subscribe', reason)
    assert.match(failures.messages().join(), expected)
  })

test('bus failures: a repeated failure is logged once, and the recovery once all failures are resolved', () => {
  const { lines, failures } = observed()
  for (const failure of ['subscribe', 'publish', 'subscribe'] as const)
    failures.report(failure, new RedisUnreachable('gone'))
  assert.equal(lines.length, 1)
  assert.equal(failures.messages().length, 1)
  failures.resolve('subscribe')
  assert.equal(lines.length, 1)
  failures.resolve('publish')
  assert.match(lines[1]!, /again/)
  failures.resolve('publish')
  assert.equal(lines.length, 2)
  assert.deepEqual(failures.messages(), [])
})

test('bus failures: a discarded failure is removed without a log line', () => {
  const { lines, failures } = observed()
  failures.report('subscribe', new RedisUnreachable('gone'))
  failures.discard('subscribe')
  assert.deepEqual(failures.messages(), [])
  assert.equal(lines.length, 1)
})
