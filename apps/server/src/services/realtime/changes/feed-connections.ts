// The connection on which a feed reads the changes of its project. No tenant code runs on it, and nothing else uses it, so
// that no other work delays the feed.
import type { Database } from '#src/kernel/postgres/database.ts'
import { DatabaseError } from '#src/kernel/postgres/database-error.ts'
import { Connection } from '#src/kernel/postgres/wire/connection.ts'
import type { Answer, Cell } from '#src/kernel/postgres/wire/unit.ts'
import type { Tenant } from '#src/tenancy/directory.ts'
import type { Logins } from '#src/tenancy/logins.ts'
import type { RequestHolds } from '#src/tenancy/request-holds.ts'
import { sessionSettings } from '#src/tenancy/session-settings.ts'

export interface FeedConnection {
  query(sql: string, values: readonly (string | null)[]): Promise<Cell[][]>
  close(): void
}

export type OpenFeedConnection = (tenant: Tenant, onLost: () => void) => Promise<FeedConnection>

const timeoutMs = 5000
const settings = {
  ...sessionSettings,
  search_path: 'pg_catalog, pg_temp',
  role: 'service_role',
  statement_timeout: `${timeoutMs}ms`,
  lock_timeout: '2s',
}

export function createFeedConnections(
  control: Database,
  logins: Logins,
  holds: RequestHolds,
): OpenFeedConnection {
  const feeds = new Map<string, Set<FeedSession>>()
  holds.add({
    closeIdle: ({ ref }) => [...(feeds.get(ref) ?? [])].map(feed => feed.closeIfIdle()).every(Boolean),
  })

  return async ({ ref }, onLost) => {
    const connect = (lost: () => void) =>
      Connection.open(logins.address(ref, 'svc'), ref, settings, { onIdle() {}, onLost: lost })
    const open = async (lost: () => void) => {
      await logins.check(control, ref, 'svc')
      return connect(lost).catch(async error => {
        if (!(error instanceof DatabaseError)) throw error
        await logins.heal(control, ref, 'svc')
        return connect(lost)
      })
    }
    const feed = new FeedSession(open, onLost)
    await holds.pass(ref, () => feed.connected())
    const ofProject = feeds.get(ref) ?? new Set()
    feeds.set(ref, ofProject.add(feed))
    return {
      query: (sql, values) => holds.pass(ref, () => feed.query(sql, values)),
      close() {
        ofProject.delete(feed)
        if (ofProject.size === 0 && feeds.get(ref) === ofProject) feeds.delete(ref)
        feed.close()
      },
    }
  }
}

/** The session of a feed has no state, so after a hold of the project's requests another connection continues it. */
class FeedSession {
  readonly #open: (onLost: () => void) => Promise<Connection>
  readonly #onLost: () => void
  #connection: Promise<Connection> | undefined
  #current: Connection | undefined
  #isClosed = false

  constructor(open: (onLost: () => void) => Promise<Connection>, onLost: () => void) {
    this.#open = open
    this.#onLost = onLost
  }

  async connected(): Promise<Connection> {
    let opened: Connection | undefined
    // A connection that a hold has closed was not lost.
    this.#connection ??= this.#open(() => opened === this.#current && this.#onLost())
    opened = await this.#connection
    if (this.#isClosed) opened.close()
    this.#current = opened
    return opened
  }

  async query(sql: string, values: readonly (string | null)[]): Promise<Cell[][]> {
    const connection = await this.connected()
    const { rows } = await new Promise<Answer>((resolve, reject) =>
      connection.send({
        steps: [{ key: sql, sql, values }],
        answering: 0,
        isLone: false,
        timeoutMs,
        resolve,
        reject,
      }),
    )
    return rows
  }

  /** True if there is no connection. */
  closeIfIdle(): boolean {
    if (this.#connection && (!this.#current || this.#current.inFlight > 0)) return false
    const idle = this.#current
    this.#connection = undefined
    this.#current = undefined
    idle?.close()
    return true
  }

  close(): void {
    this.#isClosed = true
    this.#current?.close()
  }
}
