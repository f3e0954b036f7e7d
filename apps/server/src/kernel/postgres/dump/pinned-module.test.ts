import assert from 'node:assert/strict'
import {
  appendFileSync,
  copyFileSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { after, test } from 'node:test'
import { fileURLToPath } from 'node:url'
import { preparePinnedModule } from './pinned-module.ts'

const packaged = dirname(fileURLToPath(import.meta.resolve('@electric-sql/pglite-tools')))
const files = ['chunk-RKAX3U4S.js', 'pg_dump.wasm']
const root = mkdtempSync(join(tmpdir(), 'plinth-pinned-module-'))
after(() => rmSync(root, { recursive: true, force: true }))

test('pinned module: two processes that prepare it at the same time make one copy', async () => {
  const dataDir = join(root, 'data')
  const prepared = await Promise.all(Array.from({ length: 5 }, () => preparePinnedModule(dataDir)))
  const { codeFile } = prepared[0]!
  assert.match(readFileSync(codeFile, 'utf8'), /export\{te as a,L as factory\}/)
  assert.deepEqual(readdirSync(dirname(codeFile)).length, 1)
  const { ino } = statSync(codeFile)
  await preparePinnedModule(dataDir)
  assert.equal(statSync(codeFile).ino, ino)
})

for (const changed of files)
  test(`pinned module: another ${changed} than the pinned one is refused`, async () => {
    const installed = mkdtempSync(join(root, 'installed-'))
    for (const file of files) copyFileSync(join(packaged, file), join(installed, file))
    appendFileSync(join(installed, changed), '\n')
    const dataDir = join(installed, 'data')
    await assert.rejects(preparePinnedModule(dataDir, installed), {
      message: `${changed} of @electric-sql/pglite-tools is not the expected file. Install the dependencies again with npm ci, which installs version 0.4.8.`,
    })
    rmSync(join(installed, changed))
    await assert.rejects(preparePinnedModule(dataDir, installed), /is not installed completely/)
    assert.deepEqual(
      readdirSync(installed),
      files.filter(file => file !== changed),
    )
  })
