// Finds out that a project with webhooks may have new changes. Writes of this node are known at once. For all others it
// asks Postgres, for all projects in one statement, how many rows each database has had inserted; a project is read when
// the number differs. A project that it sees for the first time is read, so changes of a node that died are found.
import { createChore } from '#src/kernel/chores.ts'
import type { Log } from '#src/kernel/log.ts'
import type { Database } from '#src/kernel/postgres/database.ts'
import type { Databases } from '#src/tenancy/databases.ts'
import type { Directory } from '#src/tenancy/directory.ts'
import { countInserted, listWatched } from './store.ts'

interface WatchDeps {
  control: Database
  databases: Pick<Databases, 'onWrite'>
  directory: Pick<Directory, 'onChange'>
  /** Rejects if it must be tried again. */
  relay(projectId: string): Promise<void>
  log: Log
}

export interface ChangeWatch {
  /** Watches the project from now on, if it has webhooks. */
  look(projectId: string): Promise<void>
  close(): Promise<void>
}

interface Watched {
  database: string
  /** The count at the last reading; undefined to read at the next poll. */
  inserted: string | undefined
  /** Failed readings in a row, and when the next one may start. */
  failures: number
  retryAt: number
  /** Set while a reading after a write of this node is planned. */
  timer: NodeJS.Timeout | undefined
  unlisten(): void
}

const pollMs = 100
/** Writes of this node within this time are read together. */
const gatherMs = 10
/** Between two attempts to read a project whose database fails. */
const longestPauseMs = 10_000

export function startChangeWatch({ control, databases, directory, relay, log }: WatchDeps): ChangeWatch {
  const watched = new Map<string, Watched>()
  /** Projects whose webhooks may have changed since they were listed. */
  const changed = new Set<string>()
  let isListed = false

  function read(id: string): void {
    relay(id).then(
      () => {
        const entry = watched.get(id)
        if (entry) entry.failures = 0
      },
      error => {
        const entry = watched.get(id)
        if (!entry) return
        if (entry.failures++ === 0)
          log.warn({ err: error, project: id }, 'could not relay changes to webhooks; will retry')
        entry.retryAt = performance.now() + Math.min(longestPauseMs, pollMs * 2 ** entry.failures)
        entry.inserted = undefined
      },
    )
  }

  function watch(id: string, database: string): void {
    const before = watched.get(id)
    if (before?.database === database) return
    before?.unlisten()
    watched.set(id, {
      database,
      inserted: undefined,
      failures: 0,
      retryAt: 0,
      timer: undefined,
      unlisten: databases.onWrite(id, () => readSoon(id)),
    })
  }

  function readSoon(id: string): void {
    const entry = watched.get(id)
    if (!entry || entry.timer || performance.now() < entry.retryAt) return
    entry.timer = setTimeout(() => {
      entry.timer = undefined
      read(id)
    }, gatherMs).unref()
  }

  function unwatch(id: string): void {
    const entry = watched.get(id)
    clearTimeout(entry?.timer)
    entry?.unlisten()
    watched.delete(id)
  }

  /** Reads again which projects have webhooks: all of them at first, then those that have changed. */
  async function list(): Promise<void> {
    const ids = isListed ? [...changed] : undefined
    if (ids?.length === 0) return
    changed.clear()
    const found = await listWatched(control, ids).catch(error => {
      for (const id of ids ?? []) changed.add(id)
      throw error
    })
    isListed = true
    const foundIds = new Set(found.map(({ id }) => id))
    for (const id of ids ?? watched.keys()) if (!foundIds.has(id)) unwatch(id)
    for (const { id, database } of found) watch(id, database)
  }

  async function poll(): Promise<unknown> {
    await list()
    if (watched.size === 0) return changed.size === 0 && 'idle'
    const counts = await countInserted(
      control,
      [...watched.values()].map(({ database }) => database),
    )
    const byDatabase = new Map(counts.map(({ database, inserted }) => [database, inserted]))
    for (const [id, entry] of watched) {
      const inserted = byDatabase.get(entry.database)
      if (inserted === entry.inserted || performance.now() < entry.retryAt) continue
      entry.inserted = inserted
      read(id)
    }
    return
  }

  const polling = createChore(
    { name: 'webhooks: look for changes', everyMs: pollMs, runsAtStart: true, run: poll },
    log,
  )
  polling.start()
  directory.onChange(id => {
    changed.add(id)
    polling.start()
  })

  return {
    async look(projectId) {
      changed.add(projectId)
      await list()
      polling.start()
    },
    async close() {
      await polling.stop()
      for (const id of [...watched.keys()]) unwatch(id)
    },
  }
}
