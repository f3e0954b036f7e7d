// A Postgres of its own with an archive for recovery to a time, in temporary directories.
import { type ChildProcess, spawn } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { chmodSync, mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { after, afterEach } from 'node:test'
import { fileURLToPath } from 'node:url'
import pg from 'pg'
import { openDirectoryPieces } from '#src/kernel/objects/filesystem.ts'
import { locate, type Place } from '#src/kernel/postgres/engine/place.ts'
import type { ArchiveStore } from '#src/kernel/postgres/recovery/archive-layout.ts'
import { planRecovery, readCatalogue } from '#src/kernel/postgres/recovery/catalogue.ts'
import { type RecoveredServer, recoverAside } from '#src/kernel/postgres/recovery/recovery.ts'
import {
  readSystemId,
  startWalArchive,
  type WalArchive,
  type WalGap,
} from '#src/kernel/postgres/recovery/wal-archive.ts'
import type { ServerAddress } from '#src/kernel/postgres/server-address.ts'
import { type OwnServer, startOwnServer } from './own-server.ts'

/** What `recovery-process.ts` does. */
type Work = { kind: 'receive' | 'base backup' } | { kind: 'recover'; databases: string[]; target: string }

export interface ArchivedServer {
  server: OwnServer
  store: ArchiveStore
  /** The directory of the pieces. */
  piecesDir: string
  place: Place
  gaps: WalGap[]
  /** Starts a receiver in this process. */
  receive(options?: { storesTail: boolean }): WalArchive
  /** Runs statements one by one, and returns the rows of the last. */
  query(text: string, database?: string): Promise<any[]>
  /** Runs the work in a process that tests kill. Resolves when it runs. */
  inProcess(work: Work): Promise<ChildProcess>
  /** Recovers databases to a time. */
  recover(databases: string[], target: string): Promise<RecoveredServer>
}

const silent = { info() {}, warn() {}, error() {} }

/** Registers the hooks of a test file. */
export function archivedServers() {
  const root = mkdtempSync(join(tmpdir(), 'plinth-recovery-'))
  chmodSync(root, 0o755)
  const servers: OwnServer[] = []
  const archives: WalArchive[] = []
  const children: ChildProcess[] = []
  const recovered: RecoveredServer[] = []

  afterEach(async () => {
    for (const child of children.splice(0)) child.kill('SIGKILL')
    for (const each of [...recovered.splice(0), ...archives.splice(0), ...servers.splice(0)])
      await each.stop()
  })
  after(() => rmSync(root, { recursive: true, force: true }))

  async function start(settings: Record<string, string> = {}): Promise<ArchivedServer> {
    const server = await startOwnServer({ full_page_writes: 'on', ...settings })
    servers.push(server)
    const archiveDir = mkdtempSync(join(root, 'archive-'))
    const piecesDir = join(archiveDir, 'pieces')
    const store: ArchiveStore = {
      pieces: await openDirectoryPieces(piecesDir, { isDurable: false }),
      dataKey: randomBytes(32),
      systemId: await readSystemId(server.address),
      spoolDir: join(archiveDir, 'spool'),
    }
    const place = locate(dirname(server.clusterDir))
    const gaps: WalGap[] = []
    return {
      server,
      store,
      piecesDir,
      place,
      gaps,
      receive(options) {
        const archive = startWalArchive({
          address: server.address,
          store,
          log: silent,
          onGap: gap => gaps.push(gap),
          ...options,
        })
        archives.push(archive)
        return archive
      },
      async inProcess(work) {
        const program = fileURLToPath(new URL('recovery-process.ts', import.meta.url))
        const { dataKey, systemId, spoolDir } = store
        const given = { address: server.address, systemId, piecesDir, spoolDir, place, work }
        const argument = JSON.stringify({ ...given, dataKey: dataKey.toString('hex') })
        const child = spawn(process.execPath, [program, argument], { stdio: ['ignore', 'pipe', 'inherit'] })
        children.push(child)
        await once(child, 'spawn')
        return child
      },
      query: (text, database) => query(server.address, text, database),
      async recover(databases, target) {
        const plan = planRecovery(await readCatalogue(store), target)
        const { password } = server.address
        const made = await recoverAside({ place, store, plan, databases, password })
        recovered.push(made)
        return made
      },
    }
  }
  return { start, root }
}

export async function query(address: ServerAddress, text: string, database = 'postgres'): Promise<any[]> {
  const { host, port, user, password } = address
  const client = new pg.Client({ host, port, user, password, database })
  client.on('error', () => {})
  await client.connect()
  try {
    let rows: any[] = []
    for (const statement of text.split(';')) if (statement.trim()) rows = (await client.query(statement)).rows
    return rows
  } finally {
    await client.end()
  }
}

/** The commit time of the transaction that wrote a row, with microseconds. */
export const commitTimes = `select n, to_char(pg_xact_commit_timestamp(xmin) at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"') as at from numbers order by n`

/** Ends the process with SIGKILL, and waits until it has ended. */
export async function sigkill(child: ChildProcess): Promise<void> {
  const ended = once(child, 'close')
  child.kill('SIGKILL')
  await ended
}
