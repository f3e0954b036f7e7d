// The platform as an operator meets it: main.ts as a process, started, stopped, killed and started again.
import assert from 'node:assert/strict'
import { type ChildProcess, spawn, spawnSync } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { once } from 'node:events'
import fs from 'node:fs'
import http from 'node:http'
import { connect, createServer } from 'node:net'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { after, afterEach, before, test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import type { CreatedProject } from '@plinth/contract/projects.ts'
import pg from 'pg'
import { canReach } from '#src/kernel/postgres/engine/os-user.ts'
import { engineFiles } from '#src/kernel/postgres/engine/place.ts'
import { version } from '#src/kernel/version.ts'
import { settings } from '#src/settings.ts'
import { call, testServer } from './harness.ts'
import { statOf, underNeglectfulParent, untilZombie } from './zombie.ts'

const isRoot = process.getuid?.() === 0
const repository = fileURLToPath(new URL('../../..', import.meta.url))
const root = fs.realpathSync(fs.mkdtempSync(join(tmpdir(), 'plinth-start-')))
const template = join(root, 'template')
const goodSecret = () => randomBytes(24).toString('hex')

interface Launch {
  dataDir: string
  env?: Record<string, string>
  args?: string[]
  /** The working directory; by default one without a .env file. */
  cwd?: string
  /** Behind a pseudo-terminal. */
  terminal?: boolean
  user?: { uid: number; gid: number }
  repository?: string
}

interface Run {
  child: ChildProcess
  dataDir: string
  stdout: string
  stderr: string
  /** How it ended: `0`, `1`, `SIGKILL`. */
  ended: Promise<string>
  hasEnded: boolean
}

interface Running extends Run {
  url: string
}

const runs: Run[] = []
/** The project made in the template, and so in every used data directory. */
let kept: CreatedProject

before(async () => {
  fs.chmodSync(root, 0o755)
  fs.mkdirSync(join(root, 'cwd'))
  const platform = await start({ dataDir: template })
  kept = await createProject(platform, 'kept')
  await stop(platform)
  // The machine will not lose power for the sake of a test; processes killed -9 lose nothing without it.
  fs.appendFileSync(join(engineFiles(template).clusterDir, 'postgresql.conf'), 'fsync = off\n')
})

afterEach(async () => {
  const mine = runs.splice(0)
  for (const run of mine) {
    if (!run.hasEnded) killHard(notice(run.dataDir)?.pid ?? run.child.pid!, run.child)
    await run.ended
  }
  for (const dataDir of new Set(mine.map(run => run.dataDir))) {
    if (dataDir === template) continue
    for (const pid of postgresOf(dataDir)) killHard(pid)
    await eventually(() => postgresOf(dataDir).length === 0, 'no Postgres')
    for (const path of engineFiles(dataDir).remove) fs.rmSync(path, { recursive: true, force: true })
  }
})

after(() => fs.rmSync(root, { recursive: true, force: true }))

function launch({
  dataDir,
  env = {},
  args = [],
  cwd = join(root, 'cwd'),
  terminal,
  user,
  ...rest
}: Launch): Run {
  const command = [process.execPath, join(rest.repository ?? repository, 'apps/server/src/main.ts'), ...args]
  const [program = '', ...given] = terminal ? behindTerminal(command) : command
  const child = spawn(program, given, {
    cwd,
    // Nothing of the test run's own environment, in which settings of the platform may be.
    env: {
      PATH: process.env['PATH'],
      TMPDIR: tmpdir(),
      PLATFORM_PORT: '0',
      PLATFORM_DISK_RESERVE_MB: '0',
      PLATFORM_DATA_DIR: dataDir,
      ...env,
    },
    stdio: 'pipe',
    ...user,
  })
  const run: Run = { child, dataDir, stdout: '', stderr: '', hasEnded: false, ended: Promise.resolve('') }
  child.stdout!.setEncoding('utf8').on('data', text => (run.stdout += text))
  child.stderr!.setEncoding('utf8').on('data', text => (run.stderr += text))
  child.stdin!.on('error', () => {})
  run.ended = once(child, 'close').then(([code, signal]) => {
    run.hasEnded = true
    return String(signal ?? code)
  })
  runs.push(run)
  return run
}

function behindTerminal(command: string[]): string[] {
  if (process.platform === 'darwin') return ['script', '-q', '/dev/null', ...command]
  // Without exec a shell of its own would stand between, and end with 130 on Ctrl-C.
  return ['script', '-qec', `exec ${command.map(word => `'${word}'`).join(' ')}`, '/dev/null']
}

async function start(options: Launch): Promise<Running> {
  const run = launch(options)
  const url = () => /Plinth is running at (\S+)/.exec(run.stderr + run.stdout)?.[1]
  await eventually(() => url() !== undefined || run.hasEnded, 'a start', 120_000)
  assert.ok(!run.hasEnded, `it should have started: ${run.stderr}${run.stdout}`)
  return Object.assign(run, { url: url()! })
}

/** Resolves with the one line on standard error of a command that does not do what it was asked. */
async function refusal(options: Launch, withinMs = 90_000): Promise<string> {
  const run = launch(options)
  const how = await endOf(run, withinMs)
  assert.equal(how, '1', run.stderr)
  assert.match(run.stderr, /^[^\n]+\n$/, 'one line, and no stack')
  return run.stderr.trim()
}

async function endOf(run: Run, withinMs = 90_000): Promise<string> {
  await eventually(() => run.hasEnded, 'an end', withinMs)
  return run.ended
}

async function stop(run: Run, signal: NodeJS.Signals = 'SIGTERM'): Promise<void> {
  process.kill(notice(run.dataDir)!.pid, signal)
  assert.equal(await endOf(run), '0', run.stderr)
}

/** Ends the process itself with -9, and nothing else. */
async function crash(run: Run): Promise<void> {
  run.child.kill('SIGKILL')
  assert.equal(await run.ended, 'SIGKILL')
}

function killHard(pid: number, child?: ChildProcess): void {
  try {
    process.kill(pid, 'SIGKILL')
  } catch {
    child?.kill('SIGKILL')
  }
}

async function eventually(holds: () => unknown, what: string, withinMs = 90_000): Promise<void> {
  for (const end = Date.now() + withinMs; !(await holds()); await sleep(15))
    assert.ok(Date.now() < end, `${what} within ${withinMs} ms`)
}

/** A data directory with a cluster and a project in it: a copy takes less time than a first start. */
function used(name: string): string {
  const dataDir = join(root, name)
  assert.equal(spawnSync('cp', ['-a', template, dataDir]).status, 0)
  return dataDir
}
const unused = (name: string) => join(root, name)

const readJson = (file: string) => JSON.parse(fs.readFileSync(file, 'utf8'))
const secretsOf = (dataDir: string): Record<string, string> => readJson(join(dataDir, 'secrets.json'))
const secretNames = ['CONTROL_PLANE_SECRET', 'PLATFORM_ADMIN_TOKEN', 'POSTGRES_PASSWORD']
const adminToken = (dataDir: string) => secretsOf(dataDir)['PLATFORM_ADMIN_TOKEN']!
const modeOf = (path: string) => fs.statSync(path).mode & 0o777

function notice(dataDir: string): { pid: number; url: string; version: string } | undefined {
  const file = join(dataDir, 'platform.json')
  return fs.existsSync(file) ? readJson(file) : undefined
}

/** The postmasters that run on this data directory. */
function postgresOf(dataDir: string): number[] {
  const { clusterDir } = engineFiles(dataDir)
  const { stdout } = spawnSync('ps', ['-A', '-ww', '-o', 'pid=,args='], { encoding: 'utf8' })
  return stdout
    .split('\n')
    .filter(line => line.includes(`-D ${clusterDir} `))
    .map(line => Number.parseInt(line, 10))
}

const postmasterPid = (dataDir: string) =>
  Number.parseInt(fs.readFileSync(join(engineFiles(dataDir).clusterDir, 'postmaster.pid'), 'utf8'), 10)

function assertNothingLeft(dataDir: string): void {
  assert.deepEqual(postgresOf(dataDir), [], 'no Postgres')
  assert.ok(!fs.existsSync(join(engineFiles(dataDir).clusterDir, 'postmaster.pid')), 'it ended cleanly')
  for (const name of ['platform.json', 'platform.lock'])
    assert.ok(!fs.existsSync(join(dataDir, name)), `no ${name}`)
}

const manage = ({ url, dataDir }: Running, method: string, path: string, body?: unknown) =>
  call(`${url}/api/v1${path}`, method, { token: adminToken(dataDir), body })

async function createProject(platform: Running, name: string): Promise<CreatedProject> {
  const reply = await manage(platform, 'POST', '/projects', { name })
  assert.equal(reply.status, 201, JSON.stringify(reply.body))
  return reply.body
}

const whoami = ({ url }: Running, project: CreatedProject) =>
  call(`${url}/v1/whoami/${project.id}`, 'GET', { apikey: project.anon_key })

async function assertServes(platform: Running): Promise<void> {
  assert.equal((await call(`${platform.url}/health`, 'GET', {})).status, 200)
  const reply = await whoami(platform, kept)
  assert.deepEqual([reply.status, reply.body.role], [200, 'anon'])
  assert.equal((await manage(platform, 'GET', `/projects/${kept.id}`)).body.slug, 'kept')
}

/** A session of the embedded server's superuser. */
async function superuser(dataDir: string, database = 'plinth'): Promise<pg.Client> {
  const client = new pg.Client({
    host: join(dirname(engineFiles(dataDir).clusterDir), 'run'),
    port: Number(fs.readFileSync(join(dataDir, 'postgres.port'), 'utf8')),
    user: 'postgres',
    password: secretsOf(dataDir)['POSTGRES_PASSWORD']!,
    database,
  })
  client.on('error', () => {})
  await client.connect()
  return client
}

async function takePort(): Promise<{ port: number; close(): void }> {
  const server = createServer().listen(0, '127.0.0.1')
  await once(server, 'listening')
  return { port: (server.address() as { port: number }).port, close: () => server.close() }
}

/** A request whose head and half its body are sent; `finish` sends the rest and resolves with the answer. */
async function halfSentCreate({ url, dataDir }: Running, name: string) {
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
      await eventually(() => answer.includes('\r\n\r\n') || socket.closed, 'an answer')
      return answer
    },
  }
}

// Starting

test('the first start makes directory, cluster and secrets, and answers', async () => {
  const dataDir = unused('made/by the/first start')
  const platform = await start({ dataDir, env: { PLATFORM_LOG_LEVEL: 'debug' } })
  const health = await call(`${platform.url}/health`, 'GET', {})
  assert.deepEqual([health.status, health.body], [200, { status: 'ok', database: 'ok', version }])
  assert.ok(fs.existsSync(join(engineFiles(dataDir).clusterDir, 'PG_VERSION')))
  for (const file of ['secrets.json', 'platform.json', 'platform.lock', 'postgres.log'])
    assert.equal(modeOf(join(dataDir, file)), 0o600, file)
  assert.equal(modeOf(dataDir), isRoot ? 0o711 : 0o700)
  const { pid, url, version: noted } = notice(dataDir)!
  assert.deepEqual([pid, url, noted], [platform.child.pid, platform.url, version])
  assert.match(platform.stderr, /^Next: .+$/m)

  // Without a terminal no secret is shown: not in the output, not in the list of processes.
  await createProject(platform, 'quiet')
  assert.ok(platform.stderr.includes(`The admin token is in ${join(dataDir, 'secrets.json')}.`))
  const { stdout: processes } = spawnSync('ps', ['-A', '-ww', '-o', 'args='], { encoding: 'utf8' })
  const environment = `/proc/${postmasterPid(dataDir)}/environ`
  const inherited = fs.existsSync(environment) ? fs.readFileSync(environment, 'utf8') : ''
  await stop(platform)
  for (const name of secretNames) {
    const secret = secretsOf(dataDir)[name]!
    assert.match(secret, /^[\w-]{43}$/)
    for (const text of [platform.stdout, platform.stderr, processes, inherited])
      assert.ok(!text.includes(secret), name)
  }
  for (const line of platform.stdout.trim().split('\n'))
    assert.ok(JSON.parse(line).msg, 'logs are JSON lines')
})

test('a terminal is shown the admin token by the first start only, and Ctrl-C stops cleanly', async () => {
  const dataDir = unused('terminal')
  const first = await start({ dataDir, terminal: true })
  await eventually(() => first.stdout.includes('Next: '), 'the whole greeting')
  assert.equal(first.stdout.split(adminToken(dataDir)).length, 2, 'once')
  assert.ok(first.stdout.includes(join(dataDir, 'secrets.json')))
  first.child.stdin!.write('\x03')
  assert.equal(await endOf(first), '0')
  assertNothingLeft(dataDir)

  const second = await start({ dataDir, terminal: true })
  await eventually(() => second.stdout.includes('Next: '), 'the whole greeting')
  await stop(second)
  assert.ok(!second.stdout.includes(adminToken(dataDir)))
})

test('a taken port is one sentence, leaves nothing running, and the next start still tells of the token', async () => {
  const dataDir = unused('port')
  const taken = await takePort()
  const sentence = await refusal({ dataDir, env: { PLATFORM_PORT: String(taken.port) } })
  taken.close()
  assert.ok(sentence.includes(String(taken.port)) && sentence.includes('PLATFORM_PORT'), sentence)
  assertNothingLeft(dataDir)
  const platform = await start({ dataDir })
  assert.ok(platform.stderr.includes(join(dataDir, 'secrets.json')), 'it has not been told before')
})

test('a first start killed again and again is completed by the next', async () => {
  const dataDir = unused('killed')
  for (const delayMs of [300, 700, 1200, 2000]) {
    const run = launch({ dataDir })
    await Promise.race([sleep(delayMs), run.ended])
    await crash(run)
  }
  const platform = await start({ dataDir })
  const project = await createProject(platform, 'after all')
  assert.equal((await whoami(platform, project)).status, 200)
  await stop(platform)
  assertNothingLeft(dataDir)
})

test('two platforms run side by side in two data directories', async () => {
  const both = await Promise.all([start({ dataDir: used('left') }), start({ dataDir: used('right') })])
  const left = await createProject(both[0], 'left')
  for (const platform of both) await assertServes(platform)
  assert.equal((await manage(both[1], 'GET', `/projects/${left.id}`)).status, 404)
  await stop(both[0])
  await assertServes(both[1])
})

test('a second start has all that the first made, and a third beside it is refused', async () => {
  const dataDir = used('shared')
  const secrets = secretsOf(dataDir)
  const platform = await start({ dataDir })
  await assertServes(platform)
  assert.deepEqual(secretsOf(dataDir), secrets)
  assert.ok(!platform.stderr.includes('token'))

  const before = notice(dataDir)
  const sentence = await refusal({ dataDir })
  assert.ok(sentence.includes(`process ${platform.child.pid}`) && sentence.includes(dataDir), sentence)
  assert.deepEqual(notice(dataDir), before)
  await assertServes(platform)
  await stop(platform)
  assertNothingLeft(dataDir)
})

test('lock files of dead and of unrelated processes, or cut short, do not block the start', async () => {
  const dataDir = used('stale')
  const { clusterDir } = engineFiles(dataDir)
  const dead = spawnSync(process.execPath, ['-e', '']).pid
  const pidFile = `${process.pid}\n${clusterDir}\n1700000000\n5432\n${dataDir}\n127.0.0.1\n1 1\nready\n`
  fs.writeFileSync(join(clusterDir, 'postmaster.pid'), pidFile)
  const locks = [
    { pid: dead, birth: '1' },
    { pid: process.pid, birth: '1' },
  ].map(lock => JSON.stringify(lock))
  for (const lock of [...locks, '']) {
    fs.writeFileSync(join(dataDir, 'platform.lock'), lock)
    const platform = await start({ dataDir })
    await assertServes(platform)
    await stop(platform)
  }
})

test('a platform that was killed and is now a zombie does not block the next start', async () => {
  const dataDir = used('zombie')
  const env = { PATH: process.env['PATH'], TMPDIR: tmpdir(), PLATFORM_PORT: '0', PLATFORM_DATA_DIR: dataDir }
  const command = [process.execPath, join(repository, 'apps/server/src/main.ts')]
  const { parent, pid } = await underNeglectfulParent(command, { cwd: join(root, 'cwd'), env })
  try {
    await eventually(() => notice(dataDir) !== undefined, 'a start', 120_000)
    const postmaster = postmasterPid(dataDir)
    for (const each of [pid, postmaster]) process.kill(each, 'SIGKILL')
    await untilZombie(pid)
    assert.equal(readJson(join(dataDir, 'platform.lock')).pid, pid)
    const platform = await start({ dataDir })
    await assertServes(platform)
    assert.equal(statOf(pid).state, 'Z', 'nobody has reaped it meanwhile')
    await stop(platform)
  } finally {
    parent.kill('SIGKILL')
  }
})

test('of several starts at once after a crash, one wins', async () => {
  const dataDir = unused('race')
  fs.mkdirSync(dataDir)
  const module = new URL('../src/kernel/data-directory.ts', import.meta.url).href
  // Only the taking of the directory, at the same moment, many times over: whole platforms would never meet.
  const script = `
    import { takeDataDirectory } from ${JSON.stringify(module)}
    let taken
    const act = { go: () => { taken = takeDataDirectory(${JSON.stringify(dataDir)}) }, end: () => taken?.release() }
    process.stdin.on('data', line => {
      const [word, at] = String(line).trim().split(' ')
      while (Date.now() < Number(at));
      try { act[word](); console.log('done') } catch (error) { console.log(error.message) }
      if (word === 'end') taken = undefined
    })
    console.log('here')`
  const rivals = Array.from({ length: 4 }, () =>
    spawn(process.execPath, ['--input-type=module', '-e', script], { stdio: ['pipe', 'pipe', 'inherit'] }),
  )
  const said = () =>
    Promise.all(rivals.map(async ({ stdout }) => String((await once(stdout, 'data'))[0]).trim()))
  const tell = (line: string) => {
    const answers = said()
    for (const { stdin } of rivals) stdin.write(`${line}\n`)
    return answers
  }
  const strange: string[][] = []
  try {
    await said()
    for (let round = 0; round < 100; round++) {
      fs.writeFileSync(join(dataDir, 'platform.lock'), JSON.stringify({ pid: 4_194_305, birth: '1' }))
      const answers = await tell(`go ${Date.now() + 5}`)
      const winners = answers.filter(answer => answer === 'done').length
      const losers = answers.filter(answer => answer.startsWith('Another platform')).length
      if (winners !== 1 || losers !== 3) strange.push(answers)
      await tell('end 0')
      fs.rmSync(join(dataDir, 'platform.lock'), { force: true })
    }
  } finally {
    for (const rival of rivals) rival.kill()
    fs.rmSync(dataDir, { recursive: true })
  }
  assert.deepEqual(strange, [])
})

// As whom

test('an ordinary user starts it, and Postgres runs as that user', async () => {
  const nobody = { name: 'nobody', uid: 65_534, gid: 65_534 }
  const home = join(root, 'home')
  fs.mkdirSync(home, { mode: 0o700 })
  let code = repository
  if (isRoot) {
    fs.chownSync(home, nobody.uid, nobody.gid)
    if (!canReach(nobody, dirname(process.execPath), 0o5) || !canReach(nobody, repository, 0o5)) {
      code = join(root, 'code')
      fs.mkdirSync(code)
      for (const part of ['apps', 'packages', 'node_modules', 'package.json'])
        assert.equal(spawnSync('cp', ['-a', join(repository, part), code]).status, 0)
    }
  }
  const dataDir = join(home, '.plinth/data')
  const user = isRoot ? { user: { uid: nobody.uid, gid: nobody.gid } } : {}
  const platform = await start({ dataDir, cwd: home, repository: code, env: { HOME: home }, ...user })
  const project = await createProject(platform, 'mine')
  assert.equal((await whoami(platform, project)).status, 200)
  const uid = isRoot ? nobody.uid : process.getuid!()
  assert.equal(fs.statSync(dataDir).uid, uid)
  assert.equal(modeOf(dataDir), 0o700)
  const { stdout } = spawnSync('ps', ['-o', 'uid=', '-p', String(postmasterPid(dataDir))], {
    encoding: 'utf8',
  })
  assert.equal(Number(stdout), uid)
  await stop(platform)
  assertNothingLeft(dataDir)
})

test('under a closed home it starts twice, and remove-data removes every trace', async () => {
  const home = join(root, 'closed')
  fs.mkdirSync(home, { mode: 0o700 })
  const dataDir = join(home, '.plinth/data')
  const first = await start({ dataDir, cwd: home })
  const project = await createProject(first, 'closed')
  await stop(first)
  const second = await start({ dataDir, cwd: home })
  assert.equal((await whoami(second, project)).status, 200)
  const { clusterDir, remove } = engineFiles(dataDir)
  if (isRoot) assert.match(clusterDir, /^\/var\/lib\/plinth\/[0-9a-f]{16}\/postgres$/)

  const refused = await refusal({ dataDir, args: ['remove-data'] })
  assert.ok(refused.includes(dataDir), refused)
  assert.equal((await whoami(second, project)).status, 200, 'a refusal removes nothing')
  await stop(second)

  const removal = launch({ dataDir, args: ['remove-data'] })
  assert.equal(await endOf(removal), '0', removal.stderr)
  assert.deepEqual(JSON.parse(removal.stdout), { removed: remove })
  for (const path of [clusterDir, ...remove]) assert.ok(!fs.existsSync(path), path)
})

test('remove-data also ends the Postgres that a killed platform left running', async () => {
  const dataDir = used('orphaned data')
  const platform = await start({ dataDir })
  await crash(platform)
  assert.equal(postgresOf(dataDir).length, 1)
  const removal = launch({ dataDir, args: ['remove-data'] })
  assert.equal(await endOf(removal), '0', removal.stderr)
  assert.deepEqual(postgresOf(dataDir), [])
  assert.ok(!fs.existsSync(dataDir))
  const again = launch({ dataDir, args: ['remove-data'] })
  assert.equal(await endOf(again), '0', `what is gone already is no mistake: ${again.stderr}`)
})

test('remove-data does not remove a directory that is not a data directory', async () => {
  const dataDir = join(root, 'somebody')
  fs.mkdirSync(dataDir)
  fs.writeFileSync(join(dataDir, 'thesis.txt'), 'years of work')
  assert.ok((await refusal({ dataDir, args: ['remove-data'] })).includes(dataDir))
  assert.ok(fs.existsSync(join(dataDir, 'thesis.txt')))
})

test('a command that does not exist is refused in one sentence', async () => {
  const dataDir = unused('command')
  assert.match(await refusal({ dataDir, args: ['frobnicate'] }), /frobnicate/)
  assert.ok(!fs.existsSync(dataDir))
})

// Stopping

test('SIGTERM lets a request whose body is still arriving finish', async () => {
  const dataDir = used('drained')
  const platform = await start({ dataDir })
  const slow = await halfSentCreate(platform, 'slow')
  process.kill(platform.child.pid!, 'SIGTERM')
  await eventually(
    () =>
      fetch(`${platform.url}/health`).then(
        () => false,
        () => true,
      ),
    'no new connections',
  )
  assert.ok(!platform.hasEnded)
  assert.match(await slow.finish(), /^HTTP\/1\.1 201 /)
  assert.equal(await endOf(platform, 8000), '0', 'a connection kept alive does not use up the grace')
  assertNothingLeft(dataDir)
})

test('SIGINT lets creations in flight finish, and they are there afterwards', async () => {
  const dataDir = used('interrupted')
  const platform = await start({ dataDir })
  const creations = Array.from({ length: 6 }, (_, index) => createProject(platform, `flight ${index}`))
  await Promise.race(creations)
  process.kill(platform.child.pid!, 'SIGINT')
  const created = await Promise.all(creations)
  assert.equal(await endOf(platform), '0')
  assertNothingLeft(dataDir)
  const again = await start({ dataDir })
  for (const project of created) assert.equal((await whoami(again, project)).status, 200)
})

test('a client that never finishes holds up the end no longer than the grace', async () => {
  const dataDir = used('grace')
  const platform = await start({ dataDir, env: { PLATFORM_SHUTDOWN_GRACE_MS: '300' } })
  await halfSentCreate(platform, 'never')
  const idle = new http.Agent({ keepAlive: true })
  await once(http.get(`${platform.url}/health`, { agent: idle }), 'response')
  const since = Date.now()
  process.kill(platform.child.pid!, 'SIGTERM')
  assert.equal(await endOf(platform, 8000), '0')
  assert.ok(Date.now() - since >= 300, 'the grace is given')
  idle.destroy()
  assertNothingLeft(dataDir)
})

test('a statement that never ends holds up the end no longer than the grace', async () => {
  const dataDir = used('stuck')
  const platform = await start({ dataDir, env: { PLATFORM_SHUTDOWN_GRACE_MS: '300' } })
  const blocker = await superuser(dataDir)
  await blocker.query('begin; lock table projects in access exclusive mode')
  const stuck = manage(platform, 'GET', '/projects').catch(() => 'cut off')
  // Long enough for whatever else reads that table, such as the watchdog, to get stuck as well.
  await sleep(1200)
  process.kill(platform.child.pid!, 'SIGTERM')
  try {
    assert.equal(await endOf(platform, 8000), '0')
    await stuck
    assertNothingLeft(dataDir)
  } finally {
    await blocker.end()
  }
})

test('SIGTERM while it is still starting leaves nothing running', async () => {
  const dataDir = used('hasty')
  const run = launch({ dataDir })
  const pidFile = join(engineFiles(dataDir).clusterDir, 'postmaster.pid')
  while (!fs.existsSync(pidFile) && !run.hasEnded) await sleep(1)
  assert.ok(!run.stderr.includes('running at'), 'it has not started yet')
  run.child.kill('SIGTERM')
  assert.equal(await endOf(run), '0', run.stderr)
  assertNothingLeft(dataDir)
})

test('SIGTERM while Postgres is down still ends with 0', async () => {
  const dataDir = used('down')
  const platform = await start({ dataDir })
  process.kill(postmasterPid(dataDir), 'SIGKILL')
  await sleep(50)
  process.kill(platform.child.pid!, 'SIGTERM')
  assert.equal(await endOf(platform), '0', platform.stderr)
  assert.deepEqual(postgresOf(dataDir), [])
  await assertServes(await start({ dataDir }))
})

// Crashing

test('after kill -9 of Node the next start takes the database over', async () => {
  const dataDir = used('node killed')
  const killed = await start({ dataDir })
  const project = await createProject(killed, 'survivor')
  await crash(killed)
  const [orphan] = postgresOf(dataDir)
  assert.ok(orphan, 'Postgres survives')
  const platform = await start({ dataDir })
  await eventually(() => platform.stdout.includes('killed process left running'), 'a line about it')
  assert.ok(!postgresOf(dataDir).includes(orphan))
  assert.equal(postgresOf(dataDir).length, 1)
  await assertServes(platform)
  assert.equal((await whoami(platform, project)).status, 200)
  assert.equal(notice(dataDir)!.pid, platform.child.pid)
})

test('after kill -9 of Node and Postgres the next start has everything', async () => {
  const dataDir = used('both killed')
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

test('after kill -9 of Postgres everything answers again within 5 seconds, with 503 in between', async () => {
  const dataDir = used('postgres killed')
  const platform = await start({ dataDir })
  const { token } = (await manage(platform, 'POST', '/platform/tokens', { name: 'pat', scope: 'read' })).body
  const project = await createProject(platform, 'cold')
  const calls = {
    health: () => call(`${platform.url}/health`, 'GET', {}),
    list: () => manage(platform, 'GET', '/projects'),
    token: () => call(`${platform.url}/api/v1/projects`, 'GET', { token }),
    known: () => whoami(platform, kept),
    unknown: () => whoami(platform, project),
  }
  assert.equal((await calls.known()).status, 200)
  // How long Postgres replays what it wrote last is not the question here.
  const control = await superuser(dataDir)
  await control.query('checkpoint')
  process.kill(postmasterPid(dataDir), 'SIGKILL')
  const seen = new Set<string>()
  const since = Date.now()
  const recover = async ([name, ask]: [string, () => ReturnType<typeof call>]) => {
    for (let quiet = 0; quiet < 5; await sleep(20)) {
      assert.ok(Date.now() - since < 5000, `${name} within 5 seconds`)
      const { status, headers } = await ask()
      quiet = status === 200 ? quiet + (Date.now() - since > 500 ? 1 : 0) : 0
      if (status !== 200) seen.add(`${name} ${status}`)
      if (status === 503 && name !== 'health')
        assert.ok(headers.get('retry-after'), `${name} says when to retry`)
    }
  }
  await Promise.all(Object.entries(calls).map(recover))
  assert.deepEqual(
    [...seen].filter(one => !one.endsWith(' 503')),
    [],
    'nothing but 503',
  )
  assert.ok(seen.size > 0, 'somebody noticed')
  assert.equal((await whoami(platform, await createProject(platform, 'afterwards'))).status, 200)
})

test('kill -9 of Postgres in the middle of creations neither ends the platform nor takes their slugs', async () => {
  const dataDir = used('creations cut off')
  const platform = await start({ dataDir })
  const control = await superuser(dataDir)
  const creations = Array.from({ length: 3 }, (_, index) =>
    manage(platform, 'POST', '/projects', { name: 'cut', slug: `cut-${index}` }).catch(error => error),
  )
  const isCreating = async () =>
    (await control.query("select from projects where status = 'creating'")).rowCount! > 0
  await eventually(isCreating, 'a creation')
  process.kill(postmasterPid(dataDir), 'SIGKILL')
  const statuses = (await Promise.all(creations)).map(reply => reply.status ?? String(reply))
  assert.ok(!platform.hasEnded && !platform.stdout.includes('stopping'), platform.stdout)
  // 500 is the word of a backend that has lost its postmaster in the middle of a statement (XX000).
  for (const status of statuses) assert.ok([201, 500, 503].includes(status), String(status))
  await eventually(
    async () => (await call(`${platform.url}/health`, 'GET', {})).status === 200,
    'health',
    5000,
  )
  for (const [index, status] of statuses.entries()) {
    if (status === 201) continue
    const again = async () =>
      (await manage(platform, 'POST', '/projects', { name: 'again', slug: `cut-${index}` })).status === 201
    await eventually(again, `slug cut-${index} to be free`, 5000)
  }
})

test('the embedded Postgres and the files are watched for free disk space', async () => {
  const dataDir = used('short of space')
  const platform = await start({ dataDir, env: { PLATFORM_DISK_RESERVE_MB: String(1024 ** 3) } })
  const { body } = await call(`${platform.url}/health/services`, 'GET', {})
  assert.deepEqual(
    body.warnings.map((each: string) => /^The disk of the (\w+) has \d+ MB left/.exec(each)?.[1]),
    ['database', 'files'],
  )
  const refused = await manage(platform, 'POST', '/projects', { name: 'no room' })
  assert.deepEqual([refused.status, refused.body.error.code], [503, 'disk_reserve_reached'])
})

// Settings

const bad: Record<(typeof settings)[number]['name'], string> = {
  PLATFORM_HOST: 'no such host',
  PLATFORM_PORT: '65536',
  PLATFORM_BASE_URL: 'ftp://example.com',
  PLATFORM_DATA_DIR: '/dev/null/below a file',
  PLATFORM_ADMIN_TOKEN: 'change-me-change-me-change-me-change-me',
  CONTROL_PLANE_SECRET: '0123456789abcdef0123456789abcde',
  DATABASE_URL: 'postgres://user:hunter2@host:port/database',
  PLATFORM_EXTENSION_DIR: '/dev/null/below a file',
  PLATFORM_TRUSTED_PROXIES: '10.0.0.1, ::1/x',
  PLATFORM_OUTBOUND_ALLOW: '127.0.0.1, intranet',
  PLATFORM_RATE_LIMIT_ANON: '-1',
  PLATFORM_RATE_LIMIT_AUTHENTICATED: '1e3',
  PLATFORM_RATE_LIMIT_SERVICE_ROLE: '1.5',
  PLATFORM_STATEMENT_TIMEOUT_MS: '8s',
  PLATFORM_STATEMENT_TIMEOUT_ANON_MS: '2147483648',
  PLATFORM_REST_MAX_ROWS: '-1',
  PLATFORM_POOL_SIZE: '0',
  PLATFORM_MAX_DB_CONNECTIONS: '3',
  PLATFORM_REALTIME_MAX_LISTENERS: '0',
  PLATFORM_REALTIME_MAX_DB_CONNECTIONS: 'many',
  PLATFORM_REALTIME_QUERY_POOL_SIZE: '0',
  PLATFORM_AUDIT_RETENTION_DAYS: '0',
  PLATFORM_DISK_RESERVE_MB: '1GB',
  REDIS_URL: 'localhost:6379',
  PLATFORM_CRON_TIMEOUT_MS: '0',
  SMTP_HOST: 'two words',
  SMTP_PORT: '65536',
  SMTP_USERNAME: 'without a host',
  SMTP_PASSWORD: 'hunter2',
  SMTP_FROM_EMAIL: 'no address',
  SMTP_FROM_NAME: 'without a host',
  SMTP_ENCRYPTION: 'ssl',
  S3_BUCKET: 'two words',
  S3_ENDPOINT: 'https://key:hunter2@s3.test',
  S3_ACCESS_KEY_ID: 'without a bucket',
  S3_SECRET_ACCESS_KEY: 'hunter2',
  S3_REGION: 'without a bucket',
  S3_FORCE_PATH_STYLE: 'true',
  PLATFORM_LOG_LEVEL: 'verbose',
  PLATFORM_SHUTDOWN_GRACE_MS: '-5',
}

test('a bad value of any setting stops the start with one sentence that names it', async () => {
  assert.deepEqual(Object.keys(bad).sort(), settings.map(({ name }) => name).sort())
  const dataDir = used('bad settings')
  const wrong: string[] = []
  const attempt = async (name: string, value: string) => {
    const sentence = await refusal({ dataDir, env: { [name]: value } }).catch(error => error as Error)
    const isSecret = /TOKEN|SECRET/.test(name)
    if (sentence instanceof Error) wrong.push(`${name}=${value}: ${sentence.message}`)
    else if (!sentence.includes(name)) wrong.push(`${name}=${value}: ${sentence}`)
    else if (sentence.includes(isSecret ? value : 'hunter2')) wrong.push(`${name}: the secret is repeated`)
  }
  // Found out by listening, which takes the directory: one after the other.
  for (const host of [bad.PLATFORM_HOST, '203.0.113.7']) await attempt('PLATFORM_HOST', host)
  const rest: [string, string][] = Object.entries(bad).filter(([name]) => name !== 'PLATFORM_HOST')
  rest.push(['PLATFORM_DATA_DIR', join(repository, 'package.json')])
  const inTurn = async () => {
    for (let next = rest.shift(); next; next = rest.shift()) await attempt(...next)
  }
  await Promise.all([inTurn(), inTurn(), inTurn()])
  assert.deepEqual(wrong, [])
  assertNothingLeft(dataDir)
})

test('.env of the working directory is read, and the real environment wins over it', async () => {
  const cwd = join(root, 'with env')
  fs.mkdirSync(cwd)
  fs.writeFileSync(join(cwd, '.env'), '# comment\nPLATFORM_LOG_LEVEL="chatty"\n')
  const dataDir = unused('env')
  assert.match(await refusal({ dataDir, cwd }), /PLATFORM_LOG_LEVEL.*chatty/)
  assert.match(
    await refusal({ dataDir, cwd, env: { PLATFORM_LOG_LEVEL: 'loud' } }),
    /PLATFORM_LOG_LEVEL.*loud/,
  )
})

// A database server of the operator's own

interface External {
  env: Record<string, string>
  dataDir: string
  database: string
}

async function withExternal(name: string, work: (external: External) => Promise<void>): Promise<void> {
  const database = `t_start_${randomBytes(5).toString('hex')}`
  const env = { DATABASE_URL: databaseUrl({ database }), CONTROL_PLANE_SECRET: goodSecret() }
  const dataDir = unused(name)
  try {
    await work({ env, dataDir, database })
  } finally {
    for (const run of runs) {
      if (!run.hasEnded) run.child.kill('SIGKILL')
      await run.ended
    }
    await onServer(async client => {
      const control = await inDatabase(database, inside => inside.query('select ref from projects')).catch(
        () => undefined,
      )
      const exists = await client.query('select from pg_database where datname = $1', [
        `${database}_template`,
      ])
      if (exists.rowCount) await client.query(`alter database ${database}_template is_template false`)
      const refs: string[] = control?.rows.map(({ ref }) => ref) ?? []
      for (const each of [...refs, `${database}_template`, database])
        await client.query(`drop database if exists ${each} with (force)`)
      for (const ref of refs)
        await client.query(`drop role if exists ${ref}_owner, ${ref}_api, ${ref}_svc, ${ref}_auth`)
    })
  }
}

function databaseUrl(over: {
  user?: string
  password?: string
  host?: string
  port?: number
  database?: string
}) {
  const { host, port, user, password, database = '' } = { ...testServer(), ...over }
  return `postgres://${user}:${encodeURIComponent(password)}@${encodeURIComponent(host)}:${port}/${database}`
}

async function inDatabase<T>(database: string, work: (client: pg.Client) => Promise<T>): Promise<T> {
  const { host, port, user, password } = testServer()
  const client = new pg.Client({ host, port, user, password, database })
  await client.connect()
  try {
    return await work(client)
  } finally {
    await client.end()
  }
}
const onServer = <T>(work: (client: pg.Client) => Promise<T>) => inDatabase('postgres', work)

test('DATABASE_URL without CONTROL_PLANE_SECRET is refused', async () => {
  const sentence = await refusal({ dataDir: unused('no secret'), env: { DATABASE_URL: databaseUrl({}) } })
  assert.match(sentence, /CONTROL_PLANE_SECRET.*DATABASE_URL/)
})

test('with DATABASE_URL no Postgres is embedded, and only a bootstrapped super_admin gets in', () =>
  withExternal('external', async ({ env, dataDir }) => {
    const cwd = join(root, 'external cwd')
    fs.mkdirSync(cwd)
    fs.writeFileSync(
      join(cwd, '.env'),
      Object.entries(env)
        .map(([name, value]) => `${name}=${value}\n`)
        .join(''),
    )
    const platform = await start({ dataDir, cwd })
    assert.equal((await call(`${platform.url}/health`, 'GET', {})).status, 200)
    assert.deepEqual(fs.readdirSync(dataDir).sort(), ['objects', 'platform.json', 'platform.lock'])
    for (const token of ['undefined', 'null', env['CONTROL_PLANE_SECRET']!])
      assert.equal((await call(`${platform.url}/api/v1/projects`, 'GET', { token })).status, 401)

    const login = { email: 'a@b.co', password: 'correct horse battery' }
    const bootstrap = ['bootstrap', '--email', login.email]
    const given = { ...env, PLATFORM_BOOTSTRAP_PASSWORD: login.password }
    const made = launch({ dataDir, args: bootstrap, env: given })
    assert.equal(await endOf(made), '0', made.stderr)
    const { email, role } = JSON.parse(made.stdout)
    assert.deepEqual([email, role], [login.email, 'super_admin'])
    assert.ok(!(made.stdout + made.stderr).includes(login.password))
    assert.match(
      await refusal({ dataDir, args: ['bootstrap', '--email', 'c@d.eu'], env: given }),
      /super_admin/,
    )
    assert.match(await refusal({ dataDir, args: ['bootstrap'], env: given }), /--email/)
    assert.match(await refusal({ dataDir, args: ['bootstrap', '--mail', 'x'], env: given }), /--mail/)

    const session = await call(`${platform.url}/api/v1/platform/login`, 'POST', { body: login })
    assert.equal(session.status, 200)
    const project = await call(`${platform.url}/api/v1/projects`, 'POST', {
      token: session.body.token,
      body: { name: 'external' },
    })
    assert.equal(project.status, 201)
    await stop(platform)
    const again = await start({ dataDir, env })
    assert.equal((await whoami(again, project.body)).status, 200)
    await stop(again)
    const removal = launch({ dataDir, args: ['remove-data'], env })
    assert.equal(await endOf(removal), '0', removal.stderr)
    assert.ok(!fs.existsSync(dataDir))
  }))

test('bootstrap takes the password from standard input as well', () =>
  withExternal('piped', async ({ env, dataDir }) => {
    const made = launch({ dataDir, args: ['bootstrap', '--email', 'a@b.co'], env })
    made.child.stdin!.end('correct horse battery\n')
    assert.equal(await endOf(made), '0', made.stderr)
    const short = launch({ dataDir, args: ['bootstrap', '--email', 'a@b.co'], env })
    short.child.stdin!.end('short\n')
    assert.equal(await endOf(short), '1')
    assert.match(short.stderr, /^[^\n]*12 characters[^\n]*\n$/)
  }))

test('another CONTROL_PLANE_SECRET than the first is refused, at once and in one sentence', () =>
  withExternal('secret', async ({ env, dataDir }) => {
    await stop(await start({ dataDir, env }))
    const other = { ...env, CONTROL_PLANE_SECRET: goodSecret() }
    assert.match(await refusal({ dataDir, env: other }, 8000), /CONTROL_PLANE_SECRET/)
    assert.match(
      await refusal(
        {
          dataDir,
          env: { ...other, PLATFORM_BOOTSTRAP_PASSWORD: 'correct horse battery' },
          args: ['bootstrap', '--email', 'a@b.co'],
        },
        8000,
      ),
      /CONTROL_PLANE_SECRET/,
    )
    await start({ dataDir, env })
  }))

test('a control database made by the operator beforehand is closed to tenants all the same', () =>
  withExternal('beforehand', async ({ env, dataDir, database }) => {
    await onServer(client => client.query(`create database ${database}`))
    await start({ dataDir, env })
    const open = await onServer(client =>
      client.query(
        `select datname from pg_database
          where datname in ($1, $2) and has_database_privilege('anon', oid, 'connect')`,
        [database, `${database}_template`],
      ),
    )
    assert.deepEqual(open.rows, [])
  }))

test('a database server that cannot be used is one sentence that names DATABASE_URL', async () => {
  const role = `t_start_${randomBytes(5).toString('hex')}`
  const taken = await takePort()
  taken.close()
  await onServer(client => client.query(`create role ${role} login password 'a-password-of-its-own'`))
  const limited = databaseUrl({ user: role, password: 'a-password-of-its-own' })
  const cases: [string, string, RegExp?][] = [
    ['nothing listens', databaseUrl({ host: '127.0.0.1', port: taken.port })],
    ['nothing listens on a name with two addresses', databaseUrl({ host: 'localhost', port: taken.port })],
    ['no such host', databaseUrl({ host: 'nowhere.invalid' })],
    ['no such socket', databaseUrl({ host: join(root, 'no socket') })],
    ['wrong password', databaseUrl({ password: 'a-wrong-password' })],
    ['may not connect', limited],
    ['not a superuser', limited, /superuser/],
  ]
  const wrong: string[] = []
  try {
    for (const [what, url, wording] of cases) {
      if (wording) await onServer(client => client.query(`grant connect on database postgres to ${role}`))
      const env = { DATABASE_URL: url, CONTROL_PLANE_SECRET: goodSecret() }
      const sentence = await refusal({ dataDir: unused('unusable'), env }).catch(error => error as Error)
      if (sentence instanceof Error) wrong.push(`${what}: ${sentence.message}`)
      else if (!sentence.includes('DATABASE_URL')) wrong.push(`${what}: ${sentence}`)
      else if (wording && !wording.test(sentence)) wrong.push(`${what}: ${sentence}`)
      else if (/a-(wrong-)?password/.test(sentence)) wrong.push(`${what}: the password is shown`)
    }
  } finally {
    await onServer(async client => {
      await client.query(`drop owned by ${role}`)
      await client.query(`drop role ${role}`)
    })
  }
  assert.deepEqual(wrong, [])
})
