// Usage is exact: over nodes, over a clean stop, when the answer to a commit is lost, and when a project is deleted.
import assert from 'node:assert/strict'
import { once } from 'node:events'
import { type AddressInfo, connect, createServer, type Socket } from 'node:net'
import { after, before, test } from 'node:test'
import type { CreatedProject } from '@plinth/contract/projects.ts'
import type { Answered } from '#src/kernel/http/observation.ts'
import type { ServerAddress } from '#src/kernel/postgres/server-address.ts'
import { sql } from '#src/kernel/postgres/sql.ts'
import { usageService } from '#src/services/usage/service.ts'
import { eventually } from './eventually.ts'
import { call, startPlatform, type TestPlatform, testServer } from './harness.ts'
import { total, usageOf } from './usage-project.ts'

let platform: TestPlatform
before(async () => {
  platform = await startPlatform()
})
after(() => platform.stop())

const requestTo = ({ url }: Pick<TestPlatform, 'url'>, { id, service_role_key }: CreatedProject) =>
  call(`${url}/v1/whoami/${id}`, 'GET', { apikey: service_role_key })

async function send(node: TestPlatform, project: CreatedProject, count: number): Promise<void> {
  const replies = await Promise.all(Array.from({ length: count }, () => requestTo(node, project)))
  for (const { status } of replies) assert.equal(status, 200)
}

const requestsBecome = (id: string, count: number, node = platform) =>
  eventually(async () => {
    const requests = total(await usageOf(node, id), 'requests')
    assert.ok(requests <= count, `${requests} requests are counted, but only ${count} were sent`)
    return requests === count
  }, `${count} requests are counted`)

test('usage: all nodes count into the same buckets', async () => {
  const second = await startPlatform({ beside: platform })
  try {
    const projects = [await platform.createProject(), await platform.createProject()]
    for (const [index, project] of projects.entries())
      await Promise.all([send(platform, project, 20 + index), send(second, project, 30)])
    for (const [index, { id }] of projects.entries()) {
      await requestsBecome(id, 50 + index)
      await requestsBecome(id, 50 + index, second)
    }
  } finally {
    await second.stop()
  }
})

test('usage: a clean stop counts every answer, also those it waits for', async () => {
  const project = await platform.createProject()
  const second = await startPlatform({ beside: platform })
  await send(second, project, 10)
  const last = Array.from({ length: 40 }, () =>
    requestTo(second, project).then(
      ({ status }) => status === 200,
      () => false,
    ),
  )
  await Promise.race(last)
  const stopped = second.stop()
  const answered = (await Promise.all(last)).filter(Boolean).length
  await stopped
  assert.equal(total(await usageOf(platform, project.id), 'requests'), 10 + answered)
})

/** Passes everything on. Once armed, it breaks the next connection that commits usage, after the server has answered. */
async function openLosingRelay({ host, port, ...login }: ServerAddress) {
  const sockets: Socket[] = []
  const state = { isArmed: false, lost: 0 }
  const relay = createServer(client => {
    const server = host.startsWith('/') ? connect(`${host}/.s.PGSQL.${port}`) : connect(port, host)
    let hasCounts = false
    let isLosing = false
    client.on('data', bytes => {
      if (bytes.includes('insert into usage_hours')) hasCounts = state.isArmed
      if (hasCounts && bytes.includes('commit')) {
        isLosing = true
        state.isArmed = false
      }
      server.write(bytes)
    })
    server.on('data', bytes => {
      if (!isLosing) return void client.write(bytes)
      state.lost++
      client.destroy()
      server.destroy()
    })
    for (const [one, other] of [
      [client, server],
      [server, client],
    ] as const) {
      sockets.push(one)
      one.on('error', () => {})
      one.on('close', () => other.destroy())
    }
  })
  await once(relay.listen(0, '127.0.0.1'), 'listening')
  return {
    address: { ...login, host: '127.0.0.1', port: (relay.address() as AddressInfo).port },
    state,
    close() {
      for (const socket of sockets) socket.destroy()
      return new Promise(resolve => relay.close(resolve))
    },
  }
}

test('usage: counts whose commit was not acknowledged are sent again, and count once', async () => {
  const relay = await openLosingRelay(testServer())
  const node = await startPlatform({ beside: platform, address: relay.address })
  try {
    const project = await platform.createProject()
    for (let round = 1; round <= 3; round++) {
      relay.state.isArmed = true
      await send(node, project, 7)
      await eventually(() => relay.state.lost === round, 'the answer to a commit was lost')
      await requestsBecome(project.id, 7 * round)
    }
    await send(node, project, 1)
    await requestsBecome(project.id, 22)
  } finally {
    await node.stop()
    await relay.close()
  }
})

test('usage: a deleted project has no usage left, and counts that come late harm no other project', async () => {
  const [deleted, kept] = [await platform.createProject(), await platform.createProject()]
  const late = usageService({ ...platformParts(), flushMs: 2 ** 30 })
  const count = (project: string) =>
    late.countAnswer({ project, route: '/v1/whoami/{project}', bytesIn: 1, bytesOut: 1 })
  await send(platform, deleted, 3)
  await requestsBecome(deleted.id, 3)
  for (const project of [deleted.id, kept.id, crypto.randomUUID()]) count(project)
  await platform.projects.remove({ params: { id: deleted.id } })
  await late.close()
  const rows = await platform.app.control.rows<{ project_id: string; requests: string }>(sql`
    select project_id, requests from usage_hours where project_id in (${deleted.id}, ${kept.id})`)
  assert.deepEqual(rows, [{ project_id: kept.id, requests: '1' }])
})

test('usage: counts that are being written while the project is deleted are removed', async () => {
  const { id } = await platform.createProject()
  const { promise: mayCommit, resolve: commit } = Promise.withResolvers<void>()
  const { promise: hasWritten, resolve: written } = Promise.withResolvers<void>()
  const writing = platform.app.control.transaction(async session => {
    await session.run(sql`select pg_advisory_xact_lock_shared(hashtextextended('usage', 0))`)
    await session.run(
      sql`insert into usage_hours (project_id, bucket_start, requests) values (${id}, '2026-01-01', 1)`,
    )
    written()
    await mayCommit
  })
  await hasWritten
  const deleting = platform.projects.remove({ params: { id } })
  await eventually(
    () =>
      platform.asSuperuser(platform.control, session =>
        session.row(sql`
          select from pg_locks where locktype = 'advisory' and mode = 'ExclusiveLock' and not granted
             and database = (select oid from pg_database where datname = ${platform.control})`),
      ),
    'the deletion waits for the writer',
  )
  commit()
  await Promise.all([writing, deleting])
  assert.equal(
    await platform.app.control.row(sql`select from usage_hours where project_id = ${id}`),
    undefined,
  )
})

test('usage: files that are removed without a request are measured', async () => {
  const project = await platform.createProject()
  const put = await call(`${platform.url}/v1/storage/${project.id}/object/files/a.txt`, 'POST', {
    apikey: project.service_role_key,
    body: { text: 'stored' },
  })
  assert.equal(put.status, 200)
  await requestsBecome(project.id, 1)
  const stored = async () => (await usageOf(platform, project.id))[0]!.storage_bytes
  assert.ok((await stored()) > 0)
  await platform.app.control.run(sql`update storage_areas set bytes = 0 where project_id = ${project.id}`)
  const service = usageService({ ...platformParts(), flushMs: 2 ** 30 })
  await service.sampleStorage()
  await service.close()
  assert.equal(await stored(), 0)
})

test('usage: a write ends while requests are counted, and the next one has them', async () => {
  const { id: project } = await platform.createProject()
  const service = usageService({ ...platformParts(), flushMs: 2 ** 30 })
  let counted = 0
  const count = () => {
    service.countAnswer({ project, route: '/v1/whoami/{project}', bytesIn: 1, bytesOut: 1 } as Answered)
    counted++
  }
  count()
  const counting = setInterval(count, 1)
  await service.flush()
  clearInterval(counting)
  await service.close()
  await requestsBecome(project, counted)
})

test('usage: hours become days after 90 days, once, and show the same before and after', async () => {
  const { id } = await platform.createProject()
  const dayMs = 24 * 3_600_000
  const today = Math.floor(Date.now() / dayMs) * dayMs
  const hours = [
    { start: today - 95 * dayMs, requests: 1, storage: 10 },
    { start: today - 95 * dayMs + 3_600_000, requests: 2, storage: 30 },
    { start: today - 94 * dayMs + 23 * 3_600_000, requests: 4, storage: 0 },
    { start: today - 80 * dayMs + 5 * 3_600_000, requests: 8, storage: 0 },
  ]
  for (const { start, requests, storage } of hours)
    await platform.app.control.run(sql`
      insert into usage_hours (project_id, bucket_start, requests, bytes_in, bytes_out, function_invocations, storage_bytes)
      values (${id}, ${new Date(start)}, ${requests}, ${requests * 10}, ${requests * 100}, ${requests}, ${storage})`)
  const shown = await usageOf(platform, id, '?limit=5000')
  const day = (ago: number) => new Date(today - ago * dayMs).toISOString()
  assert.deepEqual(
    shown.map(({ bucket_start, requests, storage_bytes }) => [bucket_start, requests, storage_bytes]),
    [
      [new Date(hours[3]!.start).toISOString(), 8, 0],
      [day(94), 4, 0],
      [day(95), 3, 30],
    ],
  )
  assert.deepEqual([total(shown, 'bytes_in'), total(shown, 'bytes_out')], [150, 1500])
  const nodes = [platformParts(), platformParts()].map(parts => usageService({ ...parts, flushMs: 2 ** 30 }))
  for (let round = 0; round < 2; round++) await Promise.all(nodes.map(node => node.rollUp()))
  await eventually(async () => {
    const { count } = (await platform.app.control.row<{ count: string }>(
      sql`select count(*) from usage_hours where project_id = ${id}`,
    ))!
    return count === '1'
  }, 'the hours are rolled up')
  assert.deepEqual(await usageOf(platform, id, '?limit=5000'), shown)
  await Promise.all(nodes.map(node => node.close()))
})

const platformParts = () => ({
  control: platform.app.control,
  owner: { tenant: async () => assert.fail('not used') },
  log: { warn() {}, error() {} } as never,
})
