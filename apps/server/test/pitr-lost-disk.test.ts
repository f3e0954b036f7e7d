// The disk with the data directory is lost. The archive on another one and CONTROL_PLANE_SECRET are left.
import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import fs from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { keyring } from '#src/kernel/crypto/keys.ts'
import { storedSecrets } from '#src/kernel/data-directory.ts'
import { openDirectoryPieces } from '#src/kernel/objects/filesystem.ts'
import { engineFiles, locate } from '#src/kernel/postgres/engine/place.ts'
import { systemIds } from '#src/kernel/postgres/recovery/archived-segments.ts'
import { planLatest, readCatalogue } from '#src/kernel/postgres/recovery/catalogue.ts'
import { distance } from '#src/kernel/postgres/recovery/wal-position.ts'
import { restoreSpool } from '#src/kernel/postgres/recovery/wal-tail.ts'
import { archiveStoreOf } from '#src/services/pitr/archive.ts'
import { connectAsSuperuser, postmastersIn } from './data-dir.ts'
import { eventually } from './eventually.ts'
import { call } from './harness.ts'
import { crash, createProject, exitOf, manage, platformProcesses, sigkill, stop } from './platform-process.ts'

const { root, launch, start, failureOf, dataDirWithProject, newDataDir } = platformProcesses()

test('pitr: after the loss of the disk, the instance is recovered from the archive and the secret alone', async () => {
  const dataDir = await dataDirWithProject('lost')
  const backups = join(root, 'other-disk')
  const secret = storedSecrets(dataDir).CONTROL_PLANE_SECRET!
  const env = { PLATFORM_PITR: 'on', PLATFORM_BACKUP_DIR: backups, CONTROL_PLANE_SECRET: secret }
  let platform = await start({ dataDir, env })
  const project = await createProject(platform, 'lost')
  const rest = (method: string, path: string, body?: unknown) =>
    call(`${platform.url}/v1/rest/${project.id}/${path}`, method, { token: project.service_role_key, body })
  await rest('POST', 'rpc/exec_sql', { sql: 'create table notes (n int)' })
  await eventually(
    async () => (await manage(platform, 'GET', `/projects/${project.id}/pitr/restore-points`)).body.window,
    'the first base backup is made',
  )
  for (const n of [1, 2, 3]) assert.equal((await rest('POST', 'notes', { n })).status, 201)
  const client = await connectAsSuperuser(dataDir, 'plinth')
  const { lsn } = (await client.query('select pg_current_wal_flush_lsn()::text as lsn')).rows[0]
  await client.end()

  const pieces = await openDirectoryPieces(backups)
  const [system] = await systemIds(pieces)
  /** What is left without the data directory. */
  const left = async () => {
    const empty = { ...locate(dataDir), dataDir: fs.mkdtempSync(join(root, 'empty-')) }
    const store = archiveStoreOf({ place: empty, pieces, deriveKey: keyring(secret) }, system!)
    await restoreSpool(store)
    return planLatest(await readCatalogue(store)).wal.toLsn
  }
  await eventually(async () => {
    // A piece may be replaced meanwhile.
    const end = await left().catch(() => undefined)
    return end !== undefined && distance(end, lsn) === 0
  }, 'the last row is in the archive')

  await crash(platform)
  const { clusterDir, remove } = engineFiles(dataDir)
  for (const pid of postmastersIn(clusterDir)) sigkill(pid)
  await eventually(() => postmastersIn(clusterDir).length === 0, 'Postgres has ended')
  for (const path of remove) fs.rmSync(path, { recursive: true, force: true, maxRetries: 20, retryDelay: 50 })

  const args = ['pitr-recover-instance']
  const elsewhere = newDataDir('nothing')
  const { CONTROL_PLANE_SECRET: _, ...withoutSecret } = env
  assert.match(await failureOf({ dataDir: elsewhere, env: withoutSecret, args }), /^Set CONTROL_PLANE_SECRET/)
  const wrong = { ...env, CONTROL_PLANE_SECRET: randomBytes(32).toString('hex') }
  assert.match(await failureOf({ dataDir: elsewhere, env: wrong, args }), /is not that of the lost instance/)
  const tooEarly = [...args, '--target-time', '2020-01-31T10:00:00Z']
  assert.match(
    await failureOf({ dataDir: elsewhere, env, args: tooEarly }),
    /Times that can be recovered: 20/,
  )
  assert.ok(!fs.existsSync(join(elsewhere, 'wal')), 'a command that fails leaves no WAL')
  const unknown = [...args, '--system', '0'.repeat(16)]
  assert.match(await failureOf({ dataDir: elsewhere, env, args: unknown }), new RegExp(`--system: ${system}`))

  // A byte of the latest WAL, near its end.
  const pieceOf = (name: string) => /^[0-9a-f]{16}-[0-9a-f]{24}-[0-9a-f]+~[0-9a-f]+$/.test(name)
  const stored = fs
    .readdirSync(backups, { recursive: true, withFileTypes: true })
    .filter(each => pieceOf(each.name))
  const [last] = stored.toSorted((one, other) => (one.name < other.name ? 1 : -1))
  const file = join(last!.parentPath, last!.name)
  const intact = fs.readFileSync(file)
  fs.writeFileSync(file, intact.with(intact.length - 20, intact.at(-20)! ^ 1))
  const damaged = await failureOf({ dataDir: elsewhere, env, args })
  assert.match(
    damaged,
    // A piece that it has replaced may not be removed yet.
    new RegExp(
      `^The latest commit cannot be recovered. The latest WAL is damaged in [^:]*/${last!.name}[,:]`,
    ),
  )
  assert.ok(!fs.existsSync(join(elsewhere, 'wal')), 'it leaves no WAL')
  fs.writeFileSync(file, intact)

  const recovery = launch({ dataDir, env, args })
  assert.equal(await exitOf(recovery), '0', recovery.stderr)
  const answer = JSON.parse(recovery.stdout)
  assert.deepEqual([answer.system, answer.target_time], [system, null])
  assert.match(
    await failureOf({ dataDir, env, args }),
    /exists\. This command is for an empty data directory/,
  )

  platform = await start({ dataDir, env })
  const { body: notes } = await rest('GET', 'notes?order=n')
  assert.deepEqual(
    notes.map(({ n }: { n: number }) => n),
    [1, 2, 3],
  )
  await eventually(async () => {
    const { body } = await manage(platform, 'GET', `/projects/${project.id}/pitr/restore-points`)
    return body.base_backups?.length === 2
  }, 'the archive goes on with a new base backup')
  await stop(platform)
})
