// Several nodes, and nodes that are killed while they deliver.
import assert from 'node:assert/strict'
import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { join } from 'node:path'
import { after, before, test } from 'node:test'
import { sql } from '#src/kernel/postgres/sql.ts'
import { eventually } from './eventually.ts'
import { startPlatform, type TestPlatform } from './harness.ts'
import { quickRetries, startReceiver, webhookProject } from './webhook-project.ts'

let platform: TestPlatform
before(async () => {
  platform = await startPlatform({ settings: quickRetries })
})
after(() => platform.stop())

async function startNode(of: TestPlatform): Promise<ChildProcess> {
  const { control, adminToken, controlPlaneSecret, config } = of
  const node = spawn(
    process.execPath,
    [
      join(import.meta.dirname, 'webhook-killed-node.ts'),
      JSON.stringify({ control, adminToken, controlPlaneSecret, config }),
    ],
    { stdio: ['ignore', 'pipe', 'inherit'] },
  )
  await once(node.stdout!, 'data')
  return node
}
async function kill(node: ChildProcess): Promise<void> {
  node.kill('SIGKILL')
  await once(node, 'exit')
}

const waiting = async (projectId: string) =>
  (await platform.app.control.row<{ n: number }>(sql`
    select count(*)::int as n from webhook_queue q join webhooks w on w.id = q.webhook_id
     where w.project_id = ${projectId}`))!.n

/** As if their time had passed. Deliveries that a node records meanwhile are skipped: waiting for them could deadlock. */
const endLeases = (projectId: string) =>
  platform.app.control.run(sql`
    update webhook_queue set leased_until = now() where ctid = any(array(
      select q.ctid from webhook_queue q join webhooks w on w.id = q.webhook_id
       where w.project_id = ${projectId} for update of q skip locked))`)

test('webhooks: of 10,000 rows in one statement none is lost when dispatchers are killed', async t => {
  const receiver = await startReceiver()
  t.after(receiver.close)
  const project = await webhookProject(platform)
  const other = await webhookProject(platform)
  const { id: wid } = await project.create(receiver.url)
  await project.sql('create table todos (id int primary key)')
  await project.attach(wid, 'todos')
  const nodes = [await startNode(platform)]
  await project.rows('insert into public.todos select n from generate_series(1, 10000) n')
  for (const count of [500, 2500]) {
    await receiver.until(count)
    await kill(nodes.pop()!)
    await endLeases(project.id)
    nodes.push(await startNode(platform))
  }
  const delivered = () => new Set(receiver.received.map(({ body }) => body.record.id)).size
  for (let count = 2000; count <= 10_000; count += 2000)
    await eventually(() => delivered() >= count, `${count} rows`)
  for (const node of nodes) await kill(node)
  await endLeases(project.id)
  await eventually(async () => (await waiting(project.id)) === 0, 'an empty queue')
  const ids = receiver.received.map(({ headers }) => headers['x-webhook-id'])
  assert.equal(new Set(ids).size, ids.length)
  assert.ok(receiver.received.every(({ body }) => body.project_id === project.id))
  assert.equal((await other.hooks.list({ params: { id: other.id }, query: {} })).total, 0)
  const [left] = await project.rows('select count(*)::int as n from platform.webhook_changes')
  assert.equal(left.n, 0)
})

test('webhooks: two nodes deliver each change once', async t => {
  const receiver = await startReceiver()
  t.after(receiver.close)
  const second = await startPlatform({ beside: platform })
  t.after(() => second.stop())
  const project = await webhookProject(platform)
  const { id: wid } = await project.create(receiver.url)
  await project.sql('create table todos (id int primary key)')
  await project.attach(wid, 'todos')
  const insert = (node: TestPlatform, id: number) =>
    node.call('POST', `/v1/rest/${project.id}/todos`, { token: project.service_role_key, body: { id } })
  await Promise.all(Array.from({ length: 200 }, (_, n) => insert(n % 2 ? platform : second, n)))
  await receiver.until(200)
  await eventually(async () => (await waiting(project.id)) === 0, 'an empty queue')
  assert.deepEqual(
    receiver.received.map(({ body }) => body.record.id).sort((left, right) => left - right),
    Array.from({ length: 200 }, (_, n) => n),
  )
})

test('webhooks: a node finds the webhooks that another one has created', async t => {
  const receiver = await startReceiver()
  t.after(receiver.close)
  const second = await startPlatform({ beside: platform })
  const project = await webhookProject(second)
  await project.create(receiver.url, ['user.created'])
  await second.stop()
  await platform.call('POST', `/v1/${project.id}/auth/v1/signup`, {
    apikey: project.anon_key,
    body: { email: 'ada@example.test', password: 'correct horse' },
  })
  await receiver.until(1)
})
