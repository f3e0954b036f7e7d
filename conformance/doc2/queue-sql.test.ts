// 2 §4.3 and Queues contract §2: SQL functions in the project database work on the same queues, called as its
// owner.
import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { createQueue, idsOf, type QueueApi, queueOf, queuesOf } from '../queue.ts'
import { type RowsApi, rowsProject } from '../rows.ts'
import { bodyOf, type ServiceApi } from '../service.ts'
import { type Target, target } from '../target.ts'
import { assertDataError } from '../wire.ts'

let it: Target
let rows: RowsApi
let queues: ServiceApi
before(async () => {
  it = await target()
  rows = await rowsProject(it, 'select 1')
  queues = queuesOf(it, rows.project)
})
after(() => it.stop())

const column = async (sql: string) => (await rows.sql(sql)).map(row => Object.values(row)[0])
const ids = async (sql: string) => (await column(sql)).map(Number)

test('2 §4.3 a queue created by SQL exists over HTTP, and vice versa', async () => {
  await rows.sql(`select pgmq.create('by_sql')`)
  const listed: any[] = bodyOf(await queues.get('queues'))
  assert.partialDeepStrictEqual(
    listed.find(({ queue_name }) => queue_name === 'by_sql'),
    { is_partitioned: false, is_unlogged: false },
  )
  await rows.sql(`select pgmq.create_unlogged('by_sql_unlogged')`)
  const unlogged: any[] = bodyOf(await queues.get('queues'))
  assert.equal(unlogged.find(({ queue_name }) => queue_name === 'by_sql_unlogged').is_unlogged, true)
  const queue = await createQueue(queues, 'by_http')
  assert.ok((await column('select queue_name from pgmq.list_queues()')).includes('by_http'))
  assert.deepEqual(await column(`select pgmq.drop_queue('by_http')`), [true])
  assert.deepEqual(await column(`select pgmq.drop_queue('by_http')`), [false])
  assertDataError(await queues.get(queue.at('metrics')), 'queue_not_found')
  for (const name of ['by_sql', 'by_sql_unlogged']) {
    assert.equal(await queueOf(queues, name).send('x'), 1)
    assert.equal((await queues.delete(`queues/${name}`)).status, 204)
  }
})

test('2 §4.3 messages sent by SQL are read over HTTP, and vice versa', async () => {
  const queue = await createQueue(queues)
  const call = (name: string, rest = '') => `pgmq.${name}('${queue.name}'${rest})`
  assert.deepEqual(await ids(`select * from ${call('send', `, '{"a":1}'::jsonb`)}`), [1])
  const batch = `, array['{"b":1}','{"b":2}']::jsonb[]`
  assert.deepEqual(await ids(`select * from ${call('send_batch', batch)}`), [2, 3])
  assert.deepEqual(
    (await queue.read(1000, 2)).map(({ message }) => message),
    [{ a: 1 }, { b: 1 }],
  )
  await queue.send('by http')
  assert.deepEqual(await column(`select message from ${call('read', ', 1000, 10')} order by msg_id`), [
    { b: 2 },
    'by http',
  ])
  assert.deepEqual(await queue.read(0), [])
  assert.deepEqual(await column(`select read_ct from ${call('set_vt', ', 1, 0')}`), [1])
  assert.deepEqual(idsOf(await queue.read(1000, 10)), [1])
})

test('2 §4.3 delete, archive, pop and purge by SQL take effect over HTTP', async () => {
  const queue = await createQueue(queues)
  const call = (name: string, rest = '') => `pgmq.${name}('${queue.name}'${rest})`
  const [a, b, c, d] = await queue.sendBatch(['a', 'b', 'c', 'd', 'e', 'f'])
  assert.deepEqual(await column(`select ${call('delete', `, ${a}`)}`), [true])
  assert.deepEqual(await column(`select ${call('delete', `, ${a}`)}`), [false])
  assert.deepEqual(await column(`select ${call('archive', `, ${b}`)}`), [true])
  assert.deepEqual(idsOf(await queue.archived()), [b])
  assert.deepEqual(await ids(`select msg_id from ${call('pop')}`), [c])
  assert.deepEqual(idsOf(await queue.read(0, 1)), [d])
  const sqlMetrics = await rows.sql(`select queue_length, total_messages from ${call('metrics')}`)
  const { queue_length, total_messages } = await queue.metrics()
  assert.deepEqual(Object.values(sqlMetrics[0]!).map(Number), [queue_length, total_messages])
  assert.deepEqual(await ids(`select ${call('purge_queue')}`), [3])
  assert.partialDeepStrictEqual(await queue.metrics(), { queue_length: 0, total_messages: 6 })
  assert.deepEqual(idsOf(await queue.archived()), [b])
})

test('2 §4.3 a message sent in a rolled-back transaction is not delivered', async () => {
  const queue = await createQueue(queues)
  const sent = `select pgmq.send('${queue.name}', '"ghost"'::jsonb)`
  const reply = await rows.post('rpc/exec_sql', { sql: `${sent}; select 1 / 0` }, { as: 'service_role' })
  assert.equal(reply.status, 400, reply.text)
  assert.deepEqual(await queue.read(0, 10), [])
})

test('Clarifications: a queue whose tables were dropped by hand is 404, not 500', async () => {
  const queue: QueueApi = await createQueue(queues)
  await rows.sql(`drop table pgmq.q_${queue.name}`)
  assertDataError(await queues.post(queue.at('send'), { message: 1 }), 'queue_not_found')
  assertDataError(await queues.get(queue.at('metrics')), 'queue_not_found')
})
