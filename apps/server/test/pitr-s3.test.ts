// The archive for recovery to a time in S3, also in a service that fails or hangs.
import assert from 'node:assert/strict'
import { randomUUID } from 'node:crypto'
import fs from 'node:fs'
import { join } from 'node:path'
import { after, before, test } from 'node:test'
import { openBackupPieces } from '#src/kernel/objects/open-pieces.ts'
import type { Pieces } from '#src/kernel/objects/pieces.ts'
import { usualTimeouts } from '#src/kernel/objects/s3.ts'
import { type Session, withClient } from '#src/kernel/postgres/database.ts'
import { baseFolder, baseIdIn, walFolder } from '#src/kernel/postgres/recovery/archive-layout.ts'
import { readSystemId } from '#src/kernel/postgres/recovery/wal-archive.ts'
import { sql } from '#src/kernel/postgres/sql.ts'
import { controlSettings } from '#src/tenancy/cluster.ts'
import { eventually } from './eventually.ts'
import { startPlatform, type TestPlatform } from './harness.ts'
import { type PitrPlatform, pitrOn, startPitrPlatform } from './pitr-platform.ts'
import { type S3Proxy, startS3Proxy } from './s3-proxy.ts'
import { type S3Server, startS3 } from './s3-server.ts'
import { type WebhookProject, webhookProject } from './webhook-project.ts'

/** Short only while the service hangs. */
const timeouts = { ...usualTimeouts }
let s3: S3Server
let proxy: S3Proxy
let settings: Record<string, string>
let platform: PitrPlatform
let pieces: Pieces
let systemId: string
let project: WebhookProject
before(async () => {
  s3 = await startS3()
  const { endpoint, bucket, accessKeyId, secretAccessKey } = s3.settings
  proxy = await startS3Proxy(endpoint!)
  settings = {
    ...pitrOn,
    BACKUP_S3_BUCKET: bucket,
    BACKUP_S3_ENDPOINT: proxy.url,
    BACKUP_S3_ACCESS_KEY_ID: accessKeyId,
    BACKUP_S3_SECRET_ACCESS_KEY: secretAccessKey,
  }
  platform = await startPitrPlatform(settings, timeouts)
  pieces = await openBackupPieces({
    dataDir: platform.config.dataDir,
    backups: { directory: undefined, s3: s3.settings },
  })
  systemId = await readSystemId(platform.address)
  project = await webhookProject(platform)
  await project.sql('create table notes (n int)')
  await platform.untilArchived(project.id)
})
after(async () => {
  await platform?.stop()
  await pieces?.close()
  proxy?.close()
  await s3?.stop()
})

async function insert(n: number): Promise<void> {
  const path = `/v1/rest/${project.id}/notes`
  const { status } = await platform.call('POST', path, { token: project.service_role_key, body: { n } })
  assert.equal(status, 201)
}

/** The next change is in another segment, and this one, which is returned, can be stored. */
const endSegment = () =>
  platform.asSuperuser('postgres', async session => {
    await session.run(sql`select pg_logical_emit_message(true, 'test', 'x')`)
    const row = await session.row<{ name: string }>(sql`select pg_walfile_name(pg_switch_wal()) as name`)
    return row!.name.toLowerCase()
  })

async function isStored(segment: string): Promise<boolean> {
  for await (const { name } of pieces.list(walFolder(systemId)))
    if (name.includes(`-${segment}-`) && name.includes('~')) return true
  return false
}

/** Not those of the verification of backups, which fails as well and is tried again later. */
const warnings = async (of: TestPlatform = platform): Promise<string[]> => {
  const { body } = await of.call('GET', '/api/v1/health/services', { token: of.adminToken })
  return body.warnings.filter((each: string) => each.startsWith('Recovery to a time:'))
}

async function assertRecovered(target: string, numbers: readonly number[]): Promise<void> {
  const job = await platform.recover(project.id, target)
  assert.deepEqual([job.error, job.status], [null, 'prepared'])
  assert.equal((await platform.cutOver(project.id, job.id)).error, null)
  assert.deepEqual(
    await project.rows('select n from public.notes order by n'),
    numbers.map(n => ({ n })),
  )
}

test('pitr: base backups and WAL are in S3, and a project is recovered from there', async () => {
  await insert(1)
  const first = await endSegment()
  await insert(2)
  const target = await platform.now()
  await insert(3)
  const second = await endSegment()
  for (const segment of [first, second]) await eventually(() => isStored(segment), 'the segment is in S3')
  const [backup] = (await platform.pitr.restorePoints({ params: { id: project.id } })).base_backups!
  const files = []
  for await (const file of pieces.list(baseFolder(systemId, backup!.id))) files.push(file)
  assert.ok(files.length > 3)
  assert.ok(!fs.existsSync(join(platform.config.dataDir, 'backups')), 'nothing is in the data directory')
  await assertRecovered(target, [1, 2])
  assert.deepEqual(await warnings(), [])
})

for (const [mode, n] of [
  ['failing', 10],
  ['silent', 20],
] as const)
  test(`pitr: while S3 is ${mode}, health says so, the database goes on, and no WAL is lost`, async () => {
    await project.sql('truncate notes')
    proxy.mode = mode
    if (mode !== 'failing') Object.assign(timeouts, { requestMs: 300, idleMs: 100 })
    let target: string
    try {
      for (let more = 1; more <= 4; more++) {
        await insert(n + more)
        await endSegment()
      }
      target = await platform.now()
      await insert(n + 5)
      const reported = await eventually(
        async () => (await warnings()).find(each => each.includes('cannot be stored')),
        'health has the failure',
      )
      assert.match(reported, /^Recovery to a time: .* The S3 service of the archive cannot be reached/)
      const answer = await platform.call('POST', `/api/v1/projects/${project.id}/pitr/restore`, {
        token: platform.adminToken,
        body: { target_time: target },
      })
      assert.deepEqual([answer.status, answer.body.error.code], [503, 'pitr_archive_behind'])
      await insert(n + 6)
    } finally {
      proxy.mode = 'forwarding'
      Object.assign(timeouts, usualTimeouts)
      // A request that was sent before has the usual timeouts.
      proxy.drop()
    }
    await eventually(async () => (await warnings()).length === 0, 'the warning ends')
    const { windows } = await platform.pitr.restorePoints({ params: { id: project.id } })
    assert.equal(windows!.length, 1, 'there is no gap')
    await assertRecovered(target, [n + 1, n + 2, n + 3, n + 4])
  })

test('pitr: while S3 does not answer from the start on, WAL waits in the spool, requests get 503, and the platform stops', async () => {
  await insert(100)
  await platform.app.close()
  // The start itself lists a single object.
  proxy.modeOf = ({ url }) => (/[?&]max-keys=1(&|$)/.test(url!) ? 'forwarding' : 'silent')
  const waiting = randomUUID()
  const inControl = <T>(work: (session: Session) => Promise<T>) =>
    withClient(platform.address, platform.control, controlSettings, work)
  await inControl(session =>
    session.run(
      sql`insert into pitr_jobs (id, project_id, target_time) values (${waiting}, ${project.id}, now())`,
    ),
  )
  const again = await startPlatform({
    beside: platform,
    server: platform.server,
    settings,
    s3Timeouts: timeouts,
  })
  try {
    await eventually(
      async () => /^plinth_pitr_receiving 1$/m.test((await again.call('GET', '/metrics')).body),
      'WAL is received',
    )
    for (const path of ['restore-points', `restore/preview?target_time=${await platform.now()}`]) {
      const { status, body } = await again.call('GET', `/api/v1/projects/${project.id}/pitr/${path}`, {
        token: again.adminToken,
      })
      assert.deepEqual([status, body.error?.code], [503, 'pitr_archive_behind'])
    }
  } finally {
    await again.app.close()
    proxy.modeOf = undefined
  }
  const job = await inControl(session =>
    session.row<{ status: string }>(sql`select status from pitr_jobs where id = ${waiting}`),
  )
  assert.equal(job!.status, 'preparing', 'the next start begins it again')
})

test('pitr: while S3 takes no base backup, health and the audit log say why, and the next start makes one', async () => {
  // The test before has closed the platform.
  for await (const folder of pieces.folders())
    if (baseIdIn(systemId, folder) !== undefined) await pieces.removeFolder(folder)
  const restart = () =>
    startPlatform({ beside: platform, server: platform.server, settings, s3Timeouts: timeouts })
  const audit = ({ app }: TestPlatform, action: string) =>
    app.control.rows<{ target: string }>(
      sql`select target from audit where action = ${action} order by id desc`,
    )
  const ofBaseBackup = new RegExp(`${systemId}-[0-9a-f]{8}-`)
  proxy.modeOf = ({ method, url }) => (method !== 'GET' && ofBaseBackup.test(url!) ? 'failing' : 'forwarding')
  const failing = await restart()
  try {
    const reason = 'The S3 service of the archive cannot be reached, or has failed.'
    await eventually(
      async () =>
        (await warnings(failing)).includes(`Recovery to a time: the last base backup has failed. ${reason}`),
      'health has the failure',
    )
    await eventually(
      async () => (await audit(failing, 'pitr.base_backup_failed'))[0]?.target === reason,
      'the audit log has it',
    )
    const { body } = await failing.call('GET', `/api/v1/projects/${project.id}/pitr/restore-points`, {
      token: failing.adminToken,
    })
    assert.deepEqual([body.enabled, body.window, body.base_backups], [true, null, []])
  } finally {
    await failing.app.close()
    proxy.modeOf = undefined
  }
  const again = await restart()
  try {
    await eventually(
      async () => (await audit(again, 'pitr.base_backup_made')).length === 2,
      'a base backup is made',
    )
    assert.deepEqual(await warnings(again), [])
  } finally {
    await again.app.close()
  }
})
