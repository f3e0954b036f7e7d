// The environment of a benchmark: an engine, platforms in separate processes, and their removal.
import { type ChildProcess, spawn } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { client } from '@plinth/contract/client.ts'
import { projectsApi } from '@plinth/contract/projects.ts'
import { serverOptions } from '../apps/cli/src/server-process.ts'
import { guardedSettings, withClient } from '../apps/server/src/kernel/postgres/database.ts'
import { engineFiles, locate } from '../apps/server/src/kernel/postgres/engine/place.ts'
import { rememberedPort } from '../apps/server/src/kernel/postgres/engine/port.ts'
import { startEngine } from '../apps/server/src/kernel/postgres/engine/start.ts'
import type { ServerAddress } from '../apps/server/src/kernel/postgres/server-address.ts'
import { type SqlFragment, sql } from '../apps/server/src/kernel/postgres/sql.ts'
import { functionDirs } from '../apps/server/src/services/functions/place.ts'

export const repository = fileURLToPath(new URL('..', import.meta.url))
const mainFile = join(repository, 'apps/server/src/main.ts')
const startTimeoutMs = 240_000
const stopTimeoutMs = 60_000

export interface Stage {
  /** A directory that is removed with the stage, and with the database of a platform in it. */
  dataDir(name: string): string
  /** A Postgres with its production settings: fsync is on. */
  engine(): Promise<StagedEngine>
  /** Starts a separate Node process and resolves with its URL. */
  server(script: string, env: Record<string, string>, nodeOptions?: string[]): Promise<StagedServer>
}

export interface StagedEngine {
  address: ServerAddress
  postmaster: number
  /** Settings of a platform on this engine. */
  env: Record<string, string>
  adminToken: string
  controlPlaneSecret: string
}

export interface StagedServer {
  pid: number
  url: string
  stop(): Promise<void>
}

export async function onStage(work: (stage: Stage) => Promise<void>): Promise<void> {
  const root = mkdtempSync(join(tmpdir(), 'plinth-bench-'))
  const cleanups: (() => Promise<void> | void)[] = [() => rmSync(root, { recursive: true, force: true })]
  const cleanUp = async () => {
    for (const step of cleanups.splice(0).reverse()) await step()
  }
  const onSignal = () => void cleanUp().finally(() => process.exit(130))
  process.once('SIGINT', onSignal)
  process.once('SIGTERM', onSignal)

  const stage: Stage = {
    dataDir(name) {
      const dataDir = join(root, name)
      mkdirSync(dataDir)
      cleanups.push(async () => {
        await stopOrphan(dataDir)
        const paths = [...engineFiles(dataDir).remove, ...Object.values(functionDirs(dataDir))]
        for (const path of paths) rmSync(path, { recursive: true, force: true })
      })
      return dataDir
    },

    async engine() {
      const dataDir = stage.dataDir('engine')
      const password = randomBytes(16).toString('hex')
      const quiet = { info() {}, warn() {}, error: logError }
      const engine = await startEngine({ dataDir, superuserPassword: password, log: quiet })
      cleanups.push(() => engine.stop())
      const { socketDir, port, user } = engine
      const adminToken = randomBytes(24).toString('hex')
      const controlPlaneSecret = randomBytes(24).toString('hex')
      return {
        address: { host: socketDir, port, user, password, tls: undefined },
        postmaster: postmasterOf(engine.clusterDir),
        adminToken,
        controlPlaneSecret,
        env: {
          DATABASE_URL: `postgres://${user}:${password}@${encodeURIComponent(socketDir)}:${port}/plinth`,
          CONTROL_PLANE_SECRET: controlPlaneSecret,
          PLATFORM_ADMIN_TOKEN: adminToken,
        },
      }
    },

    async server(script, env, nodeOptions = []) {
      const { PATH = '', HOME = '' } = process.env
      const child = spawn(process.execPath, [...nodeOptions, script], {
        cwd: root,
        env: {
          PATH,
          HOME,
          NODE_COMPILE_CACHE: join(root, 'compiled'),
          PLATFORM_PORT: '0',
          PLATFORM_DISK_RESERVE_MB: '0',
          ...env,
        },
        // stdout has the log, which is discarded.
        stdio: ['ignore', 'ignore', 'pipe'],
      })
      const stop = () => stopProcess(child)
      cleanups.push(stop)
      return { pid: child.pid!, url: await readUrl(child), stop }
    },
  }

  try {
    await work(stage)
  } finally {
    await cleanUp()
    process.off('SIGINT', onSignal)
    process.off('SIGTERM', onSignal)
  }
}

let platforms = 0

/** Starts the platform as in production, on an engine of the stage or on its own one in `dataDir`. */
export function startMain(
  stage: Stage,
  env: Record<string, string>,
  dataDir = stage.dataDir(`platform-${platforms++}`),
  nodeOptions: string[] = [],
): Promise<StagedServer> {
  return stage.server(mainFile, { PLATFORM_DATA_DIR: dataDir, ...env }, [...serverOptions, ...nodeOptions])
}

/** The superuser connection to the engine in a platform's data directory. */
export function engineIn(dataDir: string): {
  address: ServerAddress
  postmaster: number
  adminToken: string
  controlPlaneSecret: string
} {
  const { clusterDir, socketDir } = locate(dataDir)
  const secrets = JSON.parse(readFileSync(join(dataDir, 'secrets.json'), 'utf8')) as Record<string, string>
  return {
    address: {
      host: socketDir,
      port: rememberedPort(dataDir)!,
      user: 'postgres',
      password: secrets['POSTGRES_PASSWORD']!,
      tls: undefined,
    },
    postmaster: postmasterOf(clusterDir),
    adminToken: secrets['PLATFORM_ADMIN_TOKEN']!,
    controlPlaneSecret: secrets['CONTROL_PLANE_SECRET']!,
  }
}

const postmasterOf = (clusterDir: string) =>
  Number.parseInt(readFileSync(join(clusterDir, 'postmaster.pid'), 'utf8'), 10)

export const projectsAt = (baseUrl: string, token: string) => client(projectsApi, { baseUrl, token })

/** The random database name of a project. */
export async function refOf(address: ServerAddress, projectId: string): Promise<string> {
  const row = await withClient(address, 'plinth', guardedSettings, session =>
    session.row<{ ref: string }>(sql`select ref from public.projects where id = ${projectId}`),
  )
  return row!.ref
}

/** Opens a superuser connection for the work, for DDL and for inspecting the server. */
export const asSuperuser = <T>(
  address: ServerAddress,
  work: (session: {
    script(text: string): Promise<void>
    rows<R>(statement: SqlFragment): Promise<R[]>
  }) => Promise<T>,
): Promise<T> => withClient(address, 'postgres', guardedSettings, work)

async function readUrl(child: ChildProcess): Promise<string> {
  let output = ''
  child.stderr!.setEncoding('utf8')
  const found = new Promise<string>((resolve, reject) => {
    child.stderr!.on('data', (text: string) => {
      output = (output + text).slice(-10_000)
      const url = /running at (http:\/\/\S+)/.exec(output)?.[1]
      if (url) resolve(url)
    })
    child.once('exit', code => reject(new Error(`a server ended with ${code} while starting:\n${output}`)))
    setTimeout(() => reject(new Error(`a server did not start:\n${output}`)), startTimeoutMs).unref()
  })
  return found
}

async function stopProcess(child: ChildProcess): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return
  const exited = once(child, 'exit')
  child.kill('SIGTERM')
  const kill = setTimeout(() => child.kill('SIGKILL'), stopTimeoutMs)
  await exited
  clearTimeout(kill)
}

/** A platform that was killed leaves its Postgres running. */
async function stopOrphan(dataDir: string): Promise<void> {
  const { clusterDir } = engineFiles(dataDir)
  if (!existsSync(join(clusterDir, 'postmaster.pid'))) return
  const pid = postmasterOf(clusterDir)
  if (!existsSync(`/proc/${pid}`)) return
  process.kill(pid, 'SIGQUIT')
  for (let tries = 0; tries < 100 && existsSync(`/proc/${pid}`); tries++) await sleep(50)
}

const logError = (fields: object, message: string) =>
  void process.stderr.write(`${message} ${JSON.stringify(fields)}\n`)
