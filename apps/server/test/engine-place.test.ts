import assert from 'node:assert/strict'
import fs from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { engineFiles } from '#src/kernel/postgres/engine/place.ts'
import { isRoot, query, root, start, unused, used, useEngines } from './engine-harness.ts'

useEngines()

test('engine place: for a home that others cannot enter, root stores the cluster where the database user can', async () => {
  const home = join(root, 'closed')
  fs.mkdirSync(home, { mode: 0o700 })
  const dataDir = unused('closed/data')
  const before = engineFiles(dataDir)
  const engine = await start(dataDir)
  await query(engine, 'select 1')
  assert.deepEqual(engineFiles(dataDir), before, 'the paths do not change with the start')
  assert.equal(before.clusterDir, engine.clusterDir)
  if (!isRoot) return assert.equal(engine.clusterDir, join(dataDir, 'postgres'))

  assert.match(engine.clusterDir, /^\/var\/lib\/plinth\/[0-9a-f]{16}\/postgres$/)
  assert.deepEqual(before.remove, [dataDir, join(engine.clusterDir, '..')])
  assert.ok(fs.existsSync(join(engine.clusterDir, '../postgres.log')))
  fs.chmodSync(home, 0o755)
  assert.deepEqual(engineFiles(dataDir), before, 'the paths do not change when the home becomes accessible')
  await engine.stop()
  fs.chmodSync(home, 0o700)
  const moved = unused('closed/moved')
  fs.renameSync(dataDir, moved)
  await assert.rejects(start(moved), /was moved or copied and its database is still in \/var\/lib\/plinth/)
})

test('engine place: a data directory with a long path has its socket in the temporary directory', async () => {
  const dataDir = used('x'.repeat(120))
  const engine = await start(dataDir)
  assert.match(engine.socketDir, /\/plinth-[0-9a-f]{16}$/)
  assert.equal(fs.statSync(engine.socketDir).mode & 0o777, 0o700)
  assert.equal((await query(engine, 'select 1')).rowCount, 1)
  assert.deepEqual(engineFiles(dataDir).remove, [dataDir, engine.socketDir])
  await engine.stop()
  fs.chmodSync(engine.socketDir, 0o777)
  if (isRoot) await assert.rejects(start(dataDir), /open to other users/)
  fs.rmSync(engine.socketDir, { recursive: true })
  fs.writeFileSync(engine.socketDir, 'somebody else was here')
  await assert.rejects(start(dataDir), /is not ours/)
})
