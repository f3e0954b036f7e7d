// What deliveries take in the control database.
import assert from 'node:assert/strict'
import type { ServerResponse } from 'node:http'
import { test } from 'node:test'
import { sql } from '#src/kernel/postgres/sql.ts'
import { eventually } from './eventually.ts'
import { startPlatform } from './harness.ts'
import { quickRetries, startReceiver, webhookProject } from './webhook-project.ts'

const settings = { ...quickRetries, WEBHOOK_MAX_STORED_MB: '1' }
/** Rows of 200 kB that cannot be compressed. */
const rows = (from: number, to: number) => `
  insert into files (id, body)
  select n, (select string_agg(md5(n || '-' || i), '') from generate_series(1, 6250) i) from generate_series(${from}, ${to}) n`

async function stage(t: { after(work: () => unknown): void }, answer: (response: ServerResponse) => void) {
  const platform = await startPlatform({ settings })
  t.after(() => platform.stop())
  const receiver = await startReceiver(answer)
  t.after(() => receiver.close())
  const project = await webhookProject(platform)
  await project.sql('create table files (id int primary key, body text)')
  const { id: wid } = await project.create(receiver.url)
  await project.attach(wid, 'files')
  const count = async (table: 'webhook_queue' | 'webhook_deliveries') => {
    const { control } = platform.app
    const from = table === 'webhook_queue' ? sql`webhook_queue` : sql`webhook_deliveries`
    return (await control.row<{ count: number }>(sql`select count(*)::int as count from ${from}`))!.count
  }
  return { platform, receiver, project, wid, count }
}

test('webhooks: while too much waits for a project, its changes stay in its database, and all are delivered later', async t => {
  const held: ServerResponse[] = []
  let isHolding = true
  const { platform, receiver, project, count } = await stage(t, response => {
    if (isHolding) held.push(response)
    else response.writeHead(200).end()
  })
  await project.sql(rows(1, 10))
  await eventually(async () => (await count('webhook_queue')) === 10, 'the first rows wait')
  await project.sql(rows(11, 20))
  const ref = await platform.refOf(project.id)
  const changes = () =>
    platform.asSuperuser(ref, session =>
      session.row<{ count: number }>(sql`select count(*)::int as count from platform.webhook_changes`),
    )
  await eventually(
    () => platform.logged.some(line => line.includes('WEBHOOK_MAX_STORED_MB')),
    'the relay has refused',
  )
  assert.equal(await count('webhook_queue'), 10)
  assert.equal((await changes())!.count, 10)
  isHolding = false
  for (const response of held) response.writeHead(200).end()
  await receiver.until(20)
  assert.deepEqual(
    [...new Set(receiver.received.map(({ body }) => body.record.id))].sort((left, right) => left - right),
    Array.from({ length: 20 }, (_, index) => index + 1),
  )
})

test('webhooks: dead letters of a project beyond the limit are deleted, the oldest first', async t => {
  const { project, wid, count } = await stage(t, response => void response.writeHead(500).end())
  await project.sql(rows(1, 10))
  await eventually(async () => (await count('webhook_deliveries')) === 10, 'ten dead letters')
  await project.sql(rows(11, 11))
  await eventually(
    async () => (await count('webhook_deliveries')) === 5,
    'four are kept, and the last row is a dead letter',
  )
  const { deliveries } = await project.hooks.listDeliveries({ params: { id: project.id, wid }, query: {} })
  const kept = []
  for (const { id: did } of deliveries) {
    const { payload } = await project.hooks.readDelivery({
      params: { id: project.id, wid, delivery_id: did },
    })
    kept.push(JSON.parse(payload!).record.id)
  }
  assert.deepEqual(kept, [11, 10, 9, 8, 7])
})

test('webhooks: the space of many deliveries that have ended is given back', async t => {
  const platform = await startPlatform({ settings })
  t.after(() => platform.stop())
  const { control } = platform.app
  await control.transaction(async session => {
    await session.run(sql`alter table webhook_queue set (autovacuum_enabled = false)`)
    await session.run(sql`
      insert into webhook_queue (id, webhook_id, event, payload, created_at, due_at)
      select gen_random_uuid(), gen_random_uuid(), 'user.created', '{}', now(), now() from generate_series(1, 30000)`)
  })
  const size = async () =>
    (await control.row<{ bytes: number }>(sql`select pg_relation_size('webhook_queue')::int as bytes`))!.bytes
  assert.ok((await size()) > 1_000_000)
  await control.run(sql`delete from webhook_queue`)
  await eventually(async () => (await size()) === 0, 'the table is empty')
})
