// Runs the platform as an operator does: main.ts as a child process that tests start, stop and kill.
import assert from 'node:assert/strict'
import { type ChildProcess, execFileSync, spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import fs from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, afterEach } from 'node:test'
import { fileURLToPath } from 'node:url'
import type { CreatedProject } from '@plinth/contract/projects.ts'
import { engineFiles } from '#src/kernel/postgres/engine/place.ts'
import { functionDirs } from '#src/services/functions/place.ts'
import { adminToken, platformInfo, postmastersOf } from './data-dir.ts'
import { eventually } from './eventually.ts'
import { call } from './harness.ts'

export const isRoot = process.getuid?.() === 0
export const repository = fileURLToPath(new URL('../../..', import.meta.url))

interface LaunchOptions {
  dataDir: string
  env?: Record<string, string>
  args?: string[]
  /** The working directory; by default one without a .env file. */
  cwd?: string
  /** Runs the process in a pseudo-terminal. */
  terminal?: boolean
  user?: { uid: number; gid: number }
  repository?: string
  /** Maximum file size in bytes, also for its Postgres, which simulates a full disk. */
  fileSizeLimit?: number
}

export interface PlatformProcess {
  child: ChildProcess
  dataDir: string
  stdout: string
  stderr: string
  /** The exit code or signal: `0`, `1`, `SIGKILL`. */
  ended: Promise<string>
  hasEnded: boolean
}

export interface RunningPlatform extends PlatformProcess {
  url: string
}

/** Processes and data directories of one test file. Hooks end the processes after each test. */
export function platformProcesses() {
  const root = fs.realpathSync(fs.mkdtempSync(join(tmpdir(), 'plinth-start-')))
  const template = join(root, 'template')
  // Sessions of a killed Postgres may write for a moment longer.
  const removal = { recursive: true, force: true, maxRetries: 20, retryDelay: 50 }
  const emptyCwd = join(root, 'cwd')
  const processes: PlatformProcess[] = []
  let templateProject: Promise<CreatedProject> | undefined
  fs.chmodSync(root, 0o755)
  fs.mkdirSync(emptyCwd)

  afterEach(async () => {
    const started = processes.splice(0)
    for (const run of started) {
      if (!run.hasEnded) sigkill(platformInfo(run.dataDir)?.pid ?? run.child.pid!, run.child)
      await run.ended
    }
    for (const dataDir of new Set(started.map(run => run.dataDir))) {
      if (dataDir === template) continue
      for (const pid of postmastersOf(dataDir)) sigkill(pid)
      await eventually(() => postmastersOf(dataDir).length === 0, 'Postgres has ended')
      const paths = [...engineFiles(dataDir).remove, ...Object.values(functionDirs(dataDir))]
      for (const path of paths) fs.rmSync(path, removal)
    }
  })
  after(() => fs.rmSync(root, removal))

  function launch(options: LaunchOptions): PlatformProcess {
    const run = spawnPlatform({ cwd: emptyCwd, ...options })
    processes.push(run)
    return run
  }

  async function start(options: LaunchOptions): Promise<RunningPlatform> {
    const run = launch(options)
    const url = () => /Plinth is running at (\S+)/.exec(run.stderr + run.stdout)?.[1]
    await eventually(() => url() !== undefined || run.hasEnded, 'the platform has started')
    assert.ok(!run.hasEnded, `the platform did not start: ${run.stderr}${run.stdout}`)
    return Object.assign(run, { url: url()! })
  }

  /** Runs a command that must fail, and returns its error message, which is one line on standard error. */
  async function failureOf(options: LaunchOptions): Promise<string> {
    const run = launch(options)
    assert.equal(await exitOf(run), '1', run.stderr)
    assert.match(run.stderr, /^[^\n]+\n$/, 'one line without a stack')
    return run.stderr.trim()
  }

  async function makeTemplate(): Promise<CreatedProject> {
    const platform = await start({ dataDir: template })
    const project = await createProject(platform, 'existing')
    await stop(platform)
    // Committed data survives kill -9 without fsync; only a power failure would lose it.
    fs.appendFileSync(join(engineFiles(template).clusterDir, 'postgresql.conf'), 'fsync = off\n')
    return project
  }

  /** The project in every data directory of `dataDirWithProject`. */
  function existingProject(): Promise<CreatedProject> {
    templateProject ??= makeTemplate()
    return templateProject
  }

  /** A data directory with a cluster and a project, copied because that is faster than a first start. */
  async function dataDirWithProject(name: string): Promise<string> {
    await existingProject()
    const dataDir = join(root, name)
    assert.equal(spawnSync('cp', ['-a', template, dataDir]).status, 0)
    return dataDir
  }

  async function assertServes(platform: RunningPlatform): Promise<void> {
    const project = await existingProject()
    assert.equal((await call(`${platform.url}/health`, 'GET', {})).status, 200)
    const reply = await whoami(platform, project)
    assert.deepEqual([reply.status, reply.body.role], [200, 'anon'])
    assert.equal((await manage(platform, 'GET', `/projects/${project.id}`)).body.slug, 'existing')
  }

  return {
    root,
    emptyCwd,
    processes,
    launch,
    start,
    failureOf,
    existingProject,
    dataDirWithProject,
    /** A path at which no directory exists yet. */
    newDataDir: (name: string) => join(root, name),
    assertServes,
  }
}

function spawnPlatform(options: LaunchOptions) {
  const { dataDir, env = {}, args = [], cwd, terminal, user, fileSizeLimit, ...rest } = options
  const main = [process.execPath, join(rest.repository ?? repository, 'apps/server/src/main.ts'), ...args]
  // ulimit counts blocks of 512 bytes. Node.js and Postgres ignore SIGXFSZ and get EFBIG.
  const limited = ['sh', '-c', `ulimit -f ${Math.floor((fileSizeLimit ?? 0) / 512)}; exec "$0" "$@"`]
  const command = fileSizeLimit === undefined ? main : [...limited, ...main]
  const [program = '', ...programArgs] = terminal ? inTerminal(command) : command
  const child = spawn(program, programArgs, {
    cwd,
    // The environment of the test run may have platform settings, so it is not inherited.
    env: {
      PATH: process.env['PATH'],
      TMPDIR: tmpdir(),
      // Speeds up the start.
      NODE_COMPILE_CACHE: process.env['NODE_COMPILE_CACHE'],
      PLATFORM_PORT: '0',
      PLATFORM_DISK_RESERVE_MB: '0',
      RUNTIME_PORT: '0',
      PLATFORM_DATA_DIR: dataDir,
      ...env,
    },
    stdio: 'pipe',
    ...user,
  })
  const run: PlatformProcess = {
    child,
    dataDir,
    stdout: '',
    stderr: '',
    hasEnded: false,
    ended: Promise.resolve(''),
  }
  child.stdout!.setEncoding('utf8').on('data', text => (run.stdout += text))
  child.stderr!.setEncoding('utf8').on('data', text => (run.stderr += text))
  child.stdin!.on('error', () => {})
  run.ended = once(child, 'close').then(([code, signal]) => {
    run.hasEnded = true
    return String(signal ?? code)
  })
  return run
}

function inTerminal(command: string[]): string[] {
  if (process.platform === 'darwin') return ['script', '-q', '/dev/null', ...command]
  // Without exec, `script` would run a shell that ends with 130 on Ctrl-C.
  return ['script', '-qec', `exec ${command.map(word => `'${word}'`).join(' ')}`, '/dev/null']
}

export async function exitOf(run: PlatformProcess): Promise<string> {
  await eventually(() => run.hasEnded, 'the process has ended')
  return run.ended
}

export async function stop(run: PlatformProcess, signal: NodeJS.Signals = 'SIGTERM'): Promise<void> {
  process.kill(platformInfo(run.dataDir)!.pid, signal)
  assert.equal(await exitOf(run), '0', run.stderr)
  const whileStopping = run.stdout.slice(run.stdout.lastIndexOf('"msg":"stopping"'))
  assert.doesNotMatch(whileStopping, /"level":"(warn|error|fatal)"/, 'a clean stop logs no warning')
}

/** Limits the size of files that this process writes, which simulates a full disk. Only on Linux. */
export const limitFiles = (pid: number, bytes: number | 'unlimited') =>
  execFileSync('prlimit', ['--pid', String(pid), `--fsize=${bytes}:`])

/** Kills the platform process with SIGKILL. Its Postgres keeps running. */
export async function crash(run: PlatformProcess): Promise<void> {
  run.child.kill('SIGKILL')
  assert.equal(await run.ended, 'SIGKILL')
}

export function sigkill(pid: number, child?: ChildProcess): void {
  try {
    process.kill(pid, 'SIGKILL')
  } catch {
    child?.kill('SIGKILL')
  }
}

export const manage = (
  { url, dataDir }: Pick<RunningPlatform, 'url' | 'dataDir'>,
  method: string,
  path: string,
  body?: unknown,
) => call(`${url}/api/v1${path}`, method, { token: adminToken(dataDir), body })

export async function createProject(platform: RunningPlatform, name: string): Promise<CreatedProject> {
  const reply = await manage(platform, 'POST', '/projects', { name })
  assert.equal(reply.status, 201, JSON.stringify(reply.body))
  return reply.body
}

export const whoami = ({ url }: RunningPlatform, project: CreatedProject) =>
  call(`${url}/v1/whoami/${project.id}`, 'GET', { apikey: project.anon_key })
