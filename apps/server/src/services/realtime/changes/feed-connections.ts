// The connection on which a feed reads the changes of its project. No tenant code runs on it, and nothing else uses it, so
// that no other work delays the feed.
import type { Database } from '#src/kernel/postgres/database.ts'
import { DatabaseError } from '#src/kernel/postgres/database-error.ts'
import { Connection } from '#src/kernel/postgres/wire/connection.ts'
import type { Answer, Cell } from '#src/kernel/postgres/wire/unit.ts'
import type { Tenant } from '#src/tenancy/directory.ts'
import type { Logins } from '#src/tenancy/logins.ts'
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

export function createFeedConnections(control: Database, logins: Logins): OpenFeedConnection {
  return async ({ ref }, onLost) => {
    const open = () =>
      Connection.open(logins.address(ref, 'svc'), ref, settings, { onIdle() {}, onLost: () => onLost() })
    await logins.check(control, ref, 'svc')
    const connection = await open().catch(async error => {
      if (!(error instanceof DatabaseError)) throw error
      await logins.heal(control, ref, 'svc')
      return open()
    })
    return {
      async query(sql, values) {
        const result = await new Promise<Answer>((resolve, reject) =>
          connection.send({
            steps: [{ key: sql, sql, values }],
            answering: 0,
            isLone: false,
            timeoutMs,
            resolve,
            reject,
          }),
        )
        return result.rows
      },
      close: () => connection.close(),
    }
  }
}
