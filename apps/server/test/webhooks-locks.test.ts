// Webhooks that are deleted or switched off while their deliveries are inserted, recorded or retried: no delivery stays
// behind, and no transaction waits for another that waits for it.
import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { orderedUuid } from '#src/kernel/ordered-uuid.ts'
import type { Session } from '#src/kernel/postgres/database.ts'
import { sql } from '#src/kernel/postgres/sql.ts'
import { requeue } from '#src/services/webhooks/deliveries-store.ts'
import { extendLeases, insertDeliveries, recordBatch } from '#src/services/webhooks/queue-store.ts'
import { eventually } from './eventually.ts'
import { startPlatform, type TestPlatform } from './harness.ts'
import { allowLoopback, webhookProject } from './webhook-project.ts'

let platform: TestPlatform
before(async () => {
  platform = await startPlatform({ settings: allowLoopback })
})
after(() => platform.stop())

const leaseSeconds = 3600

async function hook() {
  const project = await webhookProject(platform)
  const { id: wid } = await project.create('http://127.0.0.1:9/')
  const deliveryOf = (id: string, payload = '{}') => ({
    id,
    webhook_id: wid,
    event: 'db.public.todos.insert',
    payload,
  })
  return {
    ...project,
    wid,
    params: { id: project.id, wid },
    /** With a lease, so that no worker takes it. */
    async insert(session: Session = platform.app.control): Promise<string> {
      const id = orderedUuid()
      await insertDeliveries(session, [deliveryOf(id)], leaseSeconds)
      return id
    },
    waiting: () =>
      platform.app.control.rows<{ id: string; attempt_count: number; attempts: unknown[] }>(
        sql`select id, attempt_count, attempts from webhook_queue where webhook_id = ${wid}`,
      ),
  }
}

const attempt = () => ({
  id: crypto.randomUUID(),
  at: new Date().toISOString(),
  status_code: 500,
  latency_ms: 1,
  response_body: null,
  error: null,
})

/** Runs the work in a transaction while `other` waits for it, or has ended without waiting. */
async function whileWaiting(
  first: (session: Session) => Promise<unknown>,
  other: () => Promise<unknown>,
  then: (session: Session) => Promise<unknown> = async () => {},
): Promise<void> {
  const { control } = platform.app
  let ended: Promise<unknown> | undefined
  await control.transaction(async session => {
    await first(session)
    const { pid } = (await session.row<{ pid: number }>(sql`select pg_backend_pid() as pid`))!
    let hasEnded = false
    ended = other().finally(() => {
      hasEnded = true
    })
    ended.catch(() => {})
    const isBlocked = async () =>
      (await control.row(sql`select from pg_stat_activity where ${pid} = any(pg_blocking_pids(pid))`)) !==
      undefined
    await eventually(async () => hasEnded || (await isBlocked()), 'the other waits or has ended')
    await then(session)
  })
  await ended
}

test('webhooks: a delivery inserted while its webhook is switched off is dropped', async () => {
  const { hooks, params, insert, waiting } = await hook()
  await whileWaiting(insert, () => hooks.update({ params, body: { is_active: false } }))
  assert.deepEqual(await waiting(), [])
})

test('webhooks: a webhook is switched off after five days while its settings are changed', async () => {
  const { id: projectId, wid, hooks, params, waiting } = await hook()
  const { control } = platform.app
  await control.run(sql`update webhooks set failing_since = now() - interval '6 days' where id = ${wid}`)
  await whileWaiting(
    session => session.run(sql`select from projects where id = ${projectId} for no key update`),
    async () => {
      await hooks.trigger({ params: { id: projectId }, body: { event: 'db.public.todos.insert' } })
      await eventually(async () => !(await hooks.read({ params })).is_active, 'the webhook is switched off')
    },
    session => session.run(sql`update webhooks set description = 'changed' where id = ${wid}`),
  )
  assert.deepEqual(await waiting(), [])
})

test('webhooks: a dead letter retried while its webhook is deleted does not stay in the queue', async () => {
  const { wid, hooks, params, insert, waiting } = await hook()
  const { control } = platform.app
  const id = await insert()
  await recordBatch(control, wid, {
    delivered: [],
    failed: [],
    dead: [{ id, attempt: attempt() }],
    released: [],
  })
  await whileWaiting(
    session => requeue(session, wid, id),
    () => hooks.remove({ params }),
  )
  assert.deepEqual(await waiting(), [])
})

test('webhooks: the last webhook is deleted while changes are relayed to it', async () => {
  const { id: projectId, hooks, params, insert, waiting } = await hook()
  await whileWaiting(
    session =>
      session.run(sql`update webhook_cursors set position = position where project_id = ${projectId}`),
    () => hooks.remove({ params }),
    insert,
  )
  assert.deepEqual(await waiting(), [])
})

test('webhooks: a batch is recorded while its webhook is deleted', async () => {
  const { wid, insert, waiting } = await hook()
  const [released, failed, delivered] = [await insert(), await insert(), await insert()]
  await whileWaiting(
    session => session.run(sql`select from webhooks where id = ${wid} for update`),
    () =>
      recordBatch(platform.app.control, wid, {
        delivered: [{ id: delivered, attempt: attempt() }],
        failed: [{ id: failed, attempt: attempt(), retry_seconds: 3600 }],
        dead: [],
        released: [released],
      }),
    session => session.run(sql`delete from webhooks where id = ${wid}`),
  )
  assert.deepEqual(await waiting(), [])
})

test('webhooks: extending leases does not wait for deliveries that are being deleted', async () => {
  const { wid, insert } = await hook()
  const [locked, free] = [await insert(), await insert()]
  const { control } = platform.app
  await control.transaction(async session => {
    await session.run(sql`delete from webhook_queue where webhook_id = ${wid} and id = ${locked}`)
    assert.equal(await extendLeases(control, [{ webhookId: wid, ids: [locked, free] }], leaseSeconds), 1)
  })
})

test('webhooks: an attempt whose record is repeated counts once', async () => {
  const { wid, insert, waiting } = await hook()
  const id = await insert()
  const outcome = {
    delivered: [],
    failed: [{ id, attempt: attempt(), retry_seconds: 3600 }],
    dead: [],
    released: [],
  }
  for (let n = 0; n < 2; n++) await recordBatch(platform.app.control, wid, outcome)
  const [row] = await waiting()
  assert.equal(row!.attempt_count, 1)
  assert.equal(row!.attempts.length, 1)
})
