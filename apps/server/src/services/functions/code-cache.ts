// The code of versions on this node. Archives never change, so a directory that is named after its archives is complete
// and stays valid.
import { randomUUID } from 'node:crypto'
import { lchownSync } from 'node:fs'
import { chmod, mkdir, readdir, rename, rm, stat, symlink } from 'node:fs/promises'
import { join } from 'node:path'
import type { Archives } from './archives.ts'
import type { Place } from './place.ts'
import type { VersionParts } from './store.ts'

export interface CodeCache {
  /** The directory of a version: `src` has the files as they were deployed, `build` those that run. */
  fetch(projectId: string, version: VersionParts): string | Promise<string>
  /** The directory of a project, which its workers may read. */
  directoryOf(projectId: string): string
  forget(projectId: string): Promise<void>
  /** Removes directories of archives that are not in use any more, and what Deno cached for projects without any. */
  prune(usedIn: (projectId: string) => Promise<ReadonlySet<string>>): Promise<void>
}

const temporaryMark = '.new-'
const between = '+'

/** With its packages, because the directory refers to them. Lost packages that are deployed again are another archive. */
const nameOf = ({ code_archive, packages_archive }: VersionParts) =>
  packages_archive === null ? code_archive : code_archive + between + packages_archive

/** If all projects share a worker, it must be able to read the code of all. */
export function createCodeCache(
  { codeDir, cacheDir, userOf }: Place,
  archives: Archives,
  isShared: boolean,
): CodeCache {
  const fetching = new Map<string, Promise<void>>()
  /** Directories of versions that are known to be complete, by the row that names them. */
  const known = new WeakMap<VersionParts, string>()
  const directoryOf = (projectId: string) => join(codeDir, projectId)

  async function makeProjectDir(projectId: string): Promise<void> {
    const directory = directoryOf(projectId)
    await mkdir(directory, { recursive: true })
    const user = userOf(projectId)
    if (user) lchownSync(directory, 0, user.gid)
    await chmod(directory, isShared ? 0o755 : user ? 0o750 : 0o700)
  }

  async function unpack(
    projectId: string,
    archive: string,
    directory: string,
    prepare?: (directory: string) => Promise<void>,
  ) {
    if (await exists(directory)) return
    await makeProjectDir(projectId)
    const temporary = `${directory}${temporaryMark}${randomUUID().slice(0, 8)}`
    try {
      await mkdir(temporary, { mode: 0o755 })
      await archives.unpack(projectId, archive, temporary)
      await prepare?.(temporary)
      await chmod(temporary, 0o755)
      await rename(temporary, directory)
    } catch (error) {
      // Another process of the platform may have unpacked it meanwhile.
      if (!(await exists(directory))) throw error
    } finally {
      await rm(temporary, { recursive: true, force: true })
    }
  }

  /** Concurrent calls share the work. */
  function once(key: string, work: () => Promise<void>): Promise<void> {
    const running = fetching.get(key)
    if (running) return running
    const started = work().finally(() => fetching.delete(key))
    fetching.set(key, started)
    return started
  }

  async function unpackAll(projectId: string, version: VersionParts): Promise<string> {
    const { code_archive, packages_archive } = version
    const inProject = (name: string) => join(directoryOf(projectId), name)
    if (packages_archive !== null)
      await once(`${projectId} ${packages_archive}`, () =>
        unpack(projectId, packages_archive, inProject(packages_archive)),
      )
    const name = nameOf(version)
    const directory = inProject(name)
    await once(`${projectId} ${name}`, () =>
      unpack(projectId, code_archive, directory, async temporary => {
        if (packages_archive !== null)
          await symlink(
            join('..', '..', packages_archive, 'node_modules'),
            join(temporary, 'build', 'node_modules'),
          )
      }),
    )
    known.set(version, directory)
    return directory
  }

  return {
    directoryOf,
    fetch: (projectId, version) => known.get(version) ?? unpackAll(projectId, version),
    async forget(projectId) {
      await rm(directoryOf(projectId), { recursive: true, force: true })
    },
    async prune(usedIn) {
      for (const projectId of await readdir(codeDir)) {
        const used = await usedIn(projectId)
        const isFetching = [...fetching.keys()].some(key => key.startsWith(projectId))
        if (used.size === 0 && !isFetching) await rm(directoryOf(projectId), { recursive: true, force: true })
        else
          for (const name of await readdir(directoryOf(projectId)))
            if (
              !name.split(between).every(id => used.has(id)) &&
              !fetching.has(`${projectId} ${name.split(temporaryMark, 1)[0]}`)
            )
              await rm(join(directoryOf(projectId), name), { recursive: true, force: true })
      }
      // The shared worker has one as well.
      for (const projectId of (await readdir(cacheDir)).filter(isProjectId))
        if ((await usedIn(projectId)).size === 0)
          await rm(join(cacheDir, projectId), { recursive: true, force: true })
    },
  }
}

const isProjectId = (name: string) => /^[0-9a-f-]{36}$/.test(name)

const exists = async (path: string) => (await stat(path).catch(() => undefined)) !== undefined
