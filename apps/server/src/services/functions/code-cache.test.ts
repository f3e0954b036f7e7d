import assert from 'node:assert/strict'
import { randomUUID } from 'node:crypto'
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import type { Archives } from './archives.ts'
import { createCodeCache } from './code-cache.ts'
import type { Place } from './place.ts'
import type { VersionParts } from './store.ts'

test('code cache: what no version names is removed, and the caches of projects without functions', async () => {
  const home = mkdtempSync(join(tmpdir(), 'plinth-code-'))
  const [codeDir, cacheDir] = [join(home, 'code'), join(home, 'cache')]
  const [kept, gone, used, unused] = [randomUUID(), randomUUID(), randomUUID(), randomUUID()]
  for (const path of [join(codeDir, kept, used), join(codeDir, kept, unused), join(codeDir, gone, unused)])
    mkdirSync(path, { recursive: true })
  for (const name of [kept, gone, 'shared']) mkdirSync(join(cacheDir, name), { recursive: true })
  const place = { codeDir, cacheDir, userOf: () => undefined } as Partial<Place> as Place
  try {
    const cache = createCodeCache(place, {} as Archives, false)
    await cache.prune(async projectId => new Set(projectId === kept ? [used] : []))
    assert.deepEqual(readdirSync(codeDir), [kept])
    assert.deepEqual(readdirSync(join(codeDir, kept)), [used])
    assert.deepEqual(readdirSync(cacheDir).sort(), [kept, 'shared'].sort())
  } finally {
    rmSync(home, { recursive: true, force: true })
  }
})

test('code cache: code whose packages become another archive refers to that one', async () => {
  const home = mkdtempSync(join(tmpdir(), 'plinth-code-'))
  const [codeDir, cacheDir] = [join(home, 'code'), join(home, 'cache')]
  for (const path of [codeDir, cacheDir]) mkdirSync(path)
  const place = { codeDir, cacheDir, userOf: () => undefined } as Partial<Place> as Place
  const [project, code, lost, again] = [randomUUID(), randomUUID(), randomUUID(), randomUUID()]
  const archives: Pick<Archives, 'unpack'> = {
    async unpack(_project, id, directory) {
      const path = join(directory, id === code ? 'build' : 'node_modules')
      mkdirSync(path)
      writeFileSync(join(path, 'id'), id)
    },
  }
  const version = (packages: string): VersionParts => ({
    entrypoint: 'index.ts',
    code_archive: code,
    packages_archive: packages,
    packages: [],
    uses_node: true,
  })
  try {
    const cache = createCodeCache(place, archives as Archives, false)
    const packagesOf = async (row: VersionParts) =>
      readFileSync(join(await cache.fetch(project, row), 'build', 'node_modules', 'id'), 'utf8')
    assert.equal(await packagesOf(version(lost)), lost)
    const repaired = version(again)
    assert.equal(await packagesOf(repaired), again)
    await cache.prune(async () => new Set([code, again]))
    assert.equal(await packagesOf(repaired), again)
    assert.equal(readdirSync(join(codeDir, project)).length, 2)
    await cache.prune(async () => new Set([code]))
    assert.deepEqual(readdirSync(join(codeDir, project)), [])
  } finally {
    rmSync(home, { recursive: true, force: true })
  }
})
