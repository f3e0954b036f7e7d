// 2 "Queues": the size of the project's database, `max_database_size_mb`, limits queues.
import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { createQueue, type QueueApi, queuesProject } from '../queue.ts'
import { type Target, target } from '../target.ts'
import { until } from '../until.ts'
import { assertDataError } from '../wire.ts'

let it: Target
let queue: QueueApi
let sent: number[]
before(async () => {
  it = await target()
  const api = await queuesProject(it)
  queue = await createQueue(api)
  sent = await queue.sendBatch(['first', 'second', 'third'])
  const quotas = { max_database_size_mb: 1 }
  assert.equal((await it.manage('PATCH', `/projects/${api.project.id}`, { quotas })).status, 200)
  const probe = () => queue.post(queue.at('replay'), { msg_id: 1_000_000 })
  await until('writes are refused', async () => (await probe()).status === 413)
})
after(() => it.stop())

const trySend = () => queue.post(queue.at('send'), { message: 'late' })

test('2 §7 over the quota send, create and replay are 413 database_quota_exceeded', async () => {
  assert.equal(await queue.archive(sent[0]!), true)
  assertDataError(await trySend(), 'database_quota_exceeded')
  assertDataError(await queue.post(queue.at('send_batch'), { messages: ['late'] }), 'database_quota_exceeded')
  assertDataError(await queue.post('queues', { name: 'another' }), 'database_quota_exceeded')
  assertDataError(await queue.post(queue.at('replay'), { msg_id: sent[0] }), 'database_quota_exceeded')
})

test('2 §7 over the quota read, ack and pop still work, so a queue can be emptied', async () => {
  const [message] = await queue.read(0)
  assert.equal(message?.message, 'second')
  assert.equal(await queue.ack(message!.msg_id), true)
  assert.equal((await queue.pop())?.message, 'third')
  assert.equal((await queue.metrics()).queue_length, 0)
})
