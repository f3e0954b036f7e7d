// The host program where workers can read it. After the first worker has started, it is translated to JavaScript, and Deno's
// cache for it is kept: that halves the time of a start. The cache of a worker begins as a copy of it. It is that
// of its project, or of its own if each call has a new worker, because it also has what functions store with the Cache API.
import { createHash, randomUUID } from 'node:crypto'
import { existsSync, lchownSync } from 'node:fs'
import { chmod, copyFile, mkdir, readdir, readFile, rename, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import type { OsUser } from '#src/kernel/child-processes/process.ts'
import { makeOwnDir } from '../place.ts'

export interface HostFiles {
  /** Creates the cache of a worker if it does not exist, and returns the path of the program. */
  place(cacheDir: string, user: OsUser | undefined): Promise<string>
  close(): Promise<void>
}

const sourceDir = fileURLToPath(new URL('../../../../../runtime/src/', import.meta.url))
const databases = ['dep_analysis_cache_v2', 'node_analysis_cache_v2', 'v8_code_cache_v2'] as const
/** Beside it are tests, and a directory with what the platform uses. */
const isOfProgram = (name: string) => name.endsWith('.ts') && !name.endsWith('.test.ts')
/** Deno writes the cache a moment after it has loaded the program. */
const writingMs = 500

export async function openHostFiles(
  home: string,
  /** Runs the program with this cache until it is stopped. */
  run: (program: string, cacheDir: string) => Promise<{ stop(): Promise<void> }>,
): Promise<HostFiles> {
  const names = (await readdir(sourceDir)).filter(isOfProgram).sort()
  const hash = createHash('sha256')
  for (const name of names) hash.update(name).update(await readFile(join(sourceDir, name)))
  const directory = join(home, `host-${hash.digest('hex').slice(0, 16)}`)
  if (!existsSync(directory)) await copyProgram(names, directory)
  const prepared = join(directory, 'prepared')
  let making: Promise<void> | undefined

  /** Translates the program to JavaScript, and fills a cache with what Deno computes for that. */
  async function prepare(): Promise<void> {
    const temporary = `${prepared}-${randomUUID().slice(0, 8)}`
    try {
      await mkdir(temporary)
      const first = join(temporary, 'first')
      await stopLater(await run(join(directory, 'main.ts'), first))
      await copyTranslated(join(first, 'gen'), temporary)
      await rm(first, { recursive: true })
      await chmod(temporary, 0o755)
      await rename(temporary, prepared)
      const cache = join(prepared, 'making')
      await stopLater(await run(join(prepared, 'main.js'), cache))
      await settle(cache)
      await rename(cache, join(prepared, 'cache'))
    } catch {
      // Workers start without it, only slower.
    } finally {
      await rm(temporary, { recursive: true, force: true })
    }
  }

  return {
    async place(cacheDir, user) {
      const cache = join(prepared, 'cache')
      const isPrepared = existsSync(cache)
      if (!isPrepared) making ??= prepare()
      if (!existsSync(cacheDir)) await makeCache(cacheDir, user, isPrepared ? cache : undefined)
      return isPrepared ? join(prepared, 'main.js') : join(directory, 'main.ts')
    },
    async close() {
      await making
    },
  }
}

async function stopLater(running: { stop(): Promise<void> }): Promise<void> {
  await sleep(writingMs)
  await running.stop()
}

/** Deno keeps the translated files in folders named after their path. */
async function copyTranslated(from: string, to: string): Promise<void> {
  for (const entry of await readdir(from, { recursive: true, withFileTypes: true })) {
    if (!entry.name.endsWith('.ts.js')) continue
    const text = await readFile(join(entry.parentPath, entry.name), 'utf8')
    const path = join(to, entry.name.replace('.ts.js', '.js'))
    await writeFile(
      path,
      text.replace(/(from\s*['"]\.\/[\w-]+)\.ts(['"])/g, '$1.js$2').replace(/\n\/\/# sourceMappingURL.*/, ''),
    )
    await chmod(path, 0o644)
  }
}

/** Writes the logs of Deno's databases into them, so that a worker does not have to. */
async function settle(directory: string): Promise<void> {
  const { DatabaseSync } = await import('node:sqlite')
  for (const name of databases) {
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

/** In one step, because two workers of a project may start at the same time. */
async function makeCache(target: string, user: OsUser | undefined, from: string | undefined): Promise<void> {
  const temporary = `${target}-${randomUUID().slice(0, 8)}`
  await makeOwnDir(temporary, user)
  if (from !== undefined)
    await Promise.all(
      databases.map(async name => {
        const path = join(temporary, name)
        await copyFile(join(from, name), path)
        if (user) lchownSync(path, user.uid, user.gid)
      }),
    )
  await rename(temporary, target).catch(async error => {
    await rm(temporary, { recursive: true, force: true })
    if (!existsSync(target)) throw error
  })
}
