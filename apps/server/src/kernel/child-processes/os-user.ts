// Other users of the operating system, as which a platform that runs as root starts its children.
import { chmodSync, mkdirSync, statSync } from 'node:fs'
import { dirname } from 'node:path'
import type { OsUser } from './process.ts'

/** For files that other users must reach, if the data directory is private. */
export const systemDir = '/var/lib/plinth'

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

/** Creates a directory that other users can traverse but not list. Uses chmod, because mkdir applies the umask. */
export function makeTraversableDir(dir: string): void {
  if (statSync(dir, { throwIfNoEntry: false })) return
  mkdirSync(dir)
  chmodSync(dir, 0o711)
}
