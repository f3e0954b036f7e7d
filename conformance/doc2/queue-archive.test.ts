// 2 §3, §4.3 and Queues contract §2, §5: the archive, which is the dead-letter queue, and replay.
import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { createQueue, idsOf, queuesProject } from '../queue.ts'
import { bodyOf, type ServiceApi, shapes } from '../service.ts'
import { type Target, target } from '../target.ts'
import { until } from '../until.ts'
import { assertDataError } from '../wire.ts'

let it: Target
let queues: ServiceApi
before(async () => {
  it = await target()
  queues = await queuesProject(it)
})
after(() => it.stop())

test('2 §3 an archived message leaves the queue and is listed unchanged with the time of archiving', async () => {
  const queue = await createQueue(queues)
  assert.deepEqual(await queue.archived(), [])
  const id = await queue.send({ order: 7 }, { headers: { trace: 'a' } })
  const [read] = await queue.read(1000)
  const reply = await queues.post(queue.at('archive'), { msg_id: id })
  assert.partialDeepStrictEqual(bodyOf(reply), { archived: true })
  assert.deepEqual(await queue.read(0, 10), [])
  assert.equal((await queue.metrics()).queue_length, 0)
  const [{ archived_at, ...rest }] = (await queue.archived()) as [any]
  assert.deepEqual(rest, read)
  assert.ok(Date.parse(archived_at) >= Date.parse(read!.enqueued_at), archived_at)
})

test('2 §4.3 archive, archived and replay work in both shapes of the URL', async () => {
  const queue = await createQueue(queues)
  const id = await queue.send('x')
  for (const shape of shapes) {
    const ask = (method: string, operation: string, body?: unknown) =>
      queues.ask(method, queue.at(operation), body, shape)
    assert.partialDeepStrictEqual(bodyOf(await ask('POST', 'archive', { msg_id: id })), { archived: true })
    assert.deepEqual(idsOf(bodyOf(await ask('GET', 'archived'))), [id])
    assert.deepEqual(bodyOf(await ask('POST', 'replay', { msg_id: id })), { replayed: true, msg_id: id })
    assert.deepEqual(bodyOf(await ask('GET', 'archived')), [])
  }
})

test('Clarifications "Queues": archiving an unknown id returns 200 with false and archives nothing', async () => {
  const queue = await createQueue(queues)
  const id = await queue.send('x')
  assert.equal(await queue.archive(1_000_000), false)
  await queue.ack(id)
  assert.equal(await queue.archive(id), false)
  const archived = await queue.send('y')
  assert.deepEqual([await queue.archive(archived), await queue.archive(archived)], [true, false])
  assert.deepEqual(idsOf(await queue.archived()), [archived])
})

test('Queues contract §2: one call archives several messages', async () => {
  const queue = await createQueue(queues)
  const ids = await queue.sendBatch(['a', 'b', 'c'])
  const reply = bodyOf(await queues.post(queue.at('archive'), { msg_ids: [ids[2], 1_000_000, ids[0]] }))
  assert.deepEqual(reply.msg_ids.toSorted(), [ids[0], ids[2]])
  assert.deepEqual(idsOf(await queue.archived()).toSorted(), [ids[0], ids[2]])
  assert.deepEqual(idsOf(await queue.read(0, 10)), [ids[1]])
})

test('Queues contract §5: the archive lists the newest first, in pages', async () => {
  const queue = await createQueue(queues)
  const ids = await queue.sendBatch(Array.from({ length: 7 }, (_, place) => place))
  const order = [3, 0, 6, 1, 5, 2, 4].map(place => ids[place]!)
  for (const id of order) await queue.archive(id)
  const newest = order.toReversed()
  const all = await queue.archived()
  assert.deepEqual(idsOf(all), newest)
  const times = all.map(({ archived_at }) => Date.parse(archived_at))
  assert.deepEqual(
    times,
    times.toSorted((a, b) => b - a),
  )
  assert.deepEqual(idsOf(await queue.archived('?limit=3')), newest.slice(0, 3))
  assert.deepEqual(idsOf(await queue.archived('?limit=3&offset=3')), newest.slice(3, 6))
  assert.deepEqual(idsOf(await queue.archived('?offset=6')), newest.slice(6))
  assert.deepEqual(await queue.archived('?offset=100'), [])
  assert.equal((await queue.archived('?limit=1000000')).length, 7)
  for (const query of ['limit=-1', 'limit=x', 'offset=-1', 'offset=1.5'])
    assert.equal((await queues.get(queue.at(`archived?${query}`))).status, 400, query)
})

test('2 §3 a replayed message is visible in the queue immediately, keeps its id, and leaves the archive', async () => {
  const queue = await createQueue(queues)
  const [id, other] = await queue.sendBatch([{ retry: 'me' }, 'other'])
  // The message has a long visibility timeout when it is archived. Replay must ignore it.
  await queue.read(1000, 2)
  await queue.archive(id!)
  await queue.archive(other!)
  const reply = await queues.post(queue.at('replay'), { msg_id: id })
  assert.deepEqual(bodyOf(reply), { replayed: true, msg_id: id })
  assert.deepEqual(idsOf(await queue.archived()), [other])
  const [read] = await queue.read(1000, 10)
  assert.deepEqual([read!.msg_id, read!.message], [id, { retry: 'me' }])
  assert.equal((await queue.metrics()).queue_length, 1)
  assert.equal(await queue.ack(id!), true)
})

test('2 §3 a message can be archived and replayed repeatedly', async () => {
  const queue = await createQueue(queues)
  const id = await queue.send('round')
  for (let round = 0; round < 3; round++) {
    assert.equal(await queue.archive(id), true)
    assert.deepEqual([idsOf(await queue.archived()), await queue.read(0)], [[id], []])
    await queue.replay(id)
    assert.deepEqual([await queue.archived(), idsOf(await queue.read(0))], [[], [id]])
  }
  assert.ok((await queue.send('new')) > id)
})

test('Queues contract §5: replaying an id that is not archived is 404 and adds nothing', async () => {
  const queue = await createQueue(queues)
  const waiting = await queue.send('waiting')
  const acked = await queue.send('acked')
  await queue.ack(acked)
  for (const id of [waiting, acked, 1_000_000])
    assertDataError(await queues.post(queue.at('replay'), { msg_id: id }), 'archived_message_not_found')
  assert.equal((await queue.metrics()).queue_length, 1)
})

test('2 §3 a replay is one transaction: of concurrent replays one succeeds, and the message exists once', async () => {
  const queue = await createQueue(queues)
  const id = await queue.send('once')
  await queue.archive(id)
  const replies = await Promise.all(
    Array.from({ length: 15 }, () => queues.post(queue.at('replay'), { msg_id: id })),
  )
  const statuses = replies.map(({ status }) => status).toSorted()
  assert.deepEqual(statuses, [200, ...Array(14).fill(404)])
  assert.deepEqual(idsOf(await queue.read(1000, 10)), [id])
  assert.deepEqual(await queue.archived(), [])
})

test('2 §3 of concurrent archive and ack calls for a message one succeeds', async () => {
  const queue = await createQueue(queues)
  const id = await queue.send('once')
  const done = await Promise.all(
    Array.from({ length: 20 }, (_, place) => (place % 2 ? queue.ack(id) : queue.archive(id))),
  )
  assert.equal(done.filter(Boolean).length, 1)
  assert.equal((await queue.archived()).length, done.indexOf(true) % 2 === 0 ? 1 : 0)
  assert.equal((await queue.metrics()).queue_length, 0)
})

test('2 §3 archived messages do not return to the queue without a replay', async () => {
  const queue = await createQueue(queues)
  const [first, second] = await queue.sendBatch(['archived', 'witness'])
  await queue.read(1, 2)
  await queue.archive(first!)
  await until('the witness comes back', async () => (await queue.read(0, 10)).length > 0)
  assert.deepEqual(idsOf(await queue.read(0, 10)), [second])
})
