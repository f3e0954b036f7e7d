// Replaces PgBouncer's auth_file. A new file is written completely and renamed, so that PgBouncer never reads half a list,
// and a crash leaves the old list or the new one.
import { randomBytes } from 'node:crypto'
import type { Stats } from 'node:fs'
import { type FileHandle, lstat, open, readdir, rename, rm } from 'node:fs/promises'
import { basename, dirname, join } from 'node:path'

export interface UserListFile {
  text: string
  stats: Stats
}

const maxBytes = 64 * 1024 * 1024
const leftoverAgeMs = 60_000
const suffix = '.new-'

/** Undefined if there is no such file. */
export async function readUserList(path: string): Promise<UserListFile | undefined> {
  const file = await open(path, 'r').catch((error: NodeJS.ErrnoException) => {
    if (error.code === 'ENOENT') return
    throw error
  })
  if (!file) return
  try {
    const stats = await file.stat()
    if (!stats.isFile()) throw new Error('it is not a file')
    if (stats.size > maxBytes) throw new Error('it is too large for a user list')
    return { text: await file.readFile('utf8'), stats }
  } finally {
    await file.close()
  }
}

/** Keeps the owner and mode of the file that it replaces. Otherwise only the user of the platform can read the file. */
export async function replaceUserList(
  path: string,
  text: string,
  replaced: Stats | undefined,
): Promise<void> {
  const temporary = `${path}${suffix}${randomBytes(6).toString('hex')}`
  try {
    const file = await open(temporary, 'wx', 0o600)
    try {
      await file.writeFile(text)
      if (replaced) await takeOver(file, replaced)
      await file.sync()
    } finally {
      await file.close()
    }
    await rename(temporary, path)
  } catch (error) {
    await rm(temporary, { force: true }).catch(() => {})
    throw error
  }
  const directory = await open(dirname(path), 'r')
  await directory.sync().finally(() => directory.close())
}

async function takeOver(file: FileHandle, { uid, gid, mode, mtimeMs }: Stats): Promise<void> {
  const own = await file.stat()
  if (own.uid !== uid || own.gid !== gid)
    await file.chown(uid, gid).catch((cause: NodeJS.ErrnoException) => {
      const advice = 'the user of the platform must own the file and be in its group'
      throw Object.assign(new Error(advice, { cause }), { code: cause.code })
    })
  await file.chmod(mode & 0o777)
  // PgBouncer compares inode, size and seconds of the modification time, and ignores a file that looks unchanged. The
  // inode of the last but one file can be used again.
  const seconds = Math.max(Math.floor(Date.now() / 1000), Math.floor(mtimeMs / 1000) + 1)
  await file.utimes(seconds, seconds)
}

/** Removes unfinished files of killed platforms. */
export async function removeLeftovers(path: string): Promise<void> {
  const directory = dirname(path)
  const names = await readdir(directory).catch(() => [])
  for (const name of names.filter(each => each.startsWith(basename(path) + suffix))) {
    const leftover = join(directory, name)
    const stats = await lstat(leftover).catch(() => undefined)
    if (stats && Date.now() - stats.mtimeMs > leftoverAgeMs) await rm(leftover, { force: true })
  }
}
