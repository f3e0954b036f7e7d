// kill -9 of the platform process and of its Postgres.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import { connectAsSuperuser, platformInfo, postmasterPid, postmastersOf } from './data-dir.ts'
import { eventually } from './eventually.ts'
import { call } from './harness.ts'
import { crash, createProject, manage, platformProcesses, whoami } from './platform-process.ts'

const { start, existingProject, dataDirWithProject, assertServes } = platformProcesses()

test('crash: after kill -9 of the platform the next start replaces its Postgres and keeps all data', async () => {
  const dataDir = await dataDirWithProject('node killed')
  const killed = await start({ dataDir })
  const project = await createProject(killed, 'survivor')
  await crash(killed)
  const [orphan] = postmastersOf(dataDir)
  assert.ok(orphan, 'Postgres is still running')
  const platform = await start({ dataDir })
  await eventually(() => platform.stdout.includes('killed process left running'), 'the takeover is logged')
  assert.ok(!postmastersOf(dataDir).includes(orphan))
  // A process that Postgres has just forked has the command line of the postmaster for a moment.
  await eventually(() => postmastersOf(dataDir).length === 1, 'one Postgres runs')
  await assertServes(platform)
  assert.equal((await whoami(platform, project)).status, 200)
  assert.equal(platformInfo(dataDir)!.pid, platform.child.pid)
})

test('crash: after kill -9 of the platform and Postgres the next start keeps all data', async () => {
  const dataDir = await dataDirWithProject('both killed')
  const killed = await start({ dataDir })
  const project = await createProject(killed, 'survivor')
  const postmaster = postmasterPid(dataDir)
  killed.child.kill('SIGKILL')
  process.kill(postmaster, 'SIGKILL')
  await killed.ended
  const platform = await start({ dataDir })
  await assertServes(platform)
  assert.equal((await whoami(platform, project)).status, 200)
})

test('crash: after kill -9 of Postgres requests get 503, and all succeed again', async () => {
  const dataDir = await dataDirWithProject('postgres killed')
  const platform = await start({ dataDir })
  const { token } = (await manage(platform, 'POST', '/platform/tokens', { name: 'pat', scope: 'read' })).body
  const [cached, uncached] = [await existingProject(), await createProject(platform, 'uncached')]
  const calls = {
    health: () => call(`${platform.url}/health`, 'GET', {}),
    list: () => manage(platform, 'GET', '/projects'),
    token: () => call(`${platform.url}/api/v1/projects`, 'GET', { token }),
    cached: () => whoami(platform, cached),
    uncached: () => whoami(platform, uncached),
  }
  assert.equal((await calls.cached()).status, 200)
  // A checkpoint keeps the WAL replay after the crash short.
  const control = await connectAsSuperuser(dataDir)
  await control.query('checkpoint')
  process.kill(postmasterPid(dataDir), 'SIGKILL')
  const failures = new Set<string>()
  const since = Date.now()
  const untilRecovered = async ([name, ask]: [string, () => ReturnType<typeof call>]) => {
    for (let successes = 0; successes < 5; await sleep(20)) {
      assert.ok(Date.now() - since < 120_000, `${name} succeeds again`)
      const { status, headers } = await ask()
      successes = status === 200 ? successes + (Date.now() - since > 500 ? 1 : 0) : 0
      if (status !== 200) failures.add(`${name} ${status}`)
      if (status === 503 && name !== 'health')
        assert.ok(headers.get('retry-after'), `${name} has Retry-After`)
    }
  }
  await Promise.all(Object.entries(calls).map(untilRecovered))
  assert.deepEqual(
    [...failures].filter(one => !one.endsWith(' 503')),
    [],
    'every failure is a 503',
  )
  assert.ok(failures.size > 0, 'at least one request failed')
  assert.equal((await whoami(platform, await createProject(platform, 'afterwards'))).status, 200)
})

test('crash: kill -9 of Postgres during creates does not end the platform, and the slugs of failed creates are free', async () => {
  const dataDir = await dataDirWithProject('interrupted creates')
  const platform = await start({ dataDir })
  const control = await connectAsSuperuser(dataDir)
  const creates = Array.from({ length: 3 }, (_, index) =>
    manage(platform, 'POST', '/projects', { name: 'cut', slug: `cut-${index}` }).catch(error => error),
  )
  const isCreating = async () =>
    (await control.query("select from projects where status = 'creating'")).rowCount! > 0
  await eventually(isCreating, 'a project is being created')
  process.kill(postmasterPid(dataDir), 'SIGKILL')
  const statuses = (await Promise.all(creates)).map(reply => reply.status ?? String(reply))
  assert.ok(!platform.hasEnded && !platform.stdout.includes('stopping'), platform.stdout)
  // A backend that loses its postmaster during a statement reports XX000, which becomes a 500.
  for (const status of statuses) assert.ok([201, 500, 503].includes(status), String(status))
  await eventually(
    async () => (await call(`${platform.url}/health`, 'GET', {})).status === 200,
    'the platform is healthy',
  )
  for (const [index, status] of statuses.entries()) {
    if (status === 201) continue
    const again = async () =>
      (await manage(platform, 'POST', '/projects', { name: 'again', slug: `cut-${index}` })).status === 201
    await eventually(again, `slug cut-${index} is free`)
  }
})
