// The host program where workers can read it, and a cache of what Deno has computed for it. Each worker gets a copy of the
// cache, because it also has what the functions of a worker store with the Cache API.
import { createHash, randomUUID } from 'node:crypto'
import { existsSync, lchownSync } from 'node:fs'
import { chmod, copyFile, cp, mkdir, readdir, readFile, rename, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import type { OsUser } from '#src/kernel/child-processes/process.ts'

export interface HostFiles {
  /** The path of the program. */
  readonly program: string
  /** Fills the cache of a new worker, if there is something to fill it with. */
  fillCache(directory: string, user: OsUser | undefined): Promise<void>
  close(): Promise<void>
}

const sourceDir = fileURLToPath(new URL('../../../../../runtime/src/', import.meta.url))
/** Deno writes the cache a moment after it has loaded the program. */
const writingMs = 500

export async function openHostFiles(
  home: string,
  /** Runs the program with this cache until it is stopped. */
  run: (program: string, cacheDir: string) => Promise<{ stop(): Promise<void> }>,
): Promise<HostFiles> {
  const names = (await readdir(sourceDir)).filter(name => !name.endsWith('.test.ts')).sort()
  const hash = createHash('sha256')
  for (const name of names) hash.update(name).update(await readFile(join(sourceDir, name)))
  const directory = join(home, `host-${hash.digest('hex').slice(0, 16)}`)
  if (!existsSync(directory)) await copyProgram(names, directory)
  const program = join(directory, 'main.ts')
  const cache = join(directory, 'cache')
  let making: Promise<void> | undefined

  async function makeCache(): Promise<void> {
    const temporary = `${cache}-${randomUUID().slice(0, 8)}`
    try {
      const running = await run(program, temporary)
      await sleep(writingMs)
      await running.stop()
      await settle(temporary)
      await rename(temporary, cache)
    } catch {
      // Workers start without it, only slower.
    } finally {
      await rm(temporary, { recursive: true, force: true })
    }
  }

  return {
    program,
    async fillCache(target, user) {
      if (!existsSync(cache)) {
        making ??= makeCache()
        return
      }
      await cp(cache, target, { recursive: true })
      if (user) await giveTo(target, user)
    },
    async close() {
      await making
    },
  }
}

/** Writes the logs of Deno's databases into them, so that a worker does not have to. */
async function settle(directory: string): Promise<void> {
  const { DatabaseSync } = await import('node:sqlite')
  for (const name of await readdir(directory)) {
    if (!name.endsWith('_v2')) continue
    const database = new DatabaseSync(join(directory, name))
    database.exec('pragma wal_checkpoint(truncate)')
    database.close()
  }
}

async function copyProgram(names: readonly string[], directory: string): Promise<void> {
  const temporary = `${directory}-${randomUUID().slice(0, 8)}`
  await mkdir(temporary, { recursive: true })
  for (const name of names) {
    await copyFile(join(sourceDir, name), join(temporary, name))
    await chmod(join(temporary, name), 0o644)
  }
  await chmod(temporary, 0o755)
  await rename(temporary, directory).catch(async error => {
    // Another platform that starts at the same time has made the same copy.
    await rm(temporary, { recursive: true, force: true })
    if (!existsSync(directory)) throw error
  })
}

async function giveTo(directory: string, { uid, gid }: OsUser): Promise<void> {
  lchownSync(directory, uid, gid)
  for (const entry of await readdir(directory, { recursive: true, withFileTypes: true }))
    lchownSync(join(entry.parentPath, entry.name), uid, gid)
}
