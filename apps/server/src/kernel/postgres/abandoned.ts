// Backends that the platform has let go of while they were at work, because the server could not interrupt them. Each
// goes on taking a place of its project until it has ended: repeated calls cannot pile up more of them than that. On this
// machine it also gets less of the CPU than everybody else.
import { constants, setPriority } from 'node:os'
import type { Log } from '#src/kernel/log.ts'
import type { Session } from './database.ts'
import { sql } from './sql.ts'

export interface Abandoned {
  /** Counts the backend in its group until it has ended. */
  add(group: string, backend: Backend, onGone?: () => void): void
  count(group: string): number
  /** What an operator should know, as sentences. */
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

const lookMs = 1000

export function watchAbandoned(control: Pick<Session, 'rows'>, log: Log, isOnThisMachine = false): Abandoned {
  const entries = new Set<Entry>()
  const counts = new Map<string, number>()
  let timer: NodeJS.Timeout | undefined
  let isLooking = false
  let isClosed = false

  function remove(entry: Entry): void {
    entries.delete(entry)
    const left = counts.get(entry.group)! - 1
    if (left > 0) counts.set(entry.group, left)
    else counts.delete(entry.group)
    entry.onGone?.()
  }

  /** Asks each to end, again and again: it obeys as soon as it can be interrupted. Those that are not there are gone. */
  async function look(): Promise<void> {
    if (isLooking || isClosed) return
    isLooking = true
    clearTimeout(timer)
    const asked = [...entries]
    try {
      const left = await findAndEnd(control, asked)
      for (const entry of asked) if (!left.has(entry)) remove(entry)
    } catch (error) {
      log.debug({ err: error }, 'abandoned database sessions could not be looked for')
    }
    isLooking = false
    if (entries.size > 0 && !isClosed) timer = setTimeout(() => void look(), lookMs).unref()
  }

  return {
    add(group, { processId, database }, onGone) {
      entries.add({ group, processId, database, onGone, since: performance.now() })
      counts.set(group, (counts.get(group) ?? 0) + 1)
      log.warn({ database, backend: processId }, 'gave up a database session that does not end its statement')
      if (isOnThisMachine) lowerPriority(processId)
      void look()
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

/** It may have ended by now, or run as a user whose processes are not ours to change. */
function lowerPriority(processId: number): void {
  try {
    setPriority(processId, constants.priority.PRIORITY_BELOW_NORMAL)
  } catch {}
}

/** A process id may be given to another backend later, which would have started after this one was given up. */
async function findAndEnd(
  control: Pick<Session, 'rows'>,
  asked: readonly Entry[],
): Promise<ReadonlySet<Entry>> {
  const now = performance.now()
  const found = await control.rows<{ at: string }>(sql`
    select given.at, pg_terminate_backend(a.pid)
      from unnest(${asked.map(({ processId }) => processId)}::int[], ${asked.map(({ database }) => database)}::text[],
                  ${asked.map(({ since }) => (now - since) / 1000)}::float8[]) with ordinality
             as given(pid, database, age, at)
      join pg_stat_activity a on a.pid = given.pid and a.datname = given.database
       and a.backend_start <= clock_timestamp() - make_interval(secs => given.age)`)
  return new Set(found.map(({ at }) => asked[Number(at) - 1]!))
}
