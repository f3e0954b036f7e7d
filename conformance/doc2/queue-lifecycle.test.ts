// 2 §2 "Queue", §4.3 and Queues contract §2, §5: creating, listing and dropping queues.
import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { sleep } from '../people.ts'
import { createQueue, idsOf, queueOf, queuesProject } from '../queue.ts'
import { bodyOf, type ServiceApi, shapes } from '../service.ts'
import { type Target, target } from '../target.ts'
import { assertDataError } from '../wire.ts'

let it: Target
let queues: ServiceApi
before(async () => {
  it = await target()
  queues = await queuesProject(it)
})
after(() => it.stop())

const list = async (where = queues): Promise<any[]> => bodyOf(await where.get('queues'))
const names = async (where = queues) => (await list(where)).map(({ queue_name }) => queue_name).toSorted()

/** Every operation on a queue, with a valid body. */
const operations: [string, string, unknown?][] = [
  ['POST', 'send', { message: 1 }],
  ['POST', 'send_batch', { messages: [1] }],
  ['POST', 'read', { vt: 5 }],
  ['POST', 'pop'],
  ['POST', 'ack', { msg_id: 1 }],
  ['POST', 'archive', { msg_id: 1 }],
  ['GET', 'archived'],
  ['POST', 'replay', { msg_id: 1 }],
  ['GET', 'metrics'],
]

test('2 §4.3 a queue is created, listed and dropped, in both shapes of the URL', async () => {
  for (const shape of shapes) {
    const own = await queuesProject(it)
    assert.deepEqual(bodyOf(await own.ask('GET', 'queues', undefined, shape)), [])
    const created = bodyOf(await own.ask('POST', 'queues', { name: 'jobs' }, shape), 201)
    const { created_at, ...rest } = created
    assert.deepEqual(rest, { queue: 'jobs', queue_name: 'jobs', is_partitioned: false, is_unlogged: false })
    assert.ok(Math.abs(Date.parse(created_at) - Date.now()) < 600_000, created_at)
    assert.deepEqual(bodyOf(await own.ask('GET', 'queues', undefined, shape)), [
      { queue_name: 'jobs', is_partitioned: false, is_unlogged: false, created_at },
    ])
    const sent = bodyOf(await own.ask('POST', 'queues/jobs/send', { message: 'hello' }, shape))
    const read = bodyOf(await own.ask('POST', 'queues/jobs/read', { vt: 100 }, shape))
    assert.deepEqual(idsOf(read), [sent.msg_id])
    const acked = await own.ask('POST', 'queues/jobs/ack', { msg_id: sent.msg_id }, shape)
    assert.equal(bodyOf(acked).acked, true)
    const batch = bodyOf(await own.ask('POST', 'queues/jobs/send_batch', { messages: ['a', 'b'] }, shape))
    const popped = bodyOf(await own.ask('POST', 'queues/jobs/pop', undefined, shape))
    assert.equal(popped.msg_id, batch.msg_ids[0])
    const dropped = await own.ask('DELETE', 'queues/jobs', undefined, shape)
    assert.deepEqual([dropped.status, dropped.text], [204, ''])
    assert.deepEqual(bodyOf(await own.ask('GET', 'queues', undefined, shape)), [])
  }
})

test('Queues contract §2: creating an existing queue succeeds and does not change it', async () => {
  const queue = await createQueue(queues)
  const [before] = (await list()).filter(({ queue_name }) => queue_name === queue.name)
  const id = await queue.send('kept')
  const again = bodyOf(await queues.post('queues', { name: queue.name }), 201)
  assert.deepEqual(again, { queue: queue.name, ...before })
  assert.deepEqual(idsOf(await queue.read(100)), [id])
  assert.equal((await names()).filter(name => name === queue.name).length, 1)
})

test('Queues contract §2: concurrent creates of the same queue succeed', async () => {
  const own = await queuesProject(it)
  async function create() {
    // 1 §8: requests beyond the project's connections get 429 with Retry-After: 1.
    for (;;) {
      const reply = await own.post('queues', { name: 'contested' })
      if (reply.status !== 429) return bodyOf(reply, 201)
      assert.equal(reply.headers.get('retry-after'), '1')
      await sleep(1000)
    }
  }
  await Promise.all(Array.from({ length: 12 }, create))
  assert.deepEqual(await names(own), ['contested'])
  assert.equal(await queueOf(own, 'contested').send('x'), 1)
})

test('2 §4.3 dropping a queue deletes its messages and its archive', async () => {
  const queue = await createQueue(queues)
  const [first] = await queue.sendBatch(['archived', 'waiting', 'hidden'])
  await queue.archive(first!)
  await queue.read(1000)
  assert.equal((await queues.delete(`queues/${queue.name}`)).status, 204)
  assert.ok(!(await names()).includes(queue.name))
  for (const [method, operation, body] of operations)
    assertDataError(await queues.ask(method, queue.at(operation), body), 'queue_not_found')

  await createQueue(queues, queue.name)
  assert.deepEqual(await queue.read(0), [])
  assert.deepEqual(await queue.archived(), [])
  assert.partialDeepStrictEqual(await queue.metrics(), { queue_length: 0, total_messages: 0 })
  assert.equal(await queue.send('anew'), 1)
})

test('Queues contract §5: every route of a missing queue is 404', async () => {
  for (const shape of shapes)
    for (const [method, operation, body] of operations) {
      const reply = await queues.ask(method, `queues/nowhere/${operation}`, body, shape)
      assertDataError(reply, 'queue_not_found')
    }
  assertDataError(await queues.delete('queues/nowhere'), 'queue_not_found')
  const queue = await createQueue(queues)
  assert.equal((await queues.delete(`queues/${queue.name}`)).status, 204)
  assertDataError(await queues.delete(`queues/${queue.name}`), 'queue_not_found')
})

test('2 §1 queues with the same name in two projects are separate', async () => {
  const [mine, theirs] = [await queuesProject(it), await queuesProject(it)]
  const own = await createQueue(mine, 'shared')
  assert.deepEqual(await names(theirs), [])
  assertDataError(await theirs.post('queues/shared/read', { vt: 0 }), 'queue_not_found')
  const other = await createQueue(theirs, 'shared')
  await own.send('mine')
  await other.send('theirs')
  assert.deepEqual(
    (await own.read(0, 10)).map(({ message }) => message),
    ['mine'],
  )
  assert.equal((await theirs.delete('queues/shared')).status, 204)
  assert.equal((await own.read(0, 10)).length, 1)
})

test('2 §4.3 queues of one project are separate', async () => {
  const [a, b] = [await createQueue(queues), await createQueue(queues)]
  const id = await a.send('a')
  assert.deepEqual(await b.read(0, 10), [])
  assert.equal(await b.ack(id), false)
  assert.equal(await b.archive(id), false)
  assert.equal((await a.read(0)).length, 1)
  await queues.delete(`queues/${b.name}`)
  assert.equal((await a.read(0)).length, 1)
})

test('2 §4.3 an invalid body is 400', async () => {
  for (const body of [{}, [], { name: null }, { name: 5 }, { name: 'a', partitioned: true }, '{'])
    assert.equal((await queues.post('queues', body)).status, 400, JSON.stringify(body))
})
