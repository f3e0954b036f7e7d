import assert from 'node:assert/strict'
import { type ChildProcess, spawn, spawnSync } from 'node:child_process'
import { chmodSync, mkdirSync, mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, afterEach, before } from 'node:test'
import pg from 'pg'
import { engineFiles } from '#src/kernel/postgres/engine/place.ts'
import { type Engine, startEngine } from '#src/kernel/postgres/engine/start.ts'

export const isRoot = process.getuid?.() === 0
const superuserPassword = 'correct horse'
export const root = mkdtempSync(join(tmpdir(), 'plinth-engine-'))
const template = join(root, 'template')
const engines: Engine[] = []
const dataDirs: string[] = []
/** Stopped after each test. */
export const children: ChildProcess[] = []
/** Messages that the engine logged in this test. */
export const logged: string[] = []
const record = (_: object, message: string) => void logged.push(message)
const log = { info: record, warn: record, error: record }

/** Registers the hooks of a test file. Several files may run in one process, one after the other. */
export function useEngines(): void {
  before(async () => {
    mkdirSync(root, { recursive: true })
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
    logged.length = 0
  })

  after(() => rmSync(root, { recursive: true, force: true }))
}

export async function start(
  dataDir: string,
  settings: Record<string, string> = {},
  extensionDir?: string,
): Promise<Engine> {
  const engine = await startEngine({ dataDir, superuserPassword, settings, extensionDir, log })
  engines.push(engine)
  return engine
}

/** A data directory with a stopped cluster, copied because that is faster than initdb. */
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

export function postmasterPid(clusterDir: string): number {
  return Number.parseInt(readFileSync(join(clusterDir, 'postmaster.pid'), 'utf8'), 10)
}

/** A zombie counts as ended, because the parent that inherited an orphan may not reap it. */
export function isAlive(pid: number): boolean {
  const { stdout } = spawnSync('ps', ['-o', 'stat=', '-p', String(pid)], { encoding: 'utf8' })
  return /^[^Z\s]/.test(stdout)
}

/** Starts the engine in a separate Node process, for tests that kill it. */
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
