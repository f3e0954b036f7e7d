import { readFileSync, statSync } from 'node:fs'
import type { OsUser } from '#src/kernel/child-processes/process.ts'

/** Postgres refuses to run as root, and its user needs an entry in /etc/passwd. */
export function databaseUser(clusterDir: string): OsUser {
  const users = readFileSync('/etc/passwd', 'utf8')
    .split('\n')
    .map(line => line.split(':'))
    .map(([name = '', , uid, gid]) => ({ name, uid: Number(uid), gid: Number(gid) }))
    .filter(({ uid, gid }) => uid > 0 && gid >= 0)
  const owner = statSync(clusterDir, { throwIfNoEntry: false })?.uid
  const user =
    users.find(({ uid }) => uid === owner) ??
    users.find(({ name }) => name === 'postgres') ??
    users.find(({ name }) => name === 'nobody')
  if (user) return user
  throw new Error('Postgres does not run as root: add a user named postgres, or start as an ordinary user')
}
