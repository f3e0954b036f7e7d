// Postgres is killed with SIGKILL: committed messages are kept, uncommitted changes are rolled back, and ids are not reused.
import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import { chmodSync, mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import { Client } from 'pg'
import { engineFiles } from '#src/kernel/postgres/engine/place.ts'
import { type Engine, startEngine } from '#src/kernel/postgres/engine/start.ts'
import { startPlatform, type TestPlatform } from './harness.ts'
import { type QueueProject, queueProject } from './queue-database.ts'

const dataDir = mkdtempSync(join(tmpdir(), 'plinth-pgmq-'))
const superuserPassword = randomBytes(16).toString('hex')
const quiet = { info() {}, warn() {}, error() {} }
let engine: Engine
let platform: TestPlatform
let project: QueueProject

before(async () => {
  chmodSync(dataDir, 0o711)
  // Without fsync only a power failure loses data, not a killed process.
  engine = await startEngine({ dataDir, superuserPassword, settings: { fsync: 'off' }, log: quiet })
  const { socketDir: host, port, user } = engine
  platform = await startPlatform({
    address: { host, port, user, password: superuserPassword, tls: undefined },
  })
  project = await queueProject(platform)
})
after(async () => {
  await project?.close()
  await platform?.stop()
  await engine?.stop()
  for (const path of [...engineFiles(dataDir).remove, dataDir]) rmSync(path, { recursive: true, force: true })
})

const postmaster = () => Number.parseInt(readFileSync(join(engine.clusterDir, 'postmaster.pid'), 'utf8'), 10)

/** Reconnects as soon as the database is back. */
async function reconnect(): Promise<Client> {
  for (;;) {
    const client = new Client({ connectionString: project.direct })
    client.on('error', () => {})
    try {
      await client.connect()
      return client
    } catch {
      await sleep(50)
    }
  }
}

test('pgmq: messages survive a crash of the database, and unsettled ones become visible again', async () => {
  await project.rows(`select pgmq.create('kept'), pgmq.create_unlogged('fast')`)
  await project.rows(`select pgmq.send_batch('kept', array['1', '2', '3', '4']::jsonb[])`)
  await project.rows(`select pgmq.read('kept', 0, 1), pgmq.archive('kept', 2)`)
  await project.rows(`select pgmq.send_batch('fast', array['1', '2']::jsonb[])`)
  await project.rows(`select pgmq.archive('fast', 1)`)
  const consumer = await project.connect()
  await consumer.query('begin')
  await consumer.query(`select pgmq.read('kept', 3600, 5)`)
  await consumer.query(
    `select pgmq.pop('kept'), pgmq.archive('kept', 3), pgmq.delete('kept', 4), pgmq.send('kept', '5')`,
  )

  process.kill(postmaster(), 'SIGKILL')
  const client = await reconnect()
  const read = await client.query(`select msg_id, read_ct, message from pgmq.read('kept', 3600, 10)`)
  assert.deepEqual(read.rows, [
    { msg_id: '1', read_ct: 2, message: 1 },
    { msg_id: '3', read_ct: 1, message: 3 },
    { msg_id: '4', read_ct: 1, message: 4 },
  ])
  assert.deepEqual((await client.query('select msg_id from pgmq.a_kept')).rows, [{ msg_id: '2' }])
  const sent = await client.query(`select pgmq.send('kept', '6') as id`)
  assert.ok(Number(sent.rows[0].id) > 4)

  // An unlogged queue is empty after a crash. Its archive is kept, and new ids do not collide with archived ones.
  assert.deepEqual((await client.query('select * from pgmq.q_fast')).rows, [])
  assert.deepEqual((await client.query('select msg_id from pgmq.a_fast')).rows, [{ msg_id: '1' }])
  const again = await client.query(`select pgmq.send('fast', '3') as id`)
  assert.ok(Number(again.rows[0].id) > 2)
  await client.query(`select pgmq.archive('fast', $1::bigint)`, [again.rows[0].id])
  await client.end()
})
