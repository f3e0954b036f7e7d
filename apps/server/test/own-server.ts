// A separate Postgres for tests that would disturb others on the shared one: statements that cannot be interrupted, a full
// lock table, a full notification queue.
import { randomBytes } from 'node:crypto'
import { chmodSync, mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { engineFiles, type Place } from '#src/kernel/postgres/engine/place.ts'
import { startEngine } from '#src/kernel/postgres/engine/start.ts'
import type { ServerAddress } from '#src/kernel/postgres/server-address.ts'
import { isRunning } from '#src/kernel/running-process.ts'

export interface OwnServer {
  address: ServerAddress
  clusterDir: string
  place: Place
  /** Ends all sessions like a crash. The server restarts by itself. */
  crash(): Promise<void>
  /** kill -9 of the postmaster. The server restarts by itself. */
  kill(): Promise<void>
  stop(): Promise<void>
}

export async function startOwnServer(settings: Record<string, string> = {}): Promise<OwnServer> {
  const dataDir = mkdtempSync(join(tmpdir(), 'plinth-own-server-'))
  // As root the database runs as another user, which needs access to the directory.
  chmodSync(dataDir, 0o711)
  const password = randomBytes(16).toString('hex')
  const engine = await startEngine({
    dataDir,
    superuserPassword: password,
    settings: { fsync: 'off', full_page_writes: 'off', ...settings },
    // Tests may kill it often. Otherwise the pauses would grow.
    restartPausesMs: [200],
    log: { info() {}, warn() {}, error() {} },
  })
  const { socketDir: host, port, user, clusterDir, place } = engine
  async function end(signal: NodeJS.Signals): Promise<void> {
    const pid = Number.parseInt(readFileSync(join(clusterDir, 'postmaster.pid'), 'utf8'), 10)
    process.kill(pid, signal)
    // A server that is still shutting down may answer, which would look like the restarted one.
    while (isRunning({ pid })) await sleep(10)
  }
  return {
    address: { host, port, user, password, tls: undefined },
    clusterDir,
    place,
    crash: () => end('SIGQUIT'),
    kill: () => end('SIGKILL'),
    async stop() {
      await engine.stop()
      for (const path of [...engineFiles(dataDir).remove, dataDir])
        rmSync(path, { recursive: true, force: true })
    },
  }
}
