// 2 §3 and Queues contract §3: visibility of messages. Visibility timeouts are long where a message must stay
// hidden. How soon a message is visible again is measured with the times that the server returns.
import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { createQueue, idsOf, type QueueApi, queuesProject } from '../queue.ts'
import { bodyOf, type ServiceApi } from '../service.ts'
import { type Target, target } from '../target.ts'
import { until } from '../until.ts'

let it: Target
let queues: ServiceApi
before(async () => {
  it = await target()
  queues = await queuesProject(it)
})
after(() => it.stop())

const next = (queue: QueueApi) =>
  until(`a message of ${queue.name} is visible`, async () => (await queue.read(0))[0])

test('2 §3 a read message is hidden from every other read and from pop', async () => {
  const queue = await createQueue(queues)
  const id = await queue.send('x')
  const [read] = await queue.read(1000)
  assert.deepEqual([read!.msg_id, read!.read_ct], [id, 1])
  assert.deepEqual(await queue.read(0, 10), [])
  assert.deepEqual(await queue.read(1000, 10), [])
  assert.equal(await queue.pop(), null)
  assert.equal((await queue.metrics()).queue_length, 1)
})

test('2 §3 when vt elapses without ack or archive, the message is delivered again and counted', async () => {
  const queue = await createQueue(queues)
  const id = await queue.send({ again: true })
  const [first] = await queue.read(1)
  const second = await next(queue)
  assert.partialDeepStrictEqual(second, { msg_id: id, read_ct: 2, message: { again: true } })
  assert.equal(second.enqueued_at, first!.enqueued_at)
  // Read with vt 0, so the new vt is the time of the second read.
  assert.ok(Date.parse(second.vt) >= Date.parse(first!.vt), `${second.vt} before ${first!.vt}`)
})

test('Queues contract §3: with vt 0 a message can be read again at once', async () => {
  const queue = await createQueue(queues)
  const id = await queue.send('x')
  for (const count of [1, 2, 3]) {
    const [read] = await queue.read(0)
    assert.deepEqual([read!.msg_id, read!.read_ct], [id, count])
  }
  assert.equal((await queue.pop())!.msg_id, id)
})

test('Queues contract §3: a redelivered message comes before newer ones', async () => {
  const queue = await createQueue(queues)
  const [old] = await queue.sendBatch(['old', 'young'])
  await queue.read(1)
  await until('the old one is visible', async () => (await queue.read(0, 2)).length === 2)
  assert.deepEqual(idsOf(await queue.read(1000)), [old])
})

test('2 §3 after vt elapses a message can also be popped', async () => {
  const queue = await createQueue(queues)
  const id = await queue.send('x')
  await queue.read(1)
  const popped = await until('it can be popped', () => queue.pop())
  // A pop does not count as a read.
  assert.deepEqual([popped.msg_id, popped.read_ct], [id, 1])
  assert.equal((await queue.metrics()).queue_length, 0)
})

test('2 §4.3 a delay hides a message from read and pop until it is due', async () => {
  const queue = await createQueue(queues)
  await queue.send('later', { delay: 1000 })
  await queue.sendBatch(['later too', 'and this'], { delay: 1000 })
  assert.deepEqual(await queue.read(0, 10), [])
  assert.equal(await queue.pop(), null)
  assert.equal((await queue.metrics()).queue_length, 3)
  const now = await queue.send('now', { delay: 0 })
  assert.deepEqual(idsOf(await queue.read(1000, 10)), [now])
})

test('2 §4.3 a delayed message is delivered when it is due, not earlier', async () => {
  for (const send of [
    (queue: QueueApi) => queue.send('soon', { delay: 1 }),
    async (queue: QueueApi) => (await queue.sendBatch(['soon'], { delay: 1 }))[0]!,
  ]) {
    const queue = await createQueue(queues)
    const id = await send(queue)
    const read = await next(queue)
    assert.deepEqual([read.msg_id, read.read_ct, read.message], [id, 1, 'soon'])
    assert.ok(Date.parse(read.vt) >= Date.parse(read.enqueued_at) + 1000)
  }
})

test('Queues contract §3: hidden and delayed messages can be acknowledged and archived', async () => {
  const queue = await createQueue(queues)
  const [acked, archived] = await queue.sendBatch(['a', 'b'])
  await queue.read(1000, 2)
  const [delayedA, delayedB] = await queue.sendBatch(['c', 'd'], { delay: 1000 })
  for (const id of [acked!, delayedA!]) assert.equal(await queue.ack(id), true)
  for (const id of [archived!, delayedB!]) assert.equal(await queue.archive(id), true)
  assert.equal((await queue.metrics()).queue_length, 0)
  assert.deepEqual(idsOf(await queue.archived()).toSorted(), [archived, delayedB])
})

test('case 41: a late ack succeeds, even if another consumer has the message', async () => {
  const queue = await createQueue(queues)
  const id = await queue.send('x')
  await queue.read(1)
  const taken = await until('another takes it', async () => (await queue.read(1000))[0])
  assert.deepEqual([taken.msg_id, taken.read_ct], [id, 2])
  assert.equal(await queue.ack(id), true)
  assert.equal(await queue.ack(id), false)
})

test('2 §3 concurrent readers get different messages', async () => {
  const queue = await createQueue(queues)
  const ids = await queue.sendBatch(Array.from({ length: 150 }, (_, place) => place))
  const read: number[] = []
  async function reader() {
    for (let batch = await queue.read(1000, 4); batch.length > 0; batch = await queue.read(1000, 4)) {
      read.push(...idsOf(batch))
      assert.ok(read.length <= ids.length, 'more was read than sent')
    }
  }
  await Promise.all(Array.from({ length: 20 }, reader))
  await reader()
  assert.deepEqual(
    read.toSorted((a, b) => a - b),
    ids,
  )
})

test('case 41: messages of a crashed consumer are not lost', async () => {
  const queue = await createQueue(queues)
  const ids = await queue.sendBatch(['a', 'b', 'c'])
  // The first consumer acknowledges one message and then crashes.
  await queue.read(1, 3)
  await queue.ack(ids[1]!)
  const delivered = new Set<number>()
  await until('the others come back', async () => {
    for (const { msg_id } of await queue.read(1000, 3)) {
      delivered.add(msg_id)
      await queue.ack(msg_id)
    }
    return delivered.size === 2
  })
  assert.deepEqual([...delivered].toSorted(), [ids[0], ids[2]])
  assert.equal((await queue.metrics()).queue_length, 0)
})

test('2 §4.3 a message may be hidden or delayed for years', async () => {
  const queue = await createQueue(queues)
  const seconds = 50 * 31_557_600
  await queue.send('x')
  const [read] = await queue.read(seconds)
  assert.ok(Date.parse(read!.vt) > Date.now() + (seconds - 86_400) * 1000, read!.vt)
  bodyOf(await queues.post(queue.at('send'), { message: 'y', delay: seconds }))
  assert.deepEqual(await queue.read(0, 10), [])
})
