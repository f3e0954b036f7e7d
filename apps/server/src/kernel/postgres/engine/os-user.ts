import { chmodSync, mkdirSync, readFileSync, statSync } from 'node:fs'
import { dirname } from 'node:path'
import type { OsUser } from '#src/kernel/child-processes/process.ts'

/**
 * Computed from the mode bits, because `access` as root always succeeds. Node drops supplementary groups when it changes
 * the user, so only the primary group counts.
 */
export function canReach(user: OsUser, path: string, wanted = 0o1): boolean {
  const { uid, gid, mode } = statSync(path)
  const shift = uid === user.uid ? 6 : gid === user.gid ? 3 : 0
  if (((mode >> shift) & wanted) !== wanted) return false
  return path === dirname(path) || canReach(user, dirname(path))
}

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

/** Creates a directory that the database user can traverse but not list. Uses chmod, because mkdir applies the umask. */
export function makeTraversableDir(dir: string): void {
  if (statSync(dir, { throwIfNoEntry: false })) return
  mkdirSync(dir)
  chmodSync(dir, 0o711)
}
