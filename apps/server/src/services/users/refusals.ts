// What auth says to applications, in the words of the management plane. What Postgres says comes from the project's
// own triggers and foreign keys on its users, and is for whoever runs the project.
import { Refusal } from '#src/kernel/errors.ts'
import { isServerError } from '#src/kernel/postgres/error-text.ts'
import { refusalFromOwnerSql } from '#src/planes/management/database-refusal.ts'

export function inManagementWords(error: unknown): never {
  // Applications get the bare message of Postgres, or "conflict"; whoever runs the project learns all of it.
  const isFromSql = error instanceof Refusal && error.status < 500 && isServerError(error.cause)
  const refusal = refusalFromOwnerSql(isFromSql ? error.cause : error)
  const { code, message, headers } = refusal
  if (code === 'validation_failed') throw new Refusal('invalid_request', message, { headers })
  if (code === 'email_exists' || code === 'user_already_exists')
    throw new Refusal('already_exists', message, { headers })
  throw refusal
}
