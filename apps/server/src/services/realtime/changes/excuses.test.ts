import assert from 'node:assert/strict'
import { test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import type { ChangeSubscriber } from '../subscriber.ts'
import { createExcuses } from './excuses.ts'

function somebody() {
  const told: string[] = []
  const tell: ChangeSubscriber['tell'] = (status, message) => void told.push(`${status} ${message}`)
  return { told, subscriber: { tell } as ChangeSubscriber }
}

test('what was lost is told at once, and what is lost right after it once more, in one word', {
  timeout: 30_000,
}, async () => {
  const excuse = createExcuses(50)
  const [one, other] = [somebody(), somebody()]
  for (const message of ['first', 'second', 'third']) excuse(one.subscriber, message)
  excuse(other.subscriber, 'his own')
  assert.deepEqual([one.told, other.told], [['error first'], ['error his own']])
  while (one.told.length < 2) await sleep(5)
  assert.deepEqual(one.told, ['error first', 'error third'])
  excuse(one.subscriber, 'fourth')
  assert.equal(one.told.length, 2)
  while (one.told.length < 3) await sleep(5)
  assert.equal(one.told[2], 'error fourth')
  assert.deepEqual(other.told, ['error his own'])
})
