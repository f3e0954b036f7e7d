import assert from 'node:assert/strict'
import { type ChildProcess, spawn, spawnSync } from 'node:child_process'
import { chmodSync, mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, afterEach, before } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import pg from 'pg'
import { engineFiles } from '#src/kernel/postgres/engine/place.ts'
import { type Engine, startEngine } from '#src/kernel/postgres/engine/start.ts'

export const isRoot = process.getuid?.() === 0
const superuserPassword = 'correct horse'
export const root = mkdtempSync(join(tmpdir(), 'plinth-engine-'))
const template = join(root, 'template')
const engines: Engine[] = []
const dataDirs: string[] = []
/** Ended after each test. */
export const children: ChildProcess[] = []
/** What the engine has logged in this test. */
export const said: string[] = []
const say = (_: object, message: string) => void said.push(message)
const log = { info: say, warn: say, error: say }

before(async () => {
  chmodSync(root, 0o755)
  const engine = await startEngine({ dataDir: template, superuserPassword, log })
  await query(engine, 'create table kept (note text)')
  await engine.stop()
})

afterEach(async () => {
  for (const child of children.splice(0)) child.kill('SIGKILL')
  for (const engine of engines.splice(0)) await engine.stop()
  for (const dataDir of dataDirs.splice(0)) {
    for (const path of engineFiles(dataDir).remove) rmSync(path, { recursive: true, force: true })
  }
  said.length = 0
})

after(() => rmSync(root, { recursive: true, force: true }))

export async function start(
  dataDir: string,
  settings: Record<string, string> = {},
  extensionDir?: string,
): Promise<Engine> {
  const engine = await startEngine({ dataDir, superuserPassword, settings, extensionDir, log })
  engines.push(engine)
  return engine
}

/** A data directory with a cluster in it that has been stopped: a copy takes less time than initdb. */
export function used(name: string): string {
  const dataDir = unused(name)
  assert.equal(spawnSync('cp', ['-a', template, dataDir]).status, 0)
  return dataDir
}

export function unused(name: string): string {
  const dataDir = join(root, name)
  dataDirs.push(dataDir)
  return dataDir
}

export async function query(
  engine: Engine,
  text: string,
  over: pg.ClientConfig = {},
): Promise<pg.QueryResult> {
  const client = await connect(engine, over)
  try {
    return await client.query(text)
  } finally {
    await client.end()
  }
}

export async function connect(engine: Engine, over: pg.ClientConfig = {}): Promise<pg.Client> {
  const { socketDir: host, port, user } = engine
  const options = { host, port, user, password: superuserPassword, database: 'postgres', ...over }
  const client = new pg.Client(options)
  client.on('error', () => {}) // some tests kill the server
  await client.connect()
  return client
}

export async function eventually(holds: () => unknown, what: string, withinMs = 30_000): Promise<void> {
  for (const end = Date.now() + withinMs; !(await holds()); await sleep(15)) {
    assert.ok(Date.now() < end, `${what} within ${withinMs} ms`)
  }
}

export function postmasterPid(clusterDir: string): number {
  return Number.parseInt(readFileSync(join(clusterDir, 'postmaster.pid'), 'utf8'), 10)
}

/** A zombie does not count: an orphan's end may go unnoticed by whoever inherited it. */
export function isAlive(pid: number): boolean {
  const { stdout } = spawnSync('ps', ['-o', 'stat=', '-p', String(pid)], { encoding: 'utf8' })
  return /^[^Z\s]/.test(stdout)
}

/** A Node of its own that starts the engine, for tests that kill it. */
export function startInOtherNode(dataDir: string): ChildProcess {
  const module = new URL('../src/kernel/postgres/engine/start.ts', import.meta.url).href
  const script = `
    import { startEngine } from ${JSON.stringify(module)}
    const log = { info() {}, warn() {}, error() {} }
    await startEngine({ ...${JSON.stringify({ dataDir, superuserPassword })}, log })
    console.log('started')
    setInterval(() => {}, 1000)`
  const child = spawn(process.execPath, ['--input-type=module', '-e', script], {
    stdio: ['ignore', 'pipe', 'inherit'],
  })
  children.push(child)
  return child
}
