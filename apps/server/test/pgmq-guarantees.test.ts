// Delivery guarantees with concurrent and killed consumers: read delivers at least once, pop at most once, no message is
// lost and no id is reused.
import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import type { Client } from 'pg'
import { type SqlFragment, sql } from '#src/kernel/postgres/sql.ts'
import { eventually } from './eventually.ts'
import { startPlatform, type TestPlatform } from './harness.ts'
import { type QueueProject, queueProject } from './queue-database.ts'

let platform: TestPlatform
let project: QueueProject
let rows: QueueProject['rows']
let values: QueueProject['values']

before(async () => {
  platform = await startPlatform()
  project = await queueProject(platform)
  ;({ rows, values } = project)
})
after(async () => {
  await project?.close()
  await platform.stop()
})

async function queue(name: string, count: number): Promise<void> {
  await rows('select pgmq.create($1)', [name])
  await rows('select pgmq.send_batch($1, array(select to_jsonb(n) from generate_series(1, $2) n))', [
    name,
    count,
  ])
}
const ids = async (client: Client, statement: string): Promise<string[]> =>
  (await client.query(statement)).rows.map(({ msg_id }) => msg_id)
/** Sessions of service_role, because an owner has fewer connections. */
const consumers = (count: number) =>
  Promise.all(Array.from({ length: count }, () => project.connectAs('service_role')))
const endAll = (clients: Client[]) => Promise.all(clients.map(client => client.end()))
const backend = async (client: Client): Promise<number> =>
  (await client.query('select pg_backend_pid() as pid')).rows[0].pid
const onServer = <T>(query: SqlFragment) =>
  platform.asSuperuser('postgres', session => session.rows<T>(query))

test('pgmq: fifty clients that pop get every message once', async () => {
  await queue('popped', 500)
  const clients = await consumers(50)
  const popped = await Promise.all(
    clients.map(async client => {
      const got: string[] = []
      for (;;) {
        const [id] = await ids(client, `select msg_id from pgmq.pop('popped')`)
        if (id === undefined) {
          // Locked messages are skipped, so an empty result does not mean an empty queue.
          const { rows: left } = await client.query('select 1 from pgmq.q_popped limit 1')
          if (left.length === 0) return got
        } else got.push(id)
      }
    }),
  )
  await endAll(clients)
  const all = popped.flat().toSorted((a, b) => Number(a) - Number(b))
  assert.deepEqual(
    all,
    Array.from({ length: 500 }, (_, place) => String(place + 1)),
  )
  assert.ok(popped.filter(got => got.length > 0).length > 1, 'several clients got messages')
})

test('pgmq: concurrent readers get different messages without waiting', async () => {
  await queue('read', 9)
  const clients = await consumers(3)
  const read: string[][] = []
  // Each keeps its transaction, and with it the locks, while the next one reads.
  for (const client of clients) {
    await client.query(`set statement_timeout = '60s'`)
    await client.query('begin')
    read.push(await ids(client, `select msg_id from pgmq.read('read', 0, 3)`))
  }
  assert.deepEqual(read, [
    ['1', '2', '3'],
    ['4', '5', '6'],
    ['7', '8', '9'],
  ])
  assert.deepEqual(await values(`select msg_id from pgmq.pop('read')`), [])
  await clients[1]!.query('rollback')
  assert.deepEqual(await values(`select msg_id from pgmq.read('read', 3600, 9)`), ['4', '5', '6'])
  await endAll(clients)
})

test('pgmq: concurrent readers that delete settle every message exactly once', async () => {
  await queue('worked', 300)
  const clients = await consumers(10)
  const settled = await Promise.all(
    clients.map(async client => {
      const got: string[] = []
      for (;;) {
        const read = await ids(client, `select msg_id from pgmq.read('worked', 3600, 7)`)
        if (read.length === 0) {
          const { rows: left } = await client.query('select 1 from pgmq.q_worked limit 1')
          if (left.length === 0) return got
          continue
        }
        got.push(
          ...(await client.query('select pgmq.delete($1, $2::bigint[]) as id', ['worked', read])).rows.map(
            ({ id }) => id,
          ),
        )
      }
    }),
  )
  await endAll(clients)
  const all = settled.flat()
  assert.equal(all.length, 300)
  assert.equal(new Set(all).size, 300)
})

test('pgmq: concurrent creates of the same queue both succeed and give one queue', async () => {
  const [one, other] = [await project.connect(), await project.connect()]
  for (let round = 1; round <= 10; round++) {
    const name = `raced_${round}`
    await Promise.all([one, other].map(client => client.query('select pgmq.create($1)', [name])))
    assert.equal((await values('select 1 from pgmq.list_queues() where queue_name = $1', [name])).length, 1)
    const dropped = await Promise.all(
      [one, other].map(
        async client => (await client.query('select pgmq.drop_queue($1) as was', [name])).rows[0].was,
      ),
    )
    assert.deepEqual(dropped.toSorted(), [false, true])
  }
  // The second create waits until the first transaction commits or rolls back.
  for (const end of ['commit', 'rollback']) {
    await one.query('begin')
    await one.query(`select pgmq.create('slow_${end}')`)
    const second = other.query(`select pgmq.create('slow_${end}')`)
    const pid = await backend(one)
    await eventually(async () => {
      const [row] = await onServer<{ waiting: boolean }>(
        sql`select exists (select from pg_stat_activity a where ${pid} = any(pg_blocking_pids(a.pid))) as waiting`,
      )
      return row!.waiting
    }, 'the second create waits for the first')
    await one.query(end)
    await second
    assert.deepEqual(await values(`select pgmq.send('slow_${end}', '1')`), ['1'])
  }
  await endAll([one, other])
})

test('pgmq: messages of a consumer killed inside its transaction become visible again', async () => {
  await queue('killed', 2)
  const consumer = await project.connect()
  const pid = await backend(consumer)
  await consumer.query('begin')
  assert.deepEqual(await ids(consumer, `select msg_id from pgmq.read('killed', 3600, 1)`), ['1'])
  assert.deepEqual(await ids(consumer, `select msg_id from pgmq.pop('killed')`), ['2'])
  await consumer.query(`select pgmq.archive('killed', 1)`)
  assert.deepEqual(await values(`select msg_id from pgmq.read('killed', 0, 5)`), [])
  await onServer(sql`select pg_terminate_backend(${pid}, 60000)`)
  const again = await rows(`select msg_id, read_ct from pgmq.read('killed', 0, 5)`)
  assert.deepEqual(again, [
    { msg_id: '1', read_ct: 1 },
    { msg_id: '2', read_ct: 1 },
  ])
  assert.deepEqual(await values('select msg_id from pgmq.a_killed'), [])
})

test('pgmq: a message of a killed consumer becomes visible after its visibility timeout', async () => {
  await queue('expired', 1)
  const consumer = await project.connect()
  const pid = await backend(consumer)
  const [{ vt }] = (await consumer.query(`select vt from pgmq.read('expired', 2, 1)`)).rows
  await onServer(sql`select pg_terminate_backend(${pid}, 60000)`)
  let again: { read_ct: number; at: Date }[] = []
  await eventually(async () => {
    again = await rows(`select read_ct, clock_timestamp() as at from pgmq.read('expired', 3600, 1)`)
    return again.length > 0
  }, 'the message is visible again')
  assert.equal(again[0]!.read_ct, 2)
  assert.ok(again[0]!.at >= vt, 'not before its visibility timeout')
})

test('pgmq: a message becomes visible exactly at its deadline', async () => {
  await queue('edge', 1)
  const moment = `(select vt from pgmq.q_edge)`
  await rows(`select pgmq.set_vt('edge', 1, 1)`)
  // Each statement takes the time before and after the read, because the deadline can pass in between.
  for (;;) {
    const [look] = await rows(`
      select ${moment} as vt, clock_timestamp() as before, (select count(*)::int from pgmq.read('edge', -1000, 1)) as found, clock_timestamp() as after`)
    if (look.found === 0) assert.ok(look.before <= look.vt, 'hidden only before its deadline')
    else {
      assert.ok(look.after >= look.vt, 'visible only from its deadline')
      break
    }
  }
})

test('pgmq: a slow consumer can still settle a message that another one has read', async () => {
  await queue('late', 2)
  const [slow, other] = await consumers(2)
  await slow!.query(`select pgmq.read('late', 0, 2)`)
  assert.deepEqual(await ids(other!, `select msg_id from pgmq.read('late', 3600, 2)`), ['1', '2'])
  assert.deepEqual((await slow!.query(`select pgmq.delete('late', 1) as done`)).rows, [{ done: true }])
  assert.deepEqual((await other!.query(`select pgmq.delete('late', 1) as done`)).rows, [{ done: false }])
  assert.deepEqual((await slow!.query(`select pgmq.archive('late', 2) as done`)).rows, [{ done: true }])
  assert.deepEqual((await other!.query(`select pgmq.archive('late', 2) as done`)).rows, [{ done: false }])
  assert.deepEqual(await values('select msg_id from pgmq.a_late'), ['2'])
  await endAll([slow!, other!])
})

test('pgmq: concurrent archives of one message archive it once', async () => {
  await queue('twice', 1)
  const [one, other] = await consumers(2)
  await one!.query('begin')
  assert.deepEqual((await one!.query(`select pgmq.archive('twice', 1) as done`)).rows, [{ done: true }])
  const second = other!.query(`select pgmq.archive('twice', 1) as done`)
  await one!.query('commit')
  assert.deepEqual((await second).rows, [{ done: false }])
  assert.deepEqual(await values('select msg_id from pgmq.a_twice'), ['1'])
  await endAll([one!, other!])
})

test('pgmq: ids are never reused after a rollback, a purge or concurrent sends', async () => {
  await queue('ids', 3)
  await rows('begin')
  await rows(`select pgmq.send('ids', '1')`)
  await rows('rollback')
  await rows(`select pgmq.purge_queue('ids')`)
  const clients = await consumers(8)
  const sent = await Promise.all(
    clients.map(async client => {
      const got: string[] = []
      for (let turn = 0; turn < 10; turn++) {
        const { rows: batch } = await client.query(
          `select pgmq.send_batch('ids', array['1', '2', '3']::jsonb[]) as id`,
        )
        const batchIds = batch.map(({ id }) => Number(id))
        assert.deepEqual(
          batchIds,
          batchIds.toSorted((a, b) => a - b),
        )
        got.push(...batch.map(({ id }) => id))
      }
      return got
    }),
  )
  await endAll(clients)
  const all = sent.flat()
  assert.equal(new Set(all).size, 240)
  assert.ok(
    all.every(id => Number(id) > 4),
    'no earlier id is used again',
  )
})

test('pgmq: a message put back with its old id does not affect new ids', async () => {
  await queue('replayed', 2)
  await rows(`select pgmq.archive('replayed', 1)`)
  // The same statement as replay over HTTP.
  await project.as(
    'service_role',
    `with gone as (delete from pgmq.a_replayed where msg_id = 1 returning *)
     insert into pgmq.q_replayed (msg_id, vt, message) overriding system value select msg_id, clock_timestamp(), message from gone`,
  )
  assert.deepEqual(await values(`select msg_id from pgmq.read('replayed', 3600, 5)`), ['1', '2'])
  assert.deepEqual(await values(`select pgmq.send('replayed', '1')`), ['3'])
  assert.deepEqual(await values(`select pgmq.archive('replayed', 1)`), [true])
})
