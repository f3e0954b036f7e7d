// Turns errors of the auth service into errors of the management API. A database error comes from the project's own
// triggers and foreign keys, so the management API shows it in full.
import { Refusal } from '#src/kernel/errors.ts'
import { DatabaseError } from '#src/kernel/postgres/database-error.ts'
import { refusalFromOwnerSql } from '#src/planes/management/database-refusal.ts'

export function throwManagementError(error: unknown): never {
  // The auth service gives applications only the message of Postgres, or `conflict`. The cause has the details.
  const isFromSql = error instanceof Refusal && error.status < 500 && error.cause instanceof DatabaseError
  const refusal = refusalFromOwnerSql(isFromSql ? error.cause : error)
  const { code, message, headers } = refusal
  if (code === 'validation_failed') throw new Refusal('invalid_request', message, { headers })
  if (code === 'email_exists' || code === 'user_already_exists')
    throw new Refusal('already_exists', message, { headers })
  throw refusal
}
