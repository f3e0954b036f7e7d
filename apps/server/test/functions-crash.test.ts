// kill -9 of workers, and of the platform in the middle of calls and deployments of functions.
import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { randomUUID } from 'node:crypto'
import fs from 'node:fs'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { dirname, join } from 'node:path'
import { afterEach, test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import { locateFunctions } from '#src/services/functions/place.ts'
import { type FunctionsApi, functionsOf, saying } from '../../../conformance/functions.ts'
import { assertDataError, send } from '../../../conformance/wire.ts'
import { adminToken, connectAsSuperuser } from './data-dir.ts'
import { eventually } from './eventually.ts'
import { startFunctionsPlatform } from './functions-platform.ts'
import { crash, createProject, platformProcesses, type RunningPlatform, stop } from './platform-process.ts'

const { start, existingProject, dataDirWithProject } = platformProcesses()

/** Deno opens nothing in /dev for functions, and the files of a test run may be in /dev/shm. */
async function newDataDir(name: string): Promise<string> {
  const dataDir = await dataDirWithProject(name)
  if (!dataDir.startsWith('/dev/')) return dataDir
  const moved = join('/tmp', `plinth-crash-${randomUUID()}`)
  assert.equal(spawnSync('cp', ['-a', dataDir, moved]).status, 0)
  return moved
}

/** Rate limits are off, because the tests poll. */
const env = {
  PLATFORM_RATE_LIMIT_SERVICE_ROLE: '0',
  PLATFORM_SHUTDOWN_GRACE_MS: '200',
  RUNTIME_WORKER_BACKOFF_START_MS: '300',
  RUNTIME_WORKER_BACKOFF_CAP_MS: '300',
}

/** Directories of the functions of each platform. Kept, because a data directory may be removed before its processes. */
const places = new Map<string, string[]>()

function placesOf(dataDir: string): string[] {
  const known = places.get(dataDir)
  if (known) return known
  const { codeDir, runDir } = locateFunctions(dataDir)
  const found = [dirname(codeDir), runDir]
  places.set(dataDir, found)
  return found
}

/** Processes of the functions of this platform, by the directories in their command or in which they run. */
function processesOf(dataDir: string, mark = ''): number[] {
  const directories = placesOf(dataDir)
  return fs
    .readdirSync('/proc')
    .filter(name => /^\d+$/.test(name))
    .filter(pid => {
      try {
        const command = fs.readFileSync(`/proc/${pid}/cmdline`, 'utf8')
        const cwd = fs.readlinkSync(`/proc/${pid}/cwd`)
        return (
          command.includes(mark) && directories.some(each => command.includes(each) || cwd.startsWith(each))
        )
      } catch {
        return false // It has ended.
      }
    })
    .map(Number)
}

afterEach(() => {
  for (const dataDir of places.keys())
    for (const pid of processesOf(dataDir))
      try {
        process.kill(pid, 'SIGKILL')
      } catch {} // It has ended.
  places.clear()
})

const untilNoProcess = (dataDir: string) =>
  eventually(() => processesOf(dataDir).length === 0, 'no process of functions is left')

/** Kills the worker of a project. */
function killWorker(dataDir: string, projectId: string): void {
  const { codeDir } = locateFunctions(dataDir)
  const workers = processesOf(dataDir, join(codeDir, projectId))
  assert.equal(workers.length, 1, 'the project has one worker')
  process.kill(workers[0]!, 'SIGKILL')
}

function functionsIn(platform: RunningPlatform, project: { id: string }): FunctionsApi {
  const { url, dataDir } = platform
  const token = adminToken(dataDir)
  return functionsOf(
    {
      url,
      adminToken: token,
      call: (method, path, options) => send(url + path, method, options),
      manage: (method, path, body) => send(`${url}/api/v1${path}`, method, { token, body }),
      stop: async () => {},
    },
    project as FunctionsApi['project'],
  )
}

const answering = `Deno.serve(req => {
  if (req.method === 'GET') return new Response('up')
  console.log('called')
  return new Promise(() => {})
})`

/** Calls until the function answers. Until then it may only be refused because of the crash. */
async function untilBack(own: FunctionsApi, name: string): Promise<void> {
  const refused = new Set<string>()
  await eventually(async () => {
    const reply = await own.call(name, { method: 'GET' })
    if (reply.status !== 200) refused.add(`${reply.status} ${reply.body?.code}`)
    return reply.text === 'up'
  }, 'the function answers again')
  refused.delete('503 WORKER_BACKOFF')
  assert.deepEqual([...refused], [])
}

test('functions crash: kill -9 of a worker in the middle of a call is an error of the platform, and a later call works', async () => {
  const it = await startFunctionsPlatform(env)
  try {
    const { dataDir } = it.platform.config
    const [own, other] = [await it.createProject(), await it.createProject()]
    await own.deploy('held', answering)
    await other.deploy('calm', saying('calm'))
    assert.equal((await other.call('calm')).text, 'calm')
    const asked = own.call('held')
    await own.untilLogged('held', /called/)
    killWorker(dataDir, own.project.id)
    const reply = await asked
    assertDataError(reply, 'WORKER_ERROR')
    assert.equal(reply.headers.get('x-relay-error'), 'true')
    assert.equal((await other.call('calm')).text, 'calm')
    await untilBack(own, 'held')
    const { status } = await own.untilLogged('held', /^POST 500$/)
    assert.equal(status, 500)
  } finally {
    await it.stop()
  }
})

test('functions crash: an answer whose worker is killed is cut off, and does not look complete', async () => {
  const it = await startFunctionsPlatform(env)
  try {
    const own = await it.createProject()
    await own.deploy(
      'streaming',
      `Deno.serve(req => req.method === 'GET' ? new Response('up') : new Response(new ReadableStream({
        start(controller) { controller.enqueue(new TextEncoder().encode('first part')) }
      })))`,
    )
    const reply = await fetch(`${it.url}/v1/functions/${own.project.id}/streaming`, {
      method: 'POST',
      headers: { apikey: own.project.service_role_key },
    })
    const reader = reply.body!.pipeThrough(new TextDecoderStream()).getReader()
    assert.equal((await reader.read()).value, 'first part')
    killWorker(it.platform.config.dataDir, own.project.id)
    await assert.rejects(reader.read())
    await untilBack(own, 'streaming')
  } finally {
    await it.stop()
  }
})

test('functions crash: a worker that is killed while it starts is an error of the platform, and a later call works', async () => {
  const it = await startFunctionsPlatform(env)
  try {
    const { dataDir } = it.platform.config
    const own = await it.createProject()
    await own.deploy('starting', answering)
    const worker = join(locateFunctions(dataDir).codeDir, own.project.id)
    let isAnswered = false
    const asked = own.call('starting', { method: 'GET' }).finally(() => {
      isAnswered = true
    })
    const [pid] = await eventually(() => {
      const found = processesOf(dataDir, worker)
      return found.length > 0 || isAnswered ? found : undefined
    }, 'a worker starts')
    if (pid !== undefined) process.kill(pid, 'SIGKILL')
    const reply = await asked
    assert.ok([200, 500, 503].includes(reply.status), reply.text)
    if (reply.status !== 200) assert.equal(reply.headers.get('x-relay-error'), 'true')
    await untilBack(own, 'starting')
  } finally {
    await it.stop()
  }
})

test('functions crash: kill -9 of the platform in the middle of calls ends all workers, and the next start serves them', async () => {
  const dataDir = await newDataDir('calls')
  const killed = await start({ dataDir, env })
  const projects = [await existingProject(), await createProject(killed, 'other')]
  const [held, spinning] = projects.map(project => functionsIn(killed, project)) as [
    FunctionsApi,
    FunctionsApi,
  ]
  await held.deploy('held', answering)
  await spinning.deploy(
    'spinning',
    `Deno.serve(req => {
      if (req.method === 'GET') return new Response('up')
      console.log('called')
      for (;;) {}
    })`,
  )
  const calls = [held.call('held'), spinning.call('spinning')].map(call =>
    call.then(
      () => {},
      () => {},
    ),
  )
  await held.untilLogged('held', /called/)
  await spinning.untilLogged('spinning', /called/)
  await crash(killed)
  await Promise.all(calls)
  // Also the one whose code never lets it read that the platform has ended.
  await untilNoProcess(dataDir)
  const platform = await start({ dataDir, env })
  for (const [index, name] of ['held', 'spinning'].entries()) {
    const reply = await functionsIn(platform, projects[index]!).call(name, { method: 'GET' })
    assert.equal(reply.text, 'up')
  }
  const { runDir } = locateFunctions(dataDir)
  await eventually(
    () => fs.readdirSync(runDir).every(name => name.startsWith(`${platform.child.pid}-`)),
    'the directories of the killed workers are removed',
  )
})

test('functions crash: SIGTERM of the platform ends all workers, also those with calls', async () => {
  const dataDir = await newDataDir('terminated')
  const platform = await start({ dataDir, env })
  const projects = [await existingProject(), await createProject(platform, 'other')]
  const [held, quick] = projects.map(project => functionsIn(platform, project)) as [
    FunctionsApi,
    FunctionsApi,
  ]
  await held.deploy('held', answering)
  await quick.deploy('quick', saying('quick'))
  assert.equal((await quick.call('quick')).text, 'quick')
  const asked = held.call('held').then(
    () => {},
    () => {},
  )
  await held.untilLogged('held', /called/)
  assert.ok(processesOf(dataDir).length >= 2, 'two workers run')
  await stop(platform)
  await asked
  assert.deepEqual(processesOf(dataDir), [])
  assert.deepEqual(fs.readdirSync(locateFunctions(dataDir).runDir), [])
})

/** The function answers with the code that GET returns. Returns its version. */
async function assertConsistent(
  own: FunctionsApi,
  name: string,
  texts: Map<number, string>,
): Promise<number> {
  const called = await own.call(name)
  assert.equal(called.status, 200, called.text)
  const { status, body, text } = await own.manage('GET', `/${name}`)
  assert.equal(status, 200, text)
  assert.equal(body.code, saying(called.text))
  assert.equal(called.text, texts.get(body.version), `version ${body.version}`)
  return body.version
}

/** For how long the deployments of the functions run when the platform is killed, in each round. The longest begins first. */
const killedAfterMs = [
  [400, 100, 0],
  [800, 200, 20],
  [600, 50, 10],
] as const

test('functions crash: after kill -9 of the platform at any moment of a deployment, the old or the new version answers', async () => {
  const dataDir = await newDataDir('deployments')
  let platform = await start({ dataDir, env })
  const project = await existingProject()
  let own = functionsIn(platform, project)
  /** With what each version may say. A deployment that was not confirmed gives its version to the next one. */
  const changing = ['first', 'second', 'third'].map(name => ({
    name,
    version: 1,
    texts: new Map([[1, 'text 1']]),
    answered: undefined as number | undefined,
  }))
  for (const { name } of changing) await own.deploy(name, saying('text 1'))
  for (const delays of killedAfterMs) {
    const deployments: Promise<void>[] = []
    for (const [index, each] of changing.entries()) {
      const text = `killed after ${delays[index]} ms`
      each.texts.set(each.version + 1, text)
      each.answered = undefined
      deployments.push(
        own.manage('PUT', `/${each.name}`, { code: saying(text) }).then(
          reply => {
            each.answered = reply.status
          },
          () => {},
        ),
      )
      await sleep(delays[index]! - (delays[index + 1] ?? 0))
    }
    await crash(platform)
    await Promise.all(deployments)
    await untilNoProcess(dataDir)
    platform = await start({ dataDir, env })
    own = functionsIn(platform, project)
    for (const each of changing) {
      const { name, version, texts, answered } = each
      const found = await assertConsistent(own, name, texts)
      assert.ok(found === version + 1 || (found === version && answered === undefined), `version ${found}`)
      each.version = found
    }
  }
  for (const { name, version, texts } of changing) {
    const next = await own.deploy(name, saying('the last one'))
    assert.equal(next.version, version + 1)
    texts.set(version + 1, 'the last one')
    await assertConsistent(own, name, texts)
  }
})

test('functions crash: kill -9 before or after the bytes of a version are stored leaves the version before', async () => {
  const dataDir = await newDataDir('steps')
  let platform = await start({ dataDir, env })
  const project = await existingProject()
  let own = functionsIn(platform, project)
  await own.deploy('changing', saying('before'))
  for (const [step, lock] of [
    ['before the bytes are stored', 'lock table function_archives in exclusive mode'],
    ['before the version is recorded', `select from projects where id = '${project.id}' for update`],
  ] as const) {
    const blocker = await connectAsSuperuser(dataDir)
    await blocker.query('begin')
    await blocker.query(lock)
    const watcher = await connectAsSuperuser(dataDir)
    const deployment = own.manage('PUT', '/changing', { code: saying(step) }).then(
      () => {},
      () => {},
    )
    await eventually(
      async () => (await watcher.query('select from pg_locks where not granted')).rowCount! > 0,
      `the deployment waits ${step}`,
    )
    await crash(platform)
    await deployment
    await Promise.all([blocker.end(), watcher.end()])
    platform = await start({ dataDir, env })
    own = functionsIn(platform, project)
    assert.equal(await assertConsistent(own, 'changing', new Map([[1, 'before']])), 1, step)
  }
  const next = await own.deploy('changing', saying('after'))
  assert.equal(next.version, 2)
  assert.equal((await own.call('changing')).text, 'after')
})

test('functions crash: a deployment that is killed while it loads packages leaves no process and no files', async () => {
  const dataDir = await newDataDir('packages')
  let asked = 0
  const silent = createServer(() => void asked++)
  await new Promise<void>(resolve => silent.listen(0, '127.0.0.1', resolve))
  const registry = `http://127.0.0.1:${(silent.address() as AddressInfo).port}/`
  try {
    const killed = await start({ dataDir, env: { ...env, PLATFORM_NPM_REGISTRY: registry } })
    const project = await existingProject()
    const own = functionsIn(killed, project)
    await own.deploy('lasting', saying('before'))
    const code = `import 'npm:anything'\n${saying('after')}`
    const deployment = own.manage('PUT', '/lasting', { code }).then(
      () => {},
      () => {},
    )
    await eventually(() => asked > 0, 'the registry is asked')
    await crash(killed)
    await deployment
    const left = processesOf(dataDir)
    const platform = await start({ dataDir, env })
    const restarted = functionsIn(platform, project)
    assert.equal(await assertConsistent(restarted, 'lasting', new Map([[1, 'before']])), 1)
    assert.equal((await restarted.deploy('lasting', saying('after'))).version, 2)
    await eventually(
      () => !processesOf(dataDir).some(pid => left.includes(pid)),
      'the processes of the deployment have ended',
    )
    const { stagingDir } = locateFunctions(dataDir)
    await eventually(() => fs.readdirSync(stagingDir).length === 0, 'no files of the deployment are left')
  } finally {
    silent.closeAllConnections()
    silent.close()
  }
})
