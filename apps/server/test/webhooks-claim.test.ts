// Which deliveries a claim takes from the queue.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { orderedUuid } from '#src/kernel/ordered-uuid.ts'
import { sql } from '#src/kernel/postgres/sql.ts'
import { claimDue, insertDeliveries } from '#src/services/webhooks/queue-store.ts'
import { startPlatform } from './harness.ts'
import { allowLoopback, webhookProject } from './webhook-project.ts'

test('webhooks: a claim takes large payloads only up to its bytes, the longest due first', async t => {
  const platform = await startPlatform({ settings: allowLoopback })
  t.after(() => platform.stop())
  const { control } = platform.app
  const project = await webhookProject(platform)
  const { id: wid } = await project.create('http://127.0.0.1:9/')
  const ids = Array.from({ length: 5 }, () => orderedUuid())
  // In one transaction, so that no worker takes them before they are suspended.
  await control.transaction(async session => {
    for (const id of ids)
      await insertDeliveries(session, [
        { id, webhook_id: wid, event: 'db.public.todos.insert', payload: 'x'.repeat(1000) },
      ])
    await session.run(sql`update projects set status = 'suspended' where id = ${project.id}`)
  })
  const claim = async (count: number, bytes: number) =>
    (await claimDue(control, [{ webhook_id: wid, count, bytes }], 3600)).get(wid)?.map(({ id }) => id)
  assert.deepEqual(await claim(10, 1500), ids.slice(0, 2))
  assert.deepEqual(await claim(1, 1500), ids.slice(2, 3))
  assert.deepEqual(await claim(10, 1), ids.slice(3, 4))
  assert.deepEqual(await claim(10, 10_000), ids.slice(4))
  assert.equal(await claim(10, 10_000), undefined)
})
