// What Postgres raises in the middle of a flow, in words: data that does not fit, and others who stand in the way.
import { Refusal } from '#src/kernel/errors.ts'
import type { Session } from '#src/kernel/postgres/database.ts'
import type { Databases } from '#src/tenancy/databases.ts'

interface Raised {
  code?: string
  constraint?: string
}

/** A lock, a timeout, a circle of waits, a conflict of snapshots. */
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
  }
}

function told(error: Raised): never {
  const { code = '', constraint } = error
  if (constraint === 'metadata_size')
    throw new Refusal(
      { code: 'validation_failed', status: 422 },
      'The metadata of a user may have 8 kB: access tokens repeat it',
    )
  if (constraint === 'users_email' && code === '23505')
    throw new Refusal('email_exists', 'A user with this email address has already been registered')
  if (code === '23503')
    throw new Refusal('conflict', 'Rows of the project refer to this user; change or delete them first', {
      cause: error,
    })
  if (code === '23514') throw new Refusal('validation_failed', 'A value does not fit', { cause: error })
  if (unstorable.has(code))
    throw new Refusal('validation_failed', 'A text holds a character that cannot be stored')
  if (busy.has(code))
    throw new Refusal('conflict', 'Another request is changing this user; try again', {
      cause: error,
      headers: { 'retry-after': '1' },
    })
  throw error
}
