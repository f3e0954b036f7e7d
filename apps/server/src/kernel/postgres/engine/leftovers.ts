import { spawnSync } from 'node:child_process'
import { readdirSync, readFileSync, readlinkSync, rmSync } from 'node:fs'
import { basename, join } from 'node:path'
import { adoptProcess } from '#src/kernel/child-processes/adopt.ts'
import { stopProcess } from '#src/kernel/child-processes/stop.ts'
import { isPidTaken } from '#src/kernel/running-process.ts'
import { postgresStopSteps } from './stop-steps.ts'

const orphanStopMs = 5000

/**
 * Stops the Postgres that a killed Node process left running. Removes the lock file of a killed Postgres if its process id
 * belongs to an unrelated process, because Postgres would refuse to start. True if a Postgres was stopped.
 */
export async function clearLeftovers(clusterDir: string, socketDir: string): Promise<boolean> {
  const pidFile = join(clusterDir, 'postmaster.pid')
  const pid = pidIn(pidFile)
  // A zombie counts as ended: it has no executable, and in a container it may never be reaped.
  const orphan = pid === undefined ? undefined : adoptProcess(pid, isPostgresOf(clusterDir))
  if (orphan) await stopProcess(orphan, postgresStopSteps(orphan.pid, orphanStopMs), 'Postgres')
  // Postgres refuses to start while the id in the file is taken, even by a zombie or an unrelated process. A file whose
  // id is free stays, because Postgres reads the id of the old shared memory from it, and checks whether backends still
  // use that memory. (Without the file it derives the id from the directory's inode.)
  else if (pid === undefined || isPidTaken(pid)) rmSync(pidFile, { force: true })
  // No other cluster uses this directory.
  for (const name of readdirSync(socketDir)) {
    if (name.startsWith('.s.PGSQL.')) rmSync(join(socketDir, name), { force: true })
  }
  return orphan !== undefined
}

/**
 * Backends whose postmaster was killed end the next time they wait for something. A backend that runs a long query does
 * not wait, keeps the shared memory, and so no postmaster can start. SIGQUIT ends it immediately.
 */
export function endLingeringBackends(clusterDir: string): void {
  if (process.platform !== 'linux') return
  for (const name of readdirSync('/proc')) {
    const pid = Number(name)
    if (pid > 0) adoptProcess(pid, isPostgresOf(clusterDir))?.signal('SIGQUIT')
  }
}

function pidIn(pidFile: string): number | undefined {
  try {
    const pid = Number.parseInt(readFileSync(pidFile, 'utf8'), 10)
    return pid > 0 ? pid : undefined
  } catch {
    return undefined
  }
}

/** The working directory of every process of a cluster is its data directory, also when that was renamed. */
const isPostgresOf =
  (clusterDir: string) =>
  (pid: number): boolean => {
    if (process.platform !== 'linux') {
      const { stdout } = spawnSync('ps', ['-o', 'command=', '-p', String(pid)], { encoding: 'utf8' })
      return /\/postgres\b/.test(stdout ?? '') && (stdout ?? '').includes(`-D ${clusterDir} `)
    }
    try {
      // If npm has replaced the executable, the link ends with ` (deleted)`.
      const isPostgres = /^postgres( \(deleted\))?$/.test(basename(readlinkSync(`/proc/${pid}/exe`)))
      return isPostgres && readlinkSync(`/proc/${pid}/cwd`) === clusterDir
    } catch {
      return false // it has ended, or runs as another user, who cannot run this cluster
    }
  }
