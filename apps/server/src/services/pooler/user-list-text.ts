// The text of PgBouncer's auth_file: one line `"name" "verifier"` for each user.
import { loginRole } from '#src/tenancy/logins.ts'

export interface PoolerUser {
  name: string
  /** What Postgres stores for this user. With it, PgBouncer can log in to Postgres as the user. */
  verifier: string
}

const ownerLine = new RegExp(`^"${loginRole('p_[a-z2-7]{20}', 'owner')}"`)
const quoted = (text: string) => `"${text.replaceAll('"', '""')}"`

/**
 * The list with these users, and with the other users of the existing list, except owners of projects. The others come
 * last, because PgBouncer ignores everything after a line that it cannot read.
 */
export function userListText(existing: string, users: readonly PoolerUser[]): string {
  const lines = users.map(({ name, verifier }) => `${quoted(name)} ${quoted(verifier)}`)
  const names = new Set(users.map(({ name }) => quoted(name)))
  const others = existing.split('\n').filter(line => {
    const name = /^"(?:[^"]|"")*"/.exec(line)?.[0]
    return line.trim() !== '' && !ownerLine.test(line) && !(name && names.has(name))
  })
  return [...lines, ...others].map(line => `${line}\n`).join('')
}
