// All calls of an unmodified pgmq client, over a direct connection of the project's owner.
import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { Pgmq } from 'pgmq-js'
import { startPlatform, type TestPlatform } from './harness.ts'
import { type QueueProject, queueProject } from './queue-database.ts'

let platform: TestPlatform
let project: QueueProject
let pgmq: Pgmq

before(async () => {
  platform = await startPlatform()
  project = await queueProject(platform)
  const { hostname: host, port, username: user, password, pathname } = new URL(project.direct)
  const database = pathname.slice(1)
  pgmq = await Pgmq.new(
    {
      host,
      port: Number(port),
      user,
      password: decodeURIComponent(password),
      database,
      ssl: false,
      max: 5,
      idleTimeoutMillis: 1000,
      // Its default of one second is too short for a busy machine.
      connectionTimeoutMillis: 30_000,
    },
    { skipExtensionCreation: true },
  )
})
after(async () => {
  await pgmq?.close()
  await project?.close()
  await platform.stop()
})

test('pgmq: queues are created, listed with their kind, and dropped', async () => {
  await pgmq.queue.create('first')
  await pgmq.queue.create('first')
  await pgmq.queue.createUnlogged('second')
  const listed = await pgmq.queue.list()
  assert.deepEqual(
    listed.map(({ createdAt: _, ...queue }) => queue),
    [
      { name: 'first', isPartitioned: false, isUnlogged: false },
      { name: 'second', isPartitioned: false, isUnlogged: true },
    ],
  )
  for (const { createdAt } of listed) assert.ok(createdAt instanceof Date)
  await pgmq.queue.drop('first')
  await pgmq.queue.drop('second')
  await pgmq.queue.drop('second')
  assert.deepEqual(await pgmq.queue.list(), [])
})

test('pgmq: any JSON message is returned unchanged', async () => {
  await pgmq.queue.create('any')
  const sent = [{ a: [1, 'é', null] }, [], 'text', 0, 1.5, false, null, {}]
  const ids = []
  for (const message of sent) ids.push(await pgmq.msg.send('any', message))
  assert.deepEqual(ids, [1, 2, 3, 4, 5, 6, 7, 8])
  const read = await pgmq.msg.readBatch('any', 60, 100)
  assert.deepEqual(
    read.map(({ msgId, readCount, message }) => ({ msgId, readCount, message })),
    sent.map((message, place) => ({ msgId: place + 1, readCount: 1, message })),
  )
})

test('pgmq: a message is sent, read, hidden, read again and deleted', async () => {
  await pgmq.queue.create('way')
  const id = await pgmq.msg.send('way', { n: 1 })
  const first = await pgmq.msg.read<{ n: number }>('way', 3600)
  assert.deepEqual([first.msgId, first.readCount, first.message], [id, 1, { n: 1 }])
  assert.ok(first.vt.getTime() - first.enqueuedAt.getTime() > 3_500_000)
  assert.equal(await pgmq.msg.read('way', 3600), undefined)
  const shown = await pgmq.msg.setVt('way', id, 0)
  assert.equal(shown?.msgId, id)
  assert.ok(shown.vt < first.vt)
  assert.equal((await pgmq.msg.read('way', 3600)).readCount, 2)
  assert.equal(await pgmq.msg.delete('way', id), true)
  assert.equal(await pgmq.msg.delete('way', id), false)
  assert.equal(await pgmq.msg.setVt('way', id, 0), undefined)
})

test('pgmq: batches keep their order and are settled as batches', async () => {
  await pgmq.queue.create('batch')
  const ids = await pgmq.msg.sendBatch('batch', ['a', 'b', 'c', 'd'])
  assert.deepEqual(ids, [1, 2, 3, 4])
  const read = await pgmq.msg.readBatch('batch', 60, 3)
  assert.deepEqual(
    read.map(({ message }) => message),
    ['a', 'b', 'c'],
  )
  assert.deepEqual((await pgmq.msg.deleteBatch('batch', [1, 2, 99])).toSorted(), [1, 2])
  assert.deepEqual((await pgmq.msg.archiveBatch('batch', [2, 3, 4])).toSorted(), [3, 4])
  assert.equal(await pgmq.msg.pop('batch'), undefined)
})

test('pgmq: a delayed message exists but is not readable', async () => {
  await pgmq.queue.create('later')
  const id = await pgmq.msg.send('later', {}, 3600)
  assert.equal(await pgmq.msg.read('later'), undefined)
  assert.equal(await pgmq.msg.pop('later'), undefined)
  assert.equal((await pgmq.queue.getMetrics('later')).queueLength, 1)
  assert.equal(await pgmq.msg.archive('later', id), true)
  assert.equal(await pgmq.msg.archive('later', id), false)
})

test('pgmq: pop takes the oldest message', async () => {
  await pgmq.queue.create('popped')
  await pgmq.msg.sendBatch('popped', ['a', 'b'])
  const popped = await pgmq.msg.pop('popped')
  assert.deepEqual([popped?.msgId, popped?.readCount, popped?.message], [1, 0, 'a'])
  assert.equal((await pgmq.msg.pop('popped'))?.message, 'b')
  assert.equal(await pgmq.msg.pop('popped'), undefined)
})

test('pgmq: metrics, purge and a detached archive work', async () => {
  await pgmq.queue.create('counted')
  const empty = await pgmq.queue.getMetrics('counted')
  assert.deepEqual(
    [empty.queueLength, empty.totalMessages, empty.newestMsgAgeSec, empty.oldestMsgAgeSec],
    [0, 0, undefined, undefined],
  )
  await pgmq.msg.sendBatch('counted', ['a', 'b', 'c'])
  await pgmq.msg.archive('counted', 1)
  const { queueLength, totalMessages } = await pgmq.queue.getMetrics('counted')
  assert.deepEqual([queueLength, totalMessages], [2, 3])
  await pgmq.queue.purge('counted')
  const all = await pgmq.queue.getAllMetrics()
  const counted = all.find(({ queueName }) => queueName === 'counted')
  assert.deepEqual([counted?.queueLength, counted?.totalMessages], [0, 3])
  await pgmq.queue.detachArchive('counted')
  await pgmq.queue.drop('counted')
  assert.deepEqual(await project.values(`select to_regclass('pgmq.a_counted')`), [null])
})

test('pgmq: a missing queue raises undefined_table', async () => {
  await assert.rejects(pgmq.msg.send('nowhere', {}), { code: '42P01' })
  await assert.rejects(pgmq.msg.read('nowhere'), { code: '42P01' })
  await assert.rejects(pgmq.queue.getMetrics('nowhere'), { code: '42P01' })
})
