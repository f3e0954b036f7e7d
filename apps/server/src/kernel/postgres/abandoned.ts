// Backends whose connections the platform closed while they ran a statement that Postgres cannot interrupt. Each counts
// against the connection limit of its project until it has ended, so that repeated calls cannot accumulate them. If
// Postgres runs on this machine, the backend also gets a lower CPU priority.
import { constants, setPriority } from 'node:os'
import type { Log } from '#src/kernel/log.ts'
import type { Session } from './database.ts'
import { sql } from './sql.ts'

export interface Abandoned {
  /** Counts the backend in its group until it has ended. */
  add(group: string, backend: Backend, onGone?: () => void): void
  count(group: string): number
  /** Sentences for the operator. */
  warnings(): readonly string[]
  close(): void
}

export interface Backend {
  processId: number
  database: string
}

interface Entry extends Backend {
  group: string
  since: number
  onGone: (() => void) | undefined
}

const checkMs = 1000

export function watchAbandoned(control: Pick<Session, 'rows'>, log: Log, isOnThisMachine = false): Abandoned {
  const entries = new Set<Entry>()
  const counts = new Map<string, number>()
  let timer: NodeJS.Timeout | undefined
  let isChecking = false
  let isClosed = false

  function remove(entry: Entry): void {
    entries.delete(entry)
    const left = counts.get(entry.group)! - 1
    if (left > 0) counts.set(entry.group, left)
    else counts.delete(entry.group)
    entry.onGone?.()
  }

  /** Terminates the backends again, until they react. Those that are not found have ended. */
  async function check(): Promise<void> {
    if (isChecking || isClosed) return
    isChecking = true
    clearTimeout(timer)
    const checked = [...entries]
    try {
      const left = await findAndTerminate(control, checked)
      for (const entry of checked) if (!left.has(entry)) remove(entry)
    } catch (error) {
      log.debug({ err: error }, 'cannot check abandoned database sessions')
    }
    isChecking = false
    if (entries.size > 0 && !isClosed) timer = setTimeout(() => void check(), checkMs).unref()
  }

  return {
    add(group, { processId, database }, onGone) {
      entries.add({ group, processId, database, onGone, since: performance.now() })
      counts.set(group, (counts.get(group) ?? 0) + 1)
      log.warn(
        { database, backend: processId },
        'abandoned a database session whose statement cannot be interrupted',
      )
      if (isOnThisMachine) lowerPriority(processId)
      void check()
    },
    count: group => counts.get(group) ?? 0,
    warnings() {
      if (entries.size === 0) return []
      const databases = [...new Set([...entries].map(({ database }) => database))]
      const named = databases.slice(0, 5).join(', ') + (databases.length > 5 ? ', …' : '')
      return [
        `${entries.size} database sessions run statements that Postgres cannot interrupt (databases: ${named}). They were given up and end by themselves.`,
      ]
    },
    close() {
      isClosed = true
      clearTimeout(timer)
    },
  }
}

/** Ignores errors: the backend may have ended, or run as a user whose processes we may not change. */
function lowerPriority(processId: number): void {
  try {
    setPriority(processId, constants.priority.PRIORITY_BELOW_NORMAL)
  } catch {}
}

/** Compares `backend_start` as well, because the system may give the process id to a later backend. */
async function findAndTerminate(
  control: Pick<Session, 'rows'>,
  entries: readonly Entry[],
): Promise<ReadonlySet<Entry>> {
  const now = performance.now()
  const found = await control.rows<{ at: string }>(sql`
    select given.at, pg_terminate_backend(a.pid)
      from unnest(${entries.map(({ processId }) => processId)}::int[], ${entries.map(({ database }) => database)}::text[],
                  ${entries.map(({ since }) => (now - since) / 1000)}::float8[]) with ordinality
             as given(pid, database, age, at)
      join pg_stat_activity a on a.pid = given.pid and a.datname = given.database
       and a.backend_start <= clock_timestamp() - make_interval(secs => given.age)`)
  return new Set(found.map(({ at }) => entries[Number(at) - 1]!))
}
