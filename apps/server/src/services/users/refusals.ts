// What auth says to applications, in the words of the management plane. What Postgres says comes from the project's
// own triggers and foreign keys on its users, and is for whoever runs the project.
import { Refusal } from '#src/kernel/errors.ts'
import { refusalFromOwnerSql } from '#src/planes/management/database-refusal.ts'

export function inManagementWords(error: unknown): never {
  // To applications a row that needs the user is a conflict and no more; whoever runs the project learns which.
  const isNeeded = error instanceof Refusal && error.code === 'conflict' && error.cause !== undefined
  const refusal = refusalFromOwnerSql(isNeeded ? error.cause : error)
  const { code, message, headers } = refusal
  if (code === 'validation_failed') throw new Refusal('invalid_request', message, { headers })
  if (code === 'email_exists' || code === 'user_already_exists')
    throw new Refusal('already_exists', message, { headers })
  throw refusal
}
