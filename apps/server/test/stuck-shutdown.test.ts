// SIGTERM while a statement runs that Postgres cannot interrupt: main.ts as a process, on each kind of server.
import assert from 'node:assert/strict'
import { type ChildProcess, spawn } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { chmodSync, mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import type { CreatedProject } from '@plinth/contract/projects.ts'
import { engineFiles } from '#src/kernel/postgres/engine/place.ts'
import { formatDatabaseUrl } from '#src/kernel/postgres/server-address.ts'
import { eventually } from './eventually.ts'
import { call } from './harness.ts'
import { type OwnServer, startOwnServer } from './own-server.ts'

const main = fileURLToPath(new URL('../src/main.ts', import.meta.url))
const adminToken = randomBytes(24).toString('hex')
const dataDirs: string[] = []
const children: ChildProcess[] = []
const servers: OwnServer[] = []

after(async () => {
  for (const child of children) child.kill('SIGKILL')
  for (const server of servers) await server.stop()
  for (const dataDir of dataDirs)
    for (const path of [...engineFiles(dataDir).remove, dataDir])
      rmSync(path, { recursive: true, force: true })
})

function newDataDir(): string {
  const dataDir = mkdtempSync(join(tmpdir(), 'plinth-stuck-'))
  chmodSync(dataDir, 0o711)
  dataDirs.push(dataDir)
  return dataDir
}

interface Running {
  child: ChildProcess
  url: string
  ended: Promise<unknown>
}

async function start(dataDir: string, env: Record<string, string> = {}): Promise<Running> {
  const child = spawn(process.execPath, [main], {
    cwd: dataDir,
    env: {
      PATH: process.env['PATH'],
      TMPDIR: tmpdir(),
      PLATFORM_PORT: '0',
      PLATFORM_DATA_DIR: dataDir,
      PLATFORM_ADMIN_TOKEN: adminToken,
      PLATFORM_SHUTDOWN_GRACE_MS: '500',
      ...env,
    },
    stdio: 'ignore',
  })
  children.push(child)
  const ended = once(child, 'exit')
  const notice = () => {
    try {
      const { url, pid } = JSON.parse(readFileSync(join(dataDir, 'platform.json'), 'utf8'))
      return pid === child.pid ? (url as string) : undefined
    } catch {
      return undefined
    }
  }
  let url = notice()
  for (const end = Date.now() + 120_000; url === undefined; url = notice()) {
    assert.ok(Date.now() < end && child.exitCode === null, 'the platform starts')
    await sleep(50)
  }
  return { child, url, ended }
}

async function stopsInTime({ child, url, ended }: Running): Promise<CreatedProject> {
  const { body: project } = await call(`${url}/api/v1/projects`, 'POST', {
    token: adminToken,
    body: { name: 'stuck' },
  })
  const exec = (sql: string) =>
    call(`${url}/v1/rest/${project.id}/rpc/exec_sql`, 'POST', {
      apikey: project.service_role_key,
      body: { sql },
    })
  await exec(`
    create table kept (id int); insert into kept values (1);
    create function stuck(key int) returns void language plpgsql as
      $$ begin perform pg_advisory_lock(key); execute repeat('/*', 400000); end $$`)
  const calls = [
    exec('select stuck(1)').catch(() => 'cut'),
    call(`${url}/v1/rest/${project.id}/rpc/stuck`, 'POST', {
      apikey: project.anon_key,
      body: { key: 2 },
    }).catch(() => 'cut'),
  ]
  const isHeld = (key: number) => `not pg_try_advisory_xact_lock(${key})`
  const bothRun = async () => (await exec(`select ${isHeld(1)} and ${isHeld(2)} as run`)).body[0].run
  await eventually(bothRun, 'both statements run')
  child.kill('SIGTERM')
  // The statements would take minutes.
  assert.notEqual(await Promise.race([ended, sleep(90_000, 'still there', { ref: false })]), 'still there')
  await Promise.all(calls)
  return project
}

test('shutdown: with the embedded Postgres and a stuck statement the platform stops, and committed data survives', async () => {
  const dataDir = newDataDir()
  const project = await stopsInTime(await start(dataDir))
  const { child, url, ended } = await start(dataDir)
  const { status, body } = await call(`${url}/v1/rest/${project.id}/kept`, 'GET', {
    apikey: project.service_role_key,
  })
  assert.deepEqual([status, body], [200, [{ id: 1 }]])
  child.kill('SIGTERM')
  await ended
})

test('shutdown: with an external Postgres the platform stops while a statement still runs', async () => {
  const server = await startOwnServer()
  servers.push(server)
  const address = { ...server.address, host: '127.0.0.1' }
  await stopsInTime(
    await start(newDataDir(), {
      DATABASE_URL: formatDatabaseUrl(address, 'control'),
      CONTROL_PLANE_SECRET: randomBytes(24).toString('hex'),
    }),
  )
})
