// Starts of main.ts as a process: the first start, later starts, and starts that find files of a killed platform.
import assert from 'node:assert/strict'
import { spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import fs from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import { engineFiles } from '#src/kernel/postgres/engine/place.ts'
import { startTimeOf } from '#src/kernel/running-process.ts'
import { version } from '#src/kernel/version.ts'
import {
  adminToken,
  assertStopped,
  modeOf,
  platformInfo,
  postmasterPid,
  readJson,
  secretNames,
  secretsOf,
} from './data-dir.ts'
import { eventually } from './eventually.ts'
import { call } from './harness.ts'
import { occupyPort } from './occupied-port.ts'
import {
  crash,
  createProject,
  exitOf,
  isRoot,
  manage,
  platformProcesses,
  repository,
  stop,
  whoami,
} from './platform-process.ts'
import { startUnreaped, statOf, untilZombie } from './zombie.ts'

const { emptyCwd, launch, start, failureOf, dataDirWithProject, newDataDir, assertServes } =
  platformProcesses()

test('start: the first start creates the data directory, cluster and secrets, and shows no secret', async () => {
  const dataDir = newDataDir('created/by the/first start')
  const platform = await start({ dataDir, env: { PLATFORM_LOG_LEVEL: 'debug' } })
  const health = await call(`${platform.url}/health`, 'GET', {})
  assert.deepEqual([health.status, health.body], [200, { status: 'ok', database: 'ok', version }])
  assert.ok(fs.existsSync(join(engineFiles(dataDir).clusterDir, 'PG_VERSION')))
  for (const file of ['secrets.json', 'platform.json', 'platform.lock', 'postgres.log'])
    assert.equal(modeOf(join(dataDir, file)), 0o600, file)
  assert.equal(modeOf(dataDir), isRoot ? 0o711 : 0o700)
  const { pid, url, version: recordedVersion } = platformInfo(dataDir)!
  assert.deepEqual([pid, url, recordedVersion], [platform.child.pid, platform.url, version])
  assert.match(platform.stderr, /^Next: .+$/m)

  // Without a terminal, neither the output nor the process list shows a secret.
  await createProject(platform, 'first')
  assert.ok(platform.stderr.includes(`The admin token is in ${join(dataDir, 'secrets.json')}.`))
  const { stdout: processList } = spawnSync('ps', ['-A', '-ww', '-o', 'args='], { encoding: 'utf8' })
  const environment = `/proc/${postmasterPid(dataDir)}/environ`
  const inherited = fs.existsSync(environment) ? fs.readFileSync(environment, 'utf8') : ''
  await stop(platform)
  for (const name of secretNames) {
    const secret = secretsOf(dataDir)[name]!
    assert.match(secret, /^[\w-]{43}$/)
    for (const text of [platform.stdout, platform.stderr, processList, inherited])
      assert.ok(!text.includes(secret), name)
  }
  for (const line of platform.stdout.trim().split('\n'))
    assert.ok(JSON.parse(line).msg, 'logs are JSON lines')
})

test('start: only the first start in a terminal prints the admin token, and Ctrl-C stops the platform', async () => {
  const dataDir = newDataDir('terminal')
  const first = await start({ dataDir, terminal: true })
  await eventually(() => first.stdout.includes('Next: '), 'the complete greeting is printed')
  assert.equal(first.stdout.split(adminToken(dataDir)).length, 2, 'printed once')
  assert.ok(first.stdout.includes(join(dataDir, 'secrets.json')))
  first.child.stdin!.write('\x03')
  assert.equal(await exitOf(first), '0')
  assertStopped(dataDir)

  const second = await start({ dataDir, terminal: true })
  await eventually(() => second.stdout.includes('Next: '), 'the complete greeting is printed')
  await stop(second)
  assert.ok(!second.stdout.includes(adminToken(dataDir)))
})

test('start: a port in use is a one-line error, and the next start still says where the admin token is', async () => {
  const dataDir = newDataDir('port')
  const taken = await occupyPort()
  const message = await failureOf({ dataDir, env: { PLATFORM_PORT: String(taken.port) } })
  taken.close()
  assert.ok(message.includes(String(taken.port)) && message.includes('PLATFORM_PORT'), message)
  assertStopped(dataDir)
  const platform = await start({ dataDir })
  assert.ok(platform.stderr.includes(join(dataDir, 'secrets.json')), 'the failed start has not printed it')
})

test('start: a first start that was killed several times is completed by the next start', async () => {
  const dataDir = newDataDir('killed')
  for (const delayMs of [300, 700, 1200, 2000]) {
    const run = launch({ dataDir })
    await Promise.race([sleep(delayMs), run.ended])
    await crash(run)
  }
  const platform = await start({ dataDir })
  const project = await createProject(platform, 'after kills')
  assert.equal((await whoami(platform, project)).status, 200)
  await stop(platform)
  assertStopped(dataDir)
})

test('start: two platforms run in two data directories', async () => {
  const dataDirs = [await dataDirWithProject('left'), await dataDirWithProject('right')] as const
  const both = await Promise.all([start({ dataDir: dataDirs[0] }), start({ dataDir: dataDirs[1] })])
  const left = await createProject(both[0], 'left')
  for (const platform of both) await assertServes(platform)
  assert.equal((await manage(both[1], 'GET', `/projects/${left.id}`)).status, 404)
  await stop(both[0])
  await assertServes(both[1])
})

test('start: a second start keeps all data, and a concurrent start on the same directory fails', async () => {
  const dataDir = await dataDirWithProject('shared')
  const secrets = secretsOf(dataDir)
  const platform = await start({ dataDir })
  await assertServes(platform)
  assert.deepEqual(secretsOf(dataDir), secrets)
  assert.ok(!platform.stderr.includes('token'))

  const before = platformInfo(dataDir)
  const message = await failureOf({ dataDir })
  assert.ok(message.includes(`process ${platform.child.pid}`) && message.includes(dataDir), message)
  assert.deepEqual(platformInfo(dataDir), before)
  await assertServes(platform)
  await stop(platform)
  assertStopped(dataDir)
})

test('start: empty lock files and those of dead or unrelated processes do not block the start', async () => {
  const dataDir = await dataDirWithProject('stale')
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

test('start: a killed platform that is a zombie process does not block the next start', async () => {
  const dataDir = await dataDirWithProject('zombie')
  const env = { PATH: process.env['PATH'], TMPDIR: tmpdir(), PLATFORM_PORT: '0', PLATFORM_DATA_DIR: dataDir }
  const command = [process.execPath, join(repository, 'apps/server/src/main.ts')]
  const { parent, pid } = await startUnreaped(command, { cwd: emptyCwd, env })
  try {
    await eventually(() => platformInfo(dataDir) !== undefined, 'the platform has started')
    const postmaster = postmasterPid(dataDir)
    for (const each of [pid, postmaster]) process.kill(each, 'SIGKILL')
    await untilZombie(pid)
    assert.equal(readJson(join(dataDir, 'platform.lock')).pid, pid)
    const platform = await start({ dataDir })
    await assertServes(platform)
    assert.equal(statOf(pid).state, 'Z', 'the zombie has not been reaped')
    await stop(platform)
  } finally {
    parent.kill('SIGKILL')
  }
})

test('start: a data directory is not taken while another process is taking it', async () => {
  const dataDir = newDataDir('being-taken')
  fs.mkdirSync(dataDir)
  const lock = join(dataDir, 'platform.lock')
  const module = new URL('../src/kernel/data-directory.ts', import.meta.url).href
  const script = `
    import { lockDataDirectory } from ${JSON.stringify(module)}
    try { lockDataDirectory(${JSON.stringify(dataDir)}); console.log('taken') } catch (error) { console.log(error.message) }`
  const own = JSON.stringify({ pid: process.pid, birth: startTimeOf(process.pid) })
  // This process has removed the lock of a killed one and has not created its own yet.
  fs.writeFileSync(`${lock}.taking`, own)
  const other = spawn(process.execPath, ['--input-type=module', '-e', script], {
    stdio: ['ignore', 'pipe', 'inherit'],
  })
  let message = ''
  other.stdout.on('data', text => (message += text))
  const exit = once(other, 'exit')
  await eventually(() => message !== '' || fs.existsSync(`${lock}.${other.pid}`), 'the other process begins')
  await sleep(200)
  assert.ok(!fs.existsSync(lock), 'the other process waits')
  fs.writeFileSync(lock, own)
  fs.rmSync(`${lock}.taking`)
  await exit
  assert.match(message, new RegExp(`Another platform \\(process ${process.pid}\\)`))
  fs.rmSync(dataDir, { recursive: true })
})

test('start: of concurrent starts after a crash exactly one takes the data directory', async () => {
  const dataDir = newDataDir('race')
  fs.mkdirSync(dataDir)
  const module = new URL('../src/kernel/data-directory.ts', import.meta.url).href
  // Only takeDataDirectory runs, because whole platforms would not reach it at the same moment.
  const script = `
    import { lockDataDirectory } from ${JSON.stringify(module)}
    let taken
    const act = { go: () => { taken = lockDataDirectory(${JSON.stringify(dataDir)}) }, end: () => taken?.release() }
    process.stdin.on('data', line => {
      const [word, at] = String(line).trim().split(' ')
      while (Date.now() < Number(at));
      try { act[word](); console.log('done') } catch (error) { console.log(error.message) }
      if (word === 'end') taken = undefined
    })
    console.log('ready')`
  const competitors = Array.from({ length: 4 }, () =>
    spawn(process.execPath, ['--input-type=module', '-e', script], { stdio: ['pipe', 'pipe', 'inherit'] }),
  )
  const nextLines = () =>
    Promise.all(competitors.map(async ({ stdout }) => String((await once(stdout, 'data'))[0]).trim()))
  const send = (line: string) => {
    const answers = nextLines()
    for (const { stdin } of competitors) stdin.write(`${line}\n`)
    return answers
  }
  const unexpected: string[][] = []
  try {
    await nextLines()
    for (let round = 0; round < 100; round++) {
      fs.writeFileSync(join(dataDir, 'platform.lock'), JSON.stringify({ pid: 4_194_305, birth: '1' }))
      const answers = await send(`go ${Date.now() + 5}`)
      const winners = answers.filter(answer => answer === 'done').length
      const losers = answers.filter(answer => answer.startsWith('Another platform')).length
      if (winners !== 1 || losers !== 3) unexpected.push(answers)
      await send('end 0')
      fs.rmSync(join(dataDir, 'platform.lock'), { force: true })
    }
  } finally {
    for (const competitor of competitors) competitor.kill()
    fs.rmSync(dataDir, { recursive: true })
  }
  assert.deepEqual(unexpected, [])
})

test('disk reserve: the disks of the embedded Postgres and of the files are both checked', async () => {
  const dataDir = await dataDirWithProject('short of space')
  const platform = await start({ dataDir, env: { PLATFORM_DISK_RESERVE_MB: String(1024 ** 3) } })
  const { body } = await call(`${platform.url}/health/services`, 'GET', {})
  assert.deepEqual(
    body.warnings.map((each: string) => /^The disk of the (\w+) has \d+ MB left/.exec(each)?.[1]),
    ['database', 'files'],
  )
  const refused = await manage(platform, 'POST', '/projects', { name: 'no room' })
  assert.deepEqual([refused.status, refused.body.error.code], [503, 'disk_reserve_reached'])
})
