// One connection per project on which changes are read while somebody listens: nothing of a tenant's ever runs on it, and
// nobody else's work delays it.
import type { Database } from '#src/kernel/postgres/database.ts'
import { Connection } from '#src/kernel/postgres/wire/connection.ts'
import { DatabaseError } from '#src/kernel/postgres/wire/database-error.ts'
import type { Answer, Cell } from '#src/kernel/postgres/wire/unit.ts'
import type { Tenant } from './directory.ts'
import type { Logins } from './logins.ts'
import { sessionSettings } from './session-settings.ts'

export interface Listener {
  ask(sql: string, values: readonly (string | null)[]): Promise<Cell[][]>
  close(): void
}

export type OpenListener = (tenant: Tenant, onLost: () => void) => Promise<Listener>

const timeoutMs = 5000
const settings = {
  ...sessionSettings,
  search_path: 'pg_catalog, pg_temp',
  role: 'service_role',
  statement_timeout: `${timeoutMs}ms`,
  lock_timeout: '2s',
}

export function createListeners(control: Database, logins: Logins): OpenListener {
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
      async ask(sql, values) {
        const answer = await new Promise<Answer>((resolve, reject) =>
          connection.send({
            steps: [{ key: sql, sql, values }],
            answering: 0,
            isLone: false,
            timeoutMs,
            resolve,
            reject,
          }),
        )
        return answer.rows
      },
      close: () => connection.close(),
    }
  }
}
