// Turns database errors of auth flows into refusals: values that cannot be stored, lock conflicts, and errors from the
// project's own triggers, checks, defaults and foreign keys on the auth tables.
import { Refusal } from '#src/kernel/errors.ts'
import type { Session } from '#src/kernel/postgres/database.ts'
import { DatabaseError } from '#src/kernel/postgres/database-error.ts'
import { isInTenantCode, isOfTenant } from '#src/kernel/postgres/error-origin.ts'
import type { Databases } from '#src/tenancy/databases.ts'
import { changedByTrigger } from './expected-row.ts'

/** lock_not_available, query_canceled, deadlock_detected, serialization_failure. */
const lockConflicts = new Set(['55P03', '57014', '40P01', '40001'])
const unstorable = new Set(['22P05', '22021'])

export function translateDatabaseErrors(databases: Databases): Databases {
  return {
    ...databases,
    auth(tenant) {
      const database = databases.auth(tenant)
      const transaction = <T>(work: (session: Session) => Promise<T>): Promise<T> =>
        database.transaction(work).catch(throwRefusal)
      return {
        rows: statement => transaction(session => session.rows(statement)),
        row: statement => transaction(session => session.row(statement)),
        run: statement => transaction(session => session.run(statement)),
        transaction,
      }
    },
    asAuth: (tenant, statement, values) => databases.asAuth(tenant, statement, values).catch(throwRefusal),
  }
}

function throwRefusal(error: unknown): never {
  if (!(error instanceof DatabaseError)) throw error
  const { code, constraint, schema, where } = error
  if (constraint === 'metadata_size')
    throw new Refusal(
      { code: 'validation_failed', status: 422 },
      'The metadata of a user may have 8 kB: access tokens repeat it',
    )
  if (constraint === 'users_email' && code === '23505')
    throw new Refusal('email_exists', 'A user with this email address has already been registered')
  // A trigger deleted the user or changed its id, and a row of an auth table refers to the old id.
  if (code === '23503' && schema === 'auth') throw changedByTrigger(error)
  // A foreign key error inside a function of the project is not about deleting this user. It keeps the message of Postgres.
  if (code === '23503' && !isInTenantCode({ where }))
    throw new Refusal('conflict', 'Rows of the project refer to this user; change or delete them first', {
      cause: error,
    })
  if (unstorable.has(code))
    throw new Refusal('validation_failed', 'A text holds a character that cannot be stored')
  // A statement timeout inside a function of the project is not a conflict with another request.
  if (lockConflicts.has(code) && !(code === '57014' && isInTenantCode({ where })))
    throw new Refusal('conflict', 'Another request is changing this user; try again', {
      cause: error,
      headers: { 'retry-after': '1' },
    })
  // The detail of a constraint error shows the whole row, with password and token hashes. Pass on only the message.
  if (isOfTenant(error)) throw new Refusal({ code, status: 400 }, error.message, { cause: error })
  throw error
}
