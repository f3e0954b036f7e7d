import assert from 'node:assert/strict'
import { randomUUID } from 'node:crypto'
import { mkdirSync, mkdtempSync, readdirSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import type { Archives } from './archives.ts'
import { createCodeCache } from './code-cache.ts'
import type { Place } from './place.ts'

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
