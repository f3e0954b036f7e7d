import { chmodSync, mkdirSync, readFileSync, statSync } from 'node:fs'
import { dirname } from 'node:path'

export interface OsUser {
  name: string
  uid: number
  gid: number
}

/**
 * By mode bits alone: root may do anything, so only arithmetic tells what the database user may.
 * Node drops supplementary groups when it changes the user, so the primary group is the only one that counts.
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

/** A directory the database user can pass through but not list; chmod, because mkdir's mode is cut by the umask. */
export function makePassage(dir: string): void {
  if (statSync(dir, { throwIfNoEntry: false })) return
  mkdirSync(dir)
  chmodSync(dir, 0o711)
}
