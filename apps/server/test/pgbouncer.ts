// A separate PgBouncer for a test, on a free port and in a temporary directory, with the configuration of docs/pooler.md.
import { type ChildProcess, spawn, spawnSync } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { once } from 'node:events'
import {
  chmodSync,
  chownSync,
  globSync,
  mkdtempSync,
  readFileSync,
  realpathSync,
  rmSync,
  writeFileSync,
} from 'node:fs'
import { connect } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { databaseUser } from '#src/kernel/postgres/engine/os-user.ts'
import { freePort } from './redis-server.ts'

export interface PgBouncer {
  /** With the admin user, as for PLATFORM_POOLER_URL. */
  url: string
  port: number
  admin: { user: string; password: string }
  /** The path of its auth_file. */
  userList: string
  /** Temporary files that were left beside the user list. */
  leftovers(): string[]
  log(): string
  signal(signal: 'SIGHUP' | 'SIGSTOP' | 'SIGCONT'): void
  kill(): Promise<void>
  start(): Promise<void>
  stop(): Promise<void>
}

export const poolSize = 4
const patienceMs = 120_000
const documentation = new URL('../../../docs/pooler.md', import.meta.url)

export function checkPgBouncer(): void {
  if (spawnSync('pgbouncer', ['--version']).status === 0) return
  throw new Error('This needs PgBouncer 1.18 or newer. On Debian or Ubuntu: apt-get install pgbouncer')
}

/** In front of the Postgres at 127.0.0.1 and this port. */
export async function startPgBouncer(postgresPort: number): Promise<PgBouncer> {
  checkPgBouncer()
  const directory = realpathSync(mkdtempSync(join(tmpdir(), 'plinth-pgbouncer-')))
  const [ini, userList, logFile] = ['pgbouncer.ini', 'userlist.txt', 'log'].map(name => join(directory, name))
  const port = await freePort()
  const admin = { user: 'plinth', password: randomBytes(16).toString('hex') }
  writeFileSync(userList!, '', { mode: 0o600 })
  writeFileSync(ini!, configuration())
  // PgBouncer refuses to run as root.
  const user = process.getuid?.() === 0 ? databaseUser(directory) : undefined
  if (user) for (const path of [directory, userList!]) chownSync(path, user.uid, user.gid)
  chmodSync(directory, 0o755)
  let child: ChildProcess

  function configuration(): string {
    const [, documented] = /^```ini\n(.*?)^```/ms.exec(readFileSync(documentation, 'utf8'))!
    const settings: Record<string, string> = {
      listen_port: String(port),
      auth_file: userList!,
      default_pool_size: String(poolSize),
    }
    return documented!
      .replace('port=5432', `port=${postgresPort}`)
      .replace(/^(\w+) = .*$/gm, (line, name: string) =>
        settings[name] ? `${name} = ${settings[name]}` : line,
      )
      .concat(`logfile = ${logFile}\nunix_socket_dir =\n`)
  }

  async function start(): Promise<void> {
    child = spawn('pgbouncer', [ini!], { stdio: 'ignore', ...(user && { uid: user.uid, gid: user.gid }) })
    for (const end = performance.now() + patienceMs; !(await isListening(port)); await sleep(20)) {
      if (child.exitCode !== null) throw new Error(`pgbouncer ended with ${child.exitCode} while starting`)
      if (performance.now() > end) throw new Error(`pgbouncer does not listen on port ${port}`)
    }
  }

  async function kill(): Promise<void> {
    if (child.exitCode !== null || child.signalCode !== null) return
    const ended = once(child, 'exit')
    child.kill('SIGKILL')
    await ended
  }

  await start()
  return {
    url: `postgres://${admin.user}:${admin.password}@127.0.0.1:${port}`,
    port,
    admin,
    userList: userList!,
    leftovers: () => globSync(`${userList}.*`),
    log: () => readFileSync(logFile!, 'utf8'),
    signal: signal => void child.kill(signal),
    kill,
    start,
    async stop() {
      await kill()
      rmSync(directory, { recursive: true, force: true })
    },
  }
}

async function isListening(port: number): Promise<boolean> {
  const socket = connect(port, '127.0.0.1')
  const isOpen = await once(socket, 'connect').then(
    () => true,
    () => false,
  )
  socket.destroy()
  return isOpen
}
