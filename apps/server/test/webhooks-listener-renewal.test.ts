// A listener whose reader is busy with earlier deliveries.
import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { sql } from '#src/kernel/postgres/sql.ts'
import { startPlatform, type TestPlatform } from './harness.ts'
import { webhookProject } from './webhook-project.ts'

let platform: TestPlatform
before(async () => {
  platform = await startPlatform()
})
after(() => platform.stop())

test('webhooks: a read with limit 0 keeps a listener open, forgets what was read and returns nothing', async () => {
  const { hooks, id } = await webhookProject(platform)
  const { id: listener_id } = await hooks.openListener({ params: { id }, body: {} })
  const read = async (query: { limit?: number; after?: string }) =>
    (await hooks.readListener({ params: { id, listener_id }, query: { wait_seconds: 0, ...query } }))
      .deliveries
  for (let i = 0; i < 3; i++) await hooks.trigger({ params: { id }, body: { event: 'user.created' } })
  const [first, ...others] = await read({ limit: 2 })
  assert.equal(others.length, 1)
  const state = async () =>
    (await platform.app.control.row<{ is_open: boolean; queued: number }>(sql`
      select expires_at > now() as is_open,
             (select count(*)::int from webhook_queue where webhook_id = webhooks.id) as queued
        from webhooks where id = ${listener_id}`))!
  await platform.app.control.run(
    sql`update webhooks set expires_at = now() - interval '1 second' where id = ${listener_id}`,
  )
  assert.deepEqual(await read({ limit: 0, after: first!.id }), [])
  assert.deepEqual(await state(), { is_open: true, queued: 2 })
  const rest = await read({ after: others[0]!.id })
  assert.equal(rest.length, 1)
  assert.ok(rest[0]!.id > others[0]!.id)
})
