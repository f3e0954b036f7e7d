import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { ChangeSubscriber } from '../subscriber.ts'
import { createLossNotices } from './loss-notices.ts'

function recordingSubscriber() {
  const received: string[] = []
  const sendStatus: ChangeSubscriber['sendStatus'] = (status, message) =>
    void received.push(`${status} ${message}`)
  return { received, subscriber: { sendStatus } as ChangeSubscriber }
}

test('loss notices: the first loss is reported at once, and later ones in one notice per interval', t => {
  t.mock.timers.enable({ apis: ['setTimeout'] })
  let time = 1000
  const pass = (ms: number) => {
    time += ms
    t.mock.timers.tick(ms)
  }
  const reportLoss = createLossNotices(50, () => time)
  const [one, other] = [recordingSubscriber(), recordingSubscriber()]
  for (const message of ['first', 'second', 'third']) reportLoss(one.subscriber, message)
  reportLoss(other.subscriber, 'its own')
  assert.deepEqual([one.received, other.received], [['error first'], ['error its own']])
  pass(49)
  assert.equal(one.received.length, 1)
  pass(1)
  assert.deepEqual(one.received, ['error first', 'error third'])
  reportLoss(one.subscriber, 'fourth')
  assert.equal(one.received.length, 2)
  pass(50)
  assert.equal(one.received[2], 'error fourth')
  pass(50)
  reportLoss(one.subscriber, 'fifth')
  assert.equal(one.received[3], 'error fifth')
  assert.deepEqual(other.received, ['error its own'])
})
