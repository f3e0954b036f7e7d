// A directory on XFS with shared blocks: an image that is mounted for the benchmark. It needs root and xfsprogs.
import { spawnSync } from 'node:child_process'
import { closeSync, ftruncateSync, mkdirSync, mkdtempSync, openSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'

/** Undefined if it cannot be made. */
export function mountXfs(megabytes: number): { directory: string; remove(): void } | undefined {
  const home = mkdtempSync(join(tmpdir(), 'plinth-xfs-'))
  const [image, directory] = [join(home, 'image'), join(home, 'mounted')]
  const run = (command: string, ...args: string[]) => spawnSync(command, args).status === 0
  const remove = () => {
    run('umount', directory)
    rmSync(home, { recursive: true, force: true })
  }
  mkdirSync(directory)
  const file = openSync(image, 'w')
  ftruncateSync(file, megabytes * 1024 * 1024)
  closeSync(file)
  // The directory must be open to the user of the database.
  const isMounted =
    run('mkfs.xfs', '-q', '-m', 'reflink=1', image) &&
    run('mount', '-o', 'loop', image, directory) &&
    run('chmod', '711', home, directory)
  if (isMounted) return { directory, remove }
  remove()
  return
}
