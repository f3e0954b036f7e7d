// Commands to PgBouncer, through the database `pgbouncer` that it serves itself.
import { Refusal } from '#src/kernel/errors.ts'
import { withClient } from '#src/kernel/postgres/database.ts'
import type { ServerAddress } from '#src/kernel/postgres/server-address.ts'

const timeoutMs = 5000

/** Makes PgBouncer read its user list again. New logins use it as soon as this resolves. */
export const reloadPooler = (address: ServerAddress): Promise<void> =>
  withClient(address, 'pgbouncer', {}, session => session.script('RELOAD'), { timeoutMs }).catch(error => {
    // The client takes PgBouncer for a database, and words a failure for callers of the API.
    throw error instanceof Refusal && error.cause ? error.cause : error
  })
