// The user and the directory that main.ts runs with, and the remove-data command.
import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import fs from 'node:fs'
import { dirname, join } from 'node:path'
import { test } from 'node:test'
import { canReach } from '#src/kernel/child-processes/os-user.ts'
import { engineFiles } from '#src/kernel/postgres/engine/place.ts'
import { assertStopped, modeOf, postmasterPid, postmastersOf } from './data-dir.ts'
import { eventually } from './eventually.ts'
import {
  crash,
  createProject,
  exitOf,
  isRoot,
  platformProcesses,
  repository,
  stop,
  whoami,
} from './platform-process.ts'

const { root, launch, start, failureOf, dataDirWithProject, newDataDir } = platformProcesses()

test('start: an unprivileged user can start the platform, and Postgres runs as that user', async () => {
  const nobody = { name: 'nobody', uid: 65_534, gid: 65_534 }
  const home = join(root, 'home')
  fs.mkdirSync(home, { mode: 0o700 })
  let code = repository
  if (isRoot) {
    fs.chownSync(home, nobody.uid, nobody.gid)
    if (!canReach(nobody, dirname(process.execPath), 0o5) || !canReach(nobody, repository, 0o5)) {
      code = join(root, 'code')
      fs.mkdirSync(code)
      for (const part of ['apps', 'packages', 'node_modules', 'package.json'])
        assert.equal(spawnSync('cp', ['-a', join(repository, part), code]).status, 0)
    }
  }
  const dataDir = join(home, '.plinth/data')
  const user = isRoot ? { user: { uid: nobody.uid, gid: nobody.gid } } : {}
  const platform = await start({ dataDir, cwd: home, repository: code, env: { HOME: home }, ...user })
  const project = await createProject(platform, 'unprivileged')
  assert.equal((await whoami(platform, project)).status, 200)
  const uid = isRoot ? nobody.uid : process.getuid!()
  assert.equal(fs.statSync(dataDir).uid, uid)
  assert.equal(modeOf(dataDir), 0o700)
  const { stdout } = spawnSync('ps', ['-o', 'uid=', '-p', String(postmasterPid(dataDir))], {
    encoding: 'utf8',
  })
  assert.equal(Number(stdout), uid)
  await stop(platform)
  assertStopped(dataDir)
})

test('start: the platform starts twice under a home that others cannot enter, and remove-data removes all files', async () => {
  const home = join(root, 'closed')
  fs.mkdirSync(home, { mode: 0o700 })
  const dataDir = join(home, '.plinth/data')
  const first = await start({ dataDir, cwd: home })
  const project = await createProject(first, 'closed')
  await stop(first)
  const second = await start({ dataDir, cwd: home })
  assert.equal((await whoami(second, project)).status, 200)
  const { clusterDir, remove } = engineFiles(dataDir)
  if (isRoot) assert.match(clusterDir, /^\/var\/lib\/plinth\/[0-9a-f]{16}\/postgres$/)

  const refused = await failureOf({ dataDir, args: ['remove-data'] })
  assert.ok(refused.includes(dataDir), refused)
  assert.equal(
    (await whoami(second, project)).status,
    200,
    'remove-data of a running platform removes nothing',
  )
  await stop(second)

  const removal = launch({ dataDir, args: ['remove-data'] })
  assert.equal(await exitOf(removal), '0', removal.stderr)
  assert.deepEqual(JSON.parse(removal.stdout), { removed: remove })
  for (const path of [clusterDir, ...remove]) assert.ok(!fs.existsSync(path), path)
})

test('remove-data: stops the Postgres of a killed platform and succeeds when there is nothing to remove', async () => {
  const dataDir = await dataDirWithProject('orphaned data')
  const platform = await start({ dataDir })
  await crash(platform)
  await eventually(() => postmastersOf(dataDir).length === 1, 'its Postgres runs on')
  const removal = launch({ dataDir, args: ['remove-data'] })
  assert.equal(await exitOf(removal), '0', removal.stderr)
  assert.deepEqual(postmastersOf(dataDir), [])
  assert.ok(!fs.existsSync(dataDir))
  const again = launch({ dataDir, args: ['remove-data'] })
  assert.equal(await exitOf(again), '0', again.stderr)
})

test('remove-data: keeps a directory that is not a data directory', async () => {
  const dataDir = join(root, 'not a data directory')
  fs.mkdirSync(dataDir)
  fs.writeFileSync(join(dataDir, 'thesis.txt'), 'years of work')
  assert.ok((await failureOf({ dataDir, args: ['remove-data'] })).includes(dataDir))
  assert.ok(fs.existsSync(join(dataDir, 'thesis.txt')))
})

test('start: an unknown command is a one-line error', async () => {
  const dataDir = newDataDir('command')
  assert.match(await failureOf({ dataDir, args: ['frobnicate'] }), /frobnicate/)
  assert.ok(!fs.existsSync(dataDir))
})
