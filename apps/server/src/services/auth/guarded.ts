// What Postgres raises in the middle of a flow, as refusals: data that does not fit, locks that others hold, and what the
// project's own triggers, checks, defaults and foreign keys on the tables of users refuse.
import { Refusal } from '#src/kernel/errors.ts'
import type { Session } from '#src/kernel/postgres/database.ts'
import { isInTenantCode, isOfTenant, isServerError } from '#src/kernel/postgres/error-text.ts'
import type { Databases } from '#src/tenancy/databases.ts'
import { interfered } from './written.ts'

interface Raised {
  code?: string
  constraint?: string
  schema?: string
  where?: string
}

/** A lock, a timeout, a deadlock, a conflict of snapshots. */
const busy = new Set(['55P03', '57014', '40P01', '40001'])
const unstorable = new Set(['22P05', '22021'])

export function guarded(databases: Databases): Databases {
  return {
    ...databases,
    auth(tenant) {
      const database = databases.auth(tenant)
      const transaction = <T>(work: (session: Session) => Promise<T>): Promise<T> =>
        database.transaction(work).catch(told)
      return {
        rows: statement => transaction(session => session.rows(statement)),
        row: statement => transaction(session => session.row(statement)),
        run: statement => transaction(session => session.run(statement)),
        transaction,
      }
    },
    asAuth: (tenant, statement, values) => databases.asAuth(tenant, statement, values).catch(told),
  }
}

function told(error: Raised): never {
  const { code = '', constraint, schema, where = '' } = error
  if (constraint === 'metadata_size')
    throw new Refusal(
      { code: 'validation_failed', status: 422 },
      'The metadata of a user may have 8 kB: access tokens repeat it',
    )
  if (constraint === 'users_email' && code === '23505')
    throw new Refusal('email_exists', 'A user with this email address has already been registered')
  // A row of ours refers to a user whom a trigger has deleted or given another id.
  if (code === '23503' && schema === 'auth') throw interfered(error)
  // Within a function of the project, a reference that its own statement breaks has the text of Postgres.
  if (code === '23503' && !isInTenantCode({ where }))
    throw new Refusal('conflict', 'Rows of the project refer to this user; change or delete them first', {
      cause: error,
    })
  if (unstorable.has(code))
    throw new Refusal('validation_failed', 'A text holds a character that cannot be stored')
  // A function of the project that takes too long is no other request.
  if (busy.has(code) && !(code === '57014' && isInTenantCode({ where })))
    throw new Refusal('conflict', 'Another request is changing this user; try again', {
      cause: error,
      headers: { 'retry-after': '1' },
    })
  // The detail of a constraint shows the whole row, with hashes of passwords and tokens: only the message is passed on.
  if (isServerError(error) && isOfTenant(error))
    throw new Refusal({ code, status: 400 }, error.message, { cause: error })
  throw error
}
