// Tells which projects have changed, on any node, by polling the control database on one connection. NOTIFY would do the
// same until a project fills the notification queue of the server: then no transaction that notifies can commit.
import type { Log } from '#src/kernel/log.ts'
import { openSession, type Session } from '#src/kernel/postgres/database.ts'
import type { ServerAddress } from '#src/kernel/postgres/server-address.ts'
import { sql } from '#src/kernel/postgres/sql.ts'

export interface ProjectChanges {
  /** Whether every change committed up to a moment ago has been reported. */
  isCurrent(): boolean
  close(): Promise<void>
}

const pollMs = 250
/** A poll that takes longer will not be answered; another connection is tried. */
const pollTimeoutMs = 5000
const currentMs = 1000

/**
 * Changes that the given snapshot could not see yet, and that the current one does: a transaction that commits late is
 * found although others with higher ids have been found before it. The upper bound leaves out ids of another server, as
 * a restored dump has them.
 */
const changesSince = (snapshot: string) => sql`
  select pg_current_snapshot()::text as snapshot, coalesce(array_agg(id::text) filter (where id is not null), '{}') as ids
    from (select) one left join public.projects
      on changed >= pg_snapshot_xmin(${snapshot}::pg_snapshot)
     and changed < pg_snapshot_xmax(pg_current_snapshot())
     and not pg_visible_in_snapshot(changed, ${snapshot}::pg_snapshot)`
const currentSnapshot = sql`select pg_current_snapshot()::text as snapshot`

/** After a connection was lost, `gap` is called: a server that came back may have lost commits, or be another one. */
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
    try {
      if (open) await poll(open)
      else await connect()
      hasFailed = false
    } catch (error) {
      if (!hasFailed && !isClosed) log.warn({ err: error }, 'cannot look for project changes; trying again')
      hasFailed = true
      disconnect()
    }
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
    async close() {
      isClosed = true
      clearTimeout(timer)
      disconnect()
      await polling
    },
  }
}
