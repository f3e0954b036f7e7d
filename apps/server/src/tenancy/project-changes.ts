// Reports changed projects of any node, by polling the control database on one connection. NOTIFY is not used, because a
// project can fill the notification queue of the server, and then no transaction that notifies can commit.
import type { Log } from '#src/kernel/log.ts'
import { openSession, type Session } from '#src/kernel/postgres/database.ts'
import type { ServerAddress } from '#src/kernel/postgres/server-address.ts'
import { sql } from '#src/kernel/postgres/sql.ts'

export interface ProjectChanges {
  /** Whether all changes up to the last poll interval have been reported. */
  isCurrent(): boolean
  /** Resolves at the end of the next poll to start, also if it fails. */
  nextPoll(): Promise<void>
  close(): Promise<void>
}

const pollMs = 250
/** Timeout of a poll. After it, a new connection is opened. */
const pollTimeoutMs = 5000
const currentMs = 1000

/**
 * Changes that are visible now but were not in the given snapshot. So a late commit is found, although higher ids were found
 * before it. The upper bound excludes ids of another server, which a restored dump contains.
 */
const changesSince = (snapshot: string) => sql`
  select pg_current_snapshot()::text as snapshot, coalesce(array_agg(id::text) filter (where id is not null), '{}') as ids
    from (select) one left join public.projects
      on changed >= pg_snapshot_xmin(${snapshot}::pg_snapshot)
     and changed < pg_snapshot_xmax(pg_current_snapshot())
     and not pg_visible_in_snapshot(changed, ${snapshot}::pg_snapshot)`
const currentSnapshot = sql`select pg_current_snapshot()::text as snapshot`

/** `gap` is called after a lost connection, because the server may have lost commits or may be another one. */
export async function followProjects(
  server: { address: ServerAddress; control: string },
  on: { change(id: string): void; gap(): void },
  log: Log,
): Promise<ProjectChanges> {
  let open: { session: Session; close(): Promise<void> } | undefined
  let snapshot = ''
  let polledAt = Number.NEGATIVE_INFINITY
  let isClosed = false
  let hasFailed = false
  let timer: NodeJS.Timeout | undefined
  let waiting: (() => void)[] = []

  async function connect(): Promise<void> {
    const startedAt = performance.now()
    open = await openSession(server.address, server.control, { timeoutMs: pollTimeoutMs })
    snapshot = (await open.session.row<{ snapshot: string }>(currentSnapshot))!.snapshot
    polledAt = startedAt
    on.gap()
  }

  async function poll({ session }: { session: Session }): Promise<void> {
    const startedAt = performance.now()
    const [found] = await session.repeatRows<{ snapshot: string; ids: string[] }>(changesSince(snapshot))
    snapshot = found!.snapshot
    polledAt = startedAt
    for (const id of found!.ids) on.change(id)
  }

  async function pollAgain(): Promise<void> {
    const waited = waiting
    waiting = []
    try {
      if (open) await poll(open)
      else await connect()
      hasFailed = false
    } catch (error) {
      if (!hasFailed && !isClosed) log.warn({ err: error }, 'polling for project changes failed; will retry')
      hasFailed = true
      disconnect()
    }
    for (const resolve of waited) resolve()
    if (isClosed) disconnect()
    else
      timer = setTimeout(() => {
        polling = pollAgain()
      }, pollMs).unref()
  }

  function disconnect(): void {
    void open?.close().catch(() => {})
    open = undefined
  }

  let polling = pollAgain()
  await polling
  return {
    isCurrent: () => performance.now() - polledAt <= currentMs,
    nextPoll: () => (isClosed ? Promise.resolve() : new Promise(resolve => waiting.push(resolve))),
    async close() {
      isClosed = true
      clearTimeout(timer)
      for (const resolve of waiting) resolve()
      disconnect()
      await polling
    },
  }
}
