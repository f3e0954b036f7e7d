// The platform as a background process, with its embedded database, from start to removal.
import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { existsSync, readFileSync, statSync } from 'node:fs'
import type { AddressInfo } from 'node:net'
import { createServer } from 'node:net'
import { join } from 'node:path'
import { test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import { makeZombie } from '../../server/test/zombie.ts'
import { startTicksOf } from '../src/local-platform.ts'
import {
  begin,
  plinthProcess,
  type RunOptions,
  type RunResult,
  plinth as run,
  temporaryDirectory,
  writeIn,
} from './plinth.ts'

const anyPort = { PLATFORM_PORT: '0' }

/** A directory whose platform is removed after the test, also when the test fails. */
function platformDirectory(): {
  cwd: string
  dataDir: string
  plinth(args: string[], options?: RunOptions): Promise<RunResult>
  /** As a separate process, which ends before the platform does. */
  asProcess(args: string[]): Promise<RunResult>
} {
  const cwd = temporaryDirectory({}, () => plinth(['down', '--volumes', '--yes', '--force']))
  const plinth = (args: string[], options: RunOptions = {}) =>
    run(args, { cwd, ...options, env: { ...anyPort, ...options.env } })
  const asProcess = (args: string[]) => plinthProcess(args, { cwd, env: anyPort })
  return { cwd, dataDir: join(cwd, '.plinth/data'), plinth, asProcess }
}

test('start, restart, stop and down --volumes manage a platform with an embedded database', async () => {
  const { dataDir, plinth, asProcess } = platformDirectory()

  const started = await asProcess(['start'])
  assert.equal(started.code, 0, started.stdout + started.stderr)
  const { url, pid } = started.json.data
  assert.deepEqual([started.json.data.state, started.json.data.already_running], ['running', false])
  assert.match(started.stderr, /✓ Started the process[\s\S]*✓ The database is ready[\s\S]*✓ Healthy at http/)
  assert.equal(statSync(join(dataDir, 'platform.log')).mode & 0o777, 0o600)
  const secrets = JSON.parse(readFileSync(join(dataDir, 'secrets.json'), 'utf8'))
  assert.ok(!(started.stdout + started.stderr).includes(secrets.PLATFORM_ADMIN_TOKEN))

  const again = await plinth(['start', '-o', 'text'])
  assert.equal(again.code, 0)
  assert.ok(again.stdout.includes(`already running at ${url} (pid ${pid})`), again.stdout)

  // The token of the platform of this directory needs no setting.
  assert.equal((await plinth(['projects', 'create', 'demo', '--url', url])).code, 0)
  assert.equal((await plinth(['link', url, '--project', 'demo'])).code, 0)
  assert.equal((await plinth(['projects', 'info'])).json.data.slug, 'demo')

  const { processes } = (await plinth(['ps'])).json.data
  const named = (name: string) => processes.find((each: { name: string }) => each.name === name)
  assert.equal(named('platform').pid, pid)
  assert.ok(named('postgres').pid > 0)

  const local = (await plinth(['status', '--local'])).json.data
  assert.deepEqual([local.running, local.pid, local.url, local.health], [true, pid, url, 'ok'])
  assert.equal(local.postgres.pid, named('postgres').pid)
  assert.ok(local.data_bytes > 1_000_000)

  const restarted = (await asProcess(['restart'])).json.data
  assert.equal(restarted.state, 'running')
  assert.notEqual(restarted.pid, pid)
  assert.equal((await plinth(['projects', 'info', 'demo', '--url', restarted.url])).code, 0)

  const stopped = await asProcess(['stop'])
  assert.deepEqual([stopped.code, stopped.json.data.stopped, stopped.json.data.pid], [0, true, restarted.pid])
  assert.deepEqual((await plinth(['ps'])).json.data.processes, [])
  assert.equal((await plinth(['stop'])).json.data.stopped, false)
  assert.equal((await plinth(['status', '--local'])).json.data.state, 'stopped')

  const kept = await plinth(['down'])
  assert.deepEqual([kept.code, kept.json.data.removed, existsSync(dataDir)], [0, [], true])
  const unasked = await plinth(['down', '--volumes'])
  assert.deepEqual(
    [unasked.code, unasked.json.error.code, existsSync(dataDir)],
    [1, 'confirmation_missing', true],
  )
  const removed = await plinth(['down', '--volumes', '--yes'])
  assert.equal(removed.code, 0, removed.stdout)
  assert.ok(removed.json.data.removed.includes(dataDir))
  for (const path of removed.json.data.removed) assert.equal(existsSync(path), false, path)
})

test('start --no-wait: returns while the platform starts, and down stops it', async () => {
  const { plinth } = platformDirectory()
  const started = await plinth(['start', '--no-wait'])
  assert.deepEqual([started.code, started.json.data.state], [0, 'starting'])
  const second = await plinth(['start', '--no-wait'])
  assert.deepEqual([second.code, second.json.data.pid], [0, started.json.data.pid])
  const stopped = await plinth(['down', '--volumes', '--yes'])
  assert.deepEqual([stopped.code, stopped.json.data.stopped], [0, true], stopped.stdout)
})

test('start: Ctrl-C while it waits exits with 130, and the platform continues to start', async () => {
  const { cwd, plinth } = platformDirectory()
  const running = begin(['start', '-o', 'text'], { cwd, env: anyPort })
  running.interrupt()
  assert.equal(await running.ended, 130, running.stderr())
  const pid = Number(/continues to start \(pid (\d+)\)/.exec(running.stderr())?.[1])
  const deadline = Date.now() + 120_000
  while ((await plinth(['status', '--local'])).json.data.pid !== pid) {
    assert.ok(Date.now() < deadline, running.stderr())
    await sleep(50)
  }
  assert.equal((await plinth(['stop'])).json.data.pid, pid)
})

test('start: a failure shows the last log lines of the platform', async () => {
  const server = createServer()
  await new Promise<void>(resolve => server.listen(0, '127.0.0.1', resolve))
  const { port } = server.address() as AddressInfo
  const { plinth } = platformDirectory()
  const failed = await plinth(['start'], { env: { PLATFORM_PORT: String(port) } })
  server.close()
  assert.deepEqual([failed.code, failed.json.error.code], [1, 'start_failed'])
  assert.match(failed.json.error.message, new RegExp(`Port ${port} on 127.0.0.1 is taken`))
  assert.match(failed.json.error.suggestion, /platform\.log/)
})

test('start: passes settings from .env to the platform', async () => {
  const { cwd, plinth } = platformDirectory()
  writeIn(cwd, '.env', 'PLATFORM_AUDIT_RETENTION_DAYS=forever\n')
  const failed = await plinth(['start'])
  writeIn(cwd, '.env', '')
  assert.match(failed.json.error.message, /PLATFORM_AUDIT_RETENTION_DAYS must be a whole number/)
})

test('ps and stop ignore a zombie and the Postgres of another directory', async () => {
  const { cwd, plinth } = platformDirectory()
  const { parent, pid } = await makeZombie()
  const other = spawn('sleep', ['60'], { argv0: 'postgres' })
  try {
    writeIn(cwd, '.plinth/data/platform.lock', { pid, birth: startTicksOf(pid) })
    writeIn(cwd, '.plinth/data/platform.json', { pid, url: 'http://127.0.0.1:39001' })
    writeIn(cwd, '.plinth/data/postgres/postmaster.pid', `${other.pid}\n`)
    assert.deepEqual((await plinth(['ps'])).json.data.processes, [])
    assert.deepEqual((await plinth(['stop', '--force'])).json.data.stopped, false)
  } finally {
    parent.kill('SIGKILL')
    other.kill('SIGKILL')
  }
})

test('ps and stop ignore a reused pid', async () => {
  const { cwd, plinth } = platformDirectory()
  writeIn(cwd, '.plinth/data/platform.lock', { pid: process.pid, birth: `${startTicksOf(process.pid)}0` })
  writeIn(cwd, '.plinth/data/platform.json', { pid: process.pid, url: 'http://127.0.0.1:39001' })
  assert.deepEqual((await plinth(['ps'])).json.data.processes, [])
  assert.deepEqual((await plinth(['stop', '--force'])).json.data.stopped, false)
})
