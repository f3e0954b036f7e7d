import { spawnSync } from 'node:child_process'
import { readdirSync, readFileSync, readlinkSync, rmSync } from 'node:fs'
import { basename, join } from 'node:path'
import { isNumberTaken } from '#src/kernel/running-process.ts'
import { endPostgres } from './process.ts'

/**
 * Ends what a killed Node left running, and removes what a killed Postgres left lying where that would keep it from
 * starting: lock files naming a process that is alive by coincidence. True when there was an orphan to end.
 */
export async function clearLeftovers(clusterDir: string, socketDir: string): Promise<boolean> {
  const pidFile = join(clusterDir, 'postmaster.pid')
  const pid = pidIn(pidFile)
  const isOrphaned = pid !== undefined && isPostgresOf(clusterDir, pid)
  if (isOrphaned) {
    // A zombie counts as gone: it has no executable any more, and in a container nobody may ever reap it.
    const isGone = () => !isPostgresOf(clusterDir, pid)
    await endPostgres(pid, name => sendSignal(pid, name), isGone, 5000)
  } // Postgres refuses to start while the number in the file is taken, be it by a zombie or an unrelated process.
  // A file whose number is free stays: Postgres finds the old shared memory by it and waits for backends that still
  // use it. (Without the file it looks for that memory by the directory's inode.)
  else if (pid === undefined || isNumberTaken(pid)) rmSync(pidFile, { force: true })
  // The directory is this cluster's alone.
  for (const name of readdirSync(socketDir)) {
    if (name.startsWith('.s.PGSQL.')) rmSync(join(socketDir, name), { force: true })
  }
  return isOrphaned
}

/**
 * Backends whose postmaster was killed end by themselves the next time they wait for something, which a busy query
 * does not. Until then they hold the shared memory and nothing can start. SIGQUIT ends them at once; the memory
 * they share is lost already.
 */
export function endLingeringBackends(clusterDir: string): void {
  if (process.platform !== 'linux') return
  for (const name of readdirSync('/proc')) {
    const pid = Number(name)
    if (pid > 0 && isPostgresOf(clusterDir, pid)) sendSignal(pid, 'SIGQUIT')
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

/** Every process of a cluster works in its data directory, which also holds when that was renamed meanwhile. */
function isPostgresOf(clusterDir: string, pid: number): boolean {
  if (process.platform !== 'linux') {
    const { stdout } = spawnSync('ps', ['-o', 'command=', '-p', String(pid)], { encoding: 'utf8' })
    return /\/postgres\b/.test(stdout ?? '') && (stdout ?? '').includes(`-D ${clusterDir} `)
  }
  try {
    // An executable that npm has replaced since reads `postgres (deleted)`.
    const isPostgres = /^postgres( \(deleted\))?$/.test(basename(readlinkSync(`/proc/${pid}/exe`)))
    return isPostgres && readlinkSync(`/proc/${pid}/cwd`) === clusterDir
  } catch {
    return false // gone, or another user's, who could not run this cluster
  }
}

function sendSignal(pid: number, name: NodeJS.Signals): void {
  try {
    process.kill(pid, name)
  } catch {
    // It ended in between.
  }
}
