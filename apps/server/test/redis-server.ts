// A separate Redis or Valkey for a test, on a free port and in a temporary directory.
import { type ChildProcess, spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, rmSync } from 'node:fs'
import { createServer } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { parseRedisUrl } from '#src/kernel/redis/address.ts'
import { connectRedis, type RedisConnection } from '#src/kernel/redis/connection.ts'

export interface RedisServer {
  url: string
  pid(): number
  /** Connects as the default user. */
  connect(): Promise<RedisConnection>
  /** Kills the process like a crash. Its data is lost. */
  kill(): Promise<void>
  /** Starts it again on the same port, without data. */
  start(): Promise<void>
  /** SIGSTOP freezes it: it accepts connections and does not respond. */
  signal(signal: 'SIGSTOP' | 'SIGCONT'): void
  stop(): Promise<void>
}

const binaries = ['redis-server', 'valkey-server']
const patienceMs = 120_000

export function redisBinary(): string {
  const found = binaries.find(name => spawnSync(name, ['--version']).status === 0)
  if (found) return found
  throw new Error(
    'This needs a Redis 7 or newer, or Valkey, and neither redis-server nor valkey-server is there. ' +
      'On Debian or Ubuntu: apt-get install redis-server',
  )
}

export async function startRedis(options: readonly string[] = []): Promise<RedisServer> {
  const binary = redisBinary()
  const directory = mkdtempSync(join(tmpdir(), 'plinth-redis-'))
  const port = await freePort()
  const url = `redis://127.0.0.1:${port}`
  let child: ChildProcess

  const connect = () => connectRedis(parseRedisUrl(url))

  async function start(): Promise<void> {
    child = spawn(
      binary,
      ['--port', String(port), '--bind', '127.0.0.1', '--dir', directory, '--save', '', ...options],
      { stdio: 'ignore' },
    )
    const until = performance.now() + patienceMs
    for (;;) {
      if (child.exitCode !== null) throw new Error(`${binary} ended with ${child.exitCode} while starting`)
      const connection = await connect().catch(() => undefined)
      connection?.close()
      if (connection) return
      if (performance.now() > until) throw new Error(`${binary} does not answer on port ${port}`)
      await sleep(20)
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
    url,
    pid: () => child.pid!,
    connect,
    kill,
    start,
    signal: signal => void child.kill(signal),
    async stop() {
      await kill()
      rmSync(directory, { recursive: true, force: true })
    },
  }
}

export async function freePort(): Promise<number> {
  const server = createServer().listen(0, '127.0.0.1')
  await once(server, 'listening')
  const { port } = server.address() as { port: number }
  server.close()
  await once(server, 'close')
  return port
}
