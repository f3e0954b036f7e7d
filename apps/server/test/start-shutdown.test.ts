// SIGTERM and SIGINT while requests, statements or the start are in progress.
import assert from 'node:assert/strict'
import { once } from 'node:events'
import fs from 'node:fs'
import http from 'node:http'
import { connect } from 'node:net'
import { join } from 'node:path'
import { test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import { engineFiles } from '#src/kernel/postgres/engine/place.ts'
import { adminToken, assertStopped, connectAsSuperuser, postmasterPid, postmastersOf } from './data-dir.ts'
import { eventually } from './eventually.ts'
import {
  createProject,
  exitOf,
  manage,
  platformProcesses,
  type RunningPlatform,
  whoami,
} from './platform-process.ts'

const { launch, start, existingProject, dataDirWithProject, assertServes } = platformProcesses()

/** Sends the head and half of the body of a request. `finish` sends the rest and returns the answer. */
async function halfSentCreateRequest({ url, dataDir }: RunningPlatform, name: string) {
  const { hostname, port } = new URL(url)
  const body = JSON.stringify({ name })
  const socket = connect(Number(port), hostname).setEncoding('utf8')
  let answer = ''
  socket.on('data', text => (answer += text))
  socket.on('error', () => {})
  await once(socket, 'connect')
  const head = [
    'POST /api/v1/projects HTTP/1.1',
    `Host: ${hostname}`,
    `Authorization: Bearer ${adminToken(dataDir)}`,
    'Content-Type: application/json',
    `Content-Length: ${body.length}`,
  ]
  socket.write(`${head.join('\r\n')}\r\n\r\n${body.slice(0, 5)}`)
  await sleep(50)
  return {
    async finish(): Promise<string> {
      socket.write(body.slice(5))
      await eventually(() => answer.includes('\r\n\r\n') || socket.closed, 'the request is answered')
      return answer
    },
  }
}

test('shutdown: SIGTERM lets a request finish whose body is still arriving', async () => {
  const dataDir = await dataDirWithProject('drained')
  const platform = await start({ dataDir, env: { PLATFORM_SHUTDOWN_GRACE_MS: '600000' } })
  const slow = await halfSentCreateRequest(platform, 'slow')
  process.kill(platform.child.pid!, 'SIGTERM')
  await eventually(
    () =>
      fetch(`${platform.url}/health`).then(
        () => false,
        () => true,
      ),
    'new connections are refused',
  )
  assert.ok(!platform.hasEnded)
  assert.match(await slow.finish(), /^HTTP\/1\.1 201 /)
  assert.equal(await exitOf(platform), '0', 'an idle keep-alive connection does not use up the grace period')
  assertStopped(dataDir)
})

test('shutdown: SIGINT lets running creates finish, and the projects exist after a restart', async () => {
  const dataDir = await dataDirWithProject('interrupted')
  const platform = await start({ dataDir })
  const creates = Array.from({ length: 6 }, (_, index) => createProject(platform, `create ${index}`))
  await Promise.race(creates)
  process.kill(platform.child.pid!, 'SIGINT')
  const created = await Promise.all(creates)
  assert.equal(await exitOf(platform), '0')
  assertStopped(dataDir)
  const again = await start({ dataDir })
  for (const project of created) assert.equal((await whoami(again, project)).status, 200)
})

test('shutdown: a client that never finishes its request delays it only for the grace period', async () => {
  const dataDir = await dataDirWithProject('grace')
  const platform = await start({ dataDir, env: { PLATFORM_SHUTDOWN_GRACE_MS: '300' } })
  await halfSentCreateRequest(platform, 'never')
  const idle = new http.Agent({ keepAlive: true })
  await once(http.get(`${platform.url}/health`, { agent: idle }), 'response')
  const since = Date.now()
  process.kill(platform.child.pid!, 'SIGTERM')
  assert.equal(await exitOf(platform), '0')
  assert.ok(Date.now() - since >= 300, 'the platform waits for the grace period')
  idle.destroy()
  assertStopped(dataDir)
})

test('shutdown: a statement that never ends delays it only for the grace period', async () => {
  const dataDir = await dataDirWithProject('stuck')
  const platform = await start({ dataDir, env: { PLATFORM_SHUTDOWN_GRACE_MS: '300' } })
  const blocker = await connectAsSuperuser(dataDir)
  await blocker.query('begin; lock table projects in access exclusive mode')
  const stuck = manage(platform, 'GET', '/projects').catch(() => 'cut off')
  // Other readers of this table, such as the watchdog, also block by then.
  await sleep(1200)
  process.kill(platform.child.pid!, 'SIGTERM')
  try {
    assert.equal(await exitOf(platform), '0')
    await stuck
    assertStopped(dataDir)
  } finally {
    await blocker.end()
  }
})

test('shutdown: background work that waits for a lock does not prevent it', async () => {
  const dataDir = await dataDirWithProject('waiting')
  const platform = await start({ dataDir, env: { PLATFORM_SHUTDOWN_GRACE_MS: '300' } })
  const blocker = await connectAsSuperuser(dataDir)
  await blocker.query('begin; lock table outbox_marks in access exclusive mode')
  // The relay of the outbox runs when a project has changed.
  const { id } = await existingProject()
  assert.equal((await manage(platform, 'PATCH', `/projects/${id}`, { description: 'changed' })).status, 200)
  // Not pg_stat_activity, which shows the same rows until the end of a transaction.
  const waiting = `select from pg_locks where not granted and relation = 'outbox_marks'::regclass`
  await eventually(async () => (await blocker.query(waiting)).rowCount, 'it waits')
  process.kill(platform.child.pid!, 'SIGTERM')
  try {
    assert.equal(await exitOf(platform), '0')
    assertStopped(dataDir)
  } finally {
    await blocker.end()
  }
})

test('shutdown: SIGTERM during the start leaves no process running', async () => {
  const dataDir = await dataDirWithProject('starting')
  const run = launch({ dataDir })
  const pidFile = join(engineFiles(dataDir).clusterDir, 'postmaster.pid')
  while (!fs.existsSync(pidFile) && !run.hasEnded) await sleep(1)
  assert.ok(!run.stderr.includes('running at'), 'the platform has not started yet')
  run.child.kill('SIGTERM')
  assert.equal(await exitOf(run), '0', run.stderr)
  assertStopped(dataDir)
})

test('shutdown: SIGTERM while Postgres is down ends with exit code 0', async () => {
  const dataDir = await dataDirWithProject('down')
  const platform = await start({ dataDir })
  process.kill(postmasterPid(dataDir), 'SIGKILL')
  await sleep(50)
  process.kill(platform.child.pid!, 'SIGTERM')
  assert.equal(await exitOf(platform), '0', platform.stderr)
  assert.deepEqual(postmastersOf(dataDir), [])
  await assertServes(await start({ dataDir }))
})
