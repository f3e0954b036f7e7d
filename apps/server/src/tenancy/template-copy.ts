// Copies a project database as a whole with CREATE DATABASE … TEMPLATE. Postgres allows that only while no session is in the
// database, so the requests of the project are held meanwhile, for a quarter of a second at most. If that is not long enough
// or other sessions are there, nothing is copied, and the caller chooses another way.
import { constants } from 'node:fs'
import { copyFile, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { type Session, withClient } from '#src/kernel/postgres/database.ts'
import { sqlState } from '#src/kernel/postgres/database-error.ts'
import { identifier, sql } from '#src/kernel/postgres/sql.ts'
import { type Cluster, controlSettings } from './cluster.ts'
import type { HeldProject, RequestHolds } from './request-holds.ts'

/** `clone` shares blocks on disk until one of the databases changes them. */
export type CopyStrategy = 'clone' | 'file_copy' | 'wal_log'

export type TemplateCopied =
  | { strategy: CopyStrategy; heldMs: number }
  /** Why nothing was copied, as a sentence. */
  | { refused: string }

export interface TemplateCopies {
  /** The copy allows no connection. */
  copy(project: HeldProject, to: string, signal: AbortSignal): Promise<TemplateCopied>
  /** Whether `clone` is possible. */
  sharesBlocks(): Promise<boolean>
}

export const usualHoldMs = 250
const pollMs = 3
/** A slow moment of the server passes. Between two attempts, waiting requests run. */
const attempts = 3
const pauseMs = 250
const mb = 1024 * 1024
/** Of a busy machine with ordinary disks. A copy that takes longer is given up. */
const estimates: Record<CopyStrategy, { baseMs: number; mbPerSecond: number; checkpoints: number }> = {
  clone: { baseMs: 40, mbPerSecond: 8000, checkpoints: 2 },
  file_copy: { baseMs: 40, mbPerSecond: 400, checkpoints: 2 },
  wal_log: { baseMs: 40, mbPerSecond: 200, checkpoints: 0 },
}
const clauses: Record<CopyStrategy, string> = {
  clone: 'file_copy',
  file_copy: 'file_copy',
  wal_log: 'wal_log',
}
const firstWithClone = 180000
const queryCanceled = '57014'
const objectInUse = '55006'

export interface TemplateCopyOptions {
  /** Of a Postgres on this machine. */
  clusterDir: string | undefined
  /** Whether WAL is archived. A recovery would copy files again, and may not have those of the parent. */
  isArchived: boolean
  /** The longest time for which requests are held. */
  longestHoldMs: number | undefined
}

export function createTemplateCopies(
  cluster: Cluster,
  holds: RequestHolds,
  { clusterDir, isArchived, longestHoldMs = usualHoldMs }: TemplateCopyOptions,
): TemplateCopies {
  let cloning: Promise<boolean> | undefined

  async function canClone(version: number): Promise<boolean> {
    if (isArchived || version < firstWithClone || clusterDir === undefined) return false
    cloning ??= canShareBlocks(clusterDir)
    return cloning
  }

  /** Null if no strategy is fast enough. */
  async function choose(
    session: Session,
    ref: string,
  ): Promise<{ strategy: CopyStrategy; ms: number } | null> {
    const { bytes, version } = (await session.row<{ bytes: string; version: number }>(sql`
      select pg_database_size(${ref}) as bytes, current_setting('server_version_num')::int as version`))!
    const possible: CopyStrategy[] = isArchived ? ['wal_log'] : ['file_copy', 'wal_log']
    const strategies = possible.filter(each => Number(bytes) < largest(each, longestHoldMs))
    if (await canClone(version)) strategies.push('clone')
    if (strategies.length === 0) return null
    const checkpointMs = await measureCheckpoint(session)
    const estimated = strategies.map(strategy => ({
      strategy,
      ms: estimateMs(strategy, Number(bytes), checkpointMs),
    }))
    const best = estimated.reduce((a, b) => (b.ms < a.ms ? b : a))
    return best.ms < longestHoldMs ? best : null
  }

  async function copyHeld(
    session: Session,
    project: HeldProject,
    to: string,
    chosen: { strategy: CopyStrategy; ms: number },
    signal: AbortSignal,
  ): Promise<TemplateCopied> {
    const hold = holds.hold(project)
    if (!hold) return { refused: 'another copy is being made' }
    const startedAt = performance.now()
    const heldMs = () => performance.now() - startedAt
    try {
      while (!(hold.drain() && (await isEmpty(session, project.ref)))) {
        signal.throwIfAborted()
        if (heldMs() > longestHoldMs - chosen.ms) return { refused: 'sessions of the project do not end' }
        await sleep(pollMs)
      }
      await session.script(`set statement_timeout = ${Math.max(1, Math.floor(longestHoldMs - heldMs()))}`)
      await session.script(
        `create database ${identifier(to)} template ${identifier(project.ref)}
           strategy ${clauses[chosen.strategy]} connection limit 0`,
      )
      return { strategy: chosen.strategy, heldMs: heldMs() }
    } catch (error) {
      const code = sqlState(error)
      if (code === queryCanceled) return { refused: 'the copy takes too long' }
      if (code === objectInUse) return { refused: 'other sessions are in the database' }
      throw error
    } finally {
      hold.release()
    }
  }

  async function attemptCopy(
    session: Session,
    project: HeldProject,
    to: string,
    signal: AbortSignal,
  ): Promise<TemplateCopied> {
    await session.script('reset statement_timeout')
    const chosen = await choose(session, project.ref)
    if (!chosen) return { refused: 'the copy would take too long' }
    if (chosen.strategy === 'clone') await session.script("set file_copy_method = 'clone'")
    return copyHeld(session, project, to, chosen, signal)
  }

  return {
    sharesBlocks: () =>
      withClient(cluster.address, cluster.control, controlSettings, async session => {
        const server = await session.row<{ version: number }>(
          sql`select current_setting('server_version_num')::int as version`,
        )
        return canClone(server!.version)
      }),
    copy: (project, to, signal) =>
      withClient(
        cluster.address,
        cluster.control,
        controlSettings,
        async session => {
          if (await hasOtherSessions(session, project.ref))
            return { refused: 'sessions besides those of the platform are in the database' }
          for (let attempt = 1; ; attempt++) {
            const copied = await attemptCopy(session, project, to, signal)
            if (!('refused' in copied) || attempt === attempts) return copied
            await sleep(pauseMs, undefined, { signal })
          }
        },
        { signal },
      ),
  }
}

const estimateMs = (strategy: CopyStrategy, bytes: number, checkpointMs: number) => {
  const { baseMs, mbPerSecond, checkpoints } = estimates[strategy]
  return baseMs + checkpoints * checkpointMs + (bytes / mb / mbPerSecond) * 1000
}

/** Above this size even a server that writes nothing else would need longer. */
const largest = (strategy: CopyStrategy, holdMs: number) =>
  ((holdMs - estimates[strategy].baseMs) / 1000) * estimates[strategy].mbPerSecond * mb

/** The first one writes what has changed, so that the checkpoints of the copy have little left. */
async function measureCheckpoint(session: Session): Promise<number> {
  await session.script('checkpoint')
  const startedAt = performance.now()
  await session.script('checkpoint')
  return performance.now() - startedAt
}

/** Sessions of people and programs, which the platform cannot hold. */
const hasOtherSessions = async (session: Session, database: string) =>
  (await session.row(sql`
    select from pg_stat_activity
     where datname = ${database} and backend_type = 'client backend' and application_name <> 'plinth' limit 1`)) !==
  undefined

const isEmpty = async (session: Session, database: string) =>
  (await session.row(
    sql`select from pg_stat_activity where datname = ${database} and backend_type = 'client backend' limit 1`,
  )) === undefined

/** Whether files of the cluster can share blocks, as with XFS, btrfs and APFS. */
async function canShareBlocks(clusterDir: string): Promise<boolean> {
  const names = ['a', 'b'].map(name => join(clusterDir, `plinth-clone-${process.pid}-${name}`))
  try {
    await writeFile(names[0]!, Buffer.alloc(8192))
    await copyFile(names[0]!, names[1]!, constants.COPYFILE_FICLONE_FORCE)
    return true
  } catch {
    return false
  } finally {
    await Promise.all(names.map(name => rm(name, { force: true }).catch(() => {})))
  }
}
