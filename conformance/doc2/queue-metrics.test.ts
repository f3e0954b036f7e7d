// 2 §2 "Metrics", §4.3 and Queues contract §4.
import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { createQueue, queuesProject } from '../queue.ts'
import { bodyOf, type ServiceApi, shapes } from '../service.ts'
import { type Target, target } from '../target.ts'
import { until } from '../until.ts'

let it: Target
let queues: ServiceApi
before(async () => {
  it = await target()
  queues = await queuesProject(it)
})
after(() => it.stop())

test('Queues contract §4: an empty queue has null ages and a total of 0', async () => {
  const queue = await createQueue(queues)
  for (const shape of shapes) {
    const body = bodyOf(await queues.ask('GET', queue.at('metrics'), undefined, shape))
    const { scrape_time, ...rest } = body
    assert.deepEqual(rest, {
      queue_name: queue.name,
      queue_length: 0,
      queue_visible_length: 0,
      newest_msg_age_sec: null,
      oldest_msg_age_sec: null,
      total_messages: 0,
    })
    assert.ok(Math.abs(Date.parse(scrape_time) - Date.now()) < 600_000, scrape_time)
  }
})

test('Queues contract §4: the length counts visible, hidden and delayed messages, not archived ones', async () => {
  const queue = await createQueue(queues)
  const counts = async () => {
    const { queue_length, queue_visible_length, total_messages } = await queue.metrics()
    return [queue_length, queue_visible_length, total_messages]
  }
  const [a, b] = await queue.sendBatch(['a', 'b', 'c'])
  assert.deepEqual(await counts(), [3, 3, 3])
  await queue.send('d', { delay: 1000 })
  assert.deepEqual(await counts(), [4, 3, 4])
  await queue.read(1000)
  assert.deepEqual(await counts(), [4, 2, 4])
  await queue.archive(a!)
  assert.deepEqual(await counts(), [3, 2, 4])
  await queue.ack(b!)
  assert.deepEqual(await counts(), [2, 1, 4])
  await queue.pop()
  assert.deepEqual(await counts(), [1, 0, 4])
  await queue.send('e')
  assert.deepEqual(await counts(), [2, 1, 5])
})

test('Queues contract §4: total_messages includes the first message, also after it is deleted', async () => {
  const queue = await createQueue(queues)
  const id = await queue.send('only')
  assert.equal((await queue.metrics()).total_messages, 1)
  await queue.ack(id)
  assert.partialDeepStrictEqual(await queue.metrics(), { queue_length: 0, total_messages: 1 })
})

test('Queues contract §4: a replayed message counts in the length again, and once in the total', async () => {
  const queue = await createQueue(queues)
  const id = await queue.send('x')
  await queue.archive(id)
  await queue.replay(id)
  assert.partialDeepStrictEqual(await queue.metrics(), { queue_length: 1, total_messages: 1 })
})

test('Queues contract §4: ages are whole seconds since the oldest and the newest message were sent', async () => {
  const queue = await createQueue(queues)
  const first = await queue.send('old')
  const aged = await until('a second passes', async () => {
    const metrics = await queue.metrics()
    return metrics.oldest_msg_age_sec >= 1 && metrics
  })
  assert.ok(Number.isInteger(aged.oldest_msg_age_sec))
  assert.ok(Number.isInteger(aged.newest_msg_age_sec))
  await until('a younger one is younger', async () => {
    await queue.send('young')
    const { oldest_msg_age_sec: oldest, newest_msg_age_sec: newest } = await queue.metrics()
    assert.ok(Number.isInteger(newest) && newest >= 0 && newest <= oldest, `${newest} ${oldest}`)
    return newest < oldest
  })
  await queue.ack(first)
  await until('it is empty', async () => (await queue.pop()) === null, { everyMs: 0 })
  assert.partialDeepStrictEqual(await queue.metrics(), { oldest_msg_age_sec: null, newest_msg_age_sec: null })
})

test('2 §1 metrics are those of the project’s own queue', async () => {
  const queue = await createQueue(queues)
  const other = await createQueue(await queuesProject(it), queue.name)
  await queue.sendBatch([1, 2, 3])
  assert.equal((await other.metrics()).total_messages, 0)
})
