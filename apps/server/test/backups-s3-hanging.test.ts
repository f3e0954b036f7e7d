// Backups on an S3 service that hangs.
import assert from 'node:assert/strict'
import type { IncomingMessage } from 'node:http'
import { after, before, test } from 'node:test'
import { usualTimeouts } from '#src/kernel/objects/s3.ts'
import { raw, sql } from '#src/kernel/postgres/sql.ts'
import { verifyOf } from '#src/tenancy/provision.ts'
import { type BackedUpProject, backedUpProject } from './backup-project.ts'
import { eventually } from './eventually.ts'
import { type PlatformOptions, startPlatform, type TestPlatform } from './harness.ts'
import { type Mode, type S3Proxy, startS3Proxy } from './s3-proxy.ts'
import { type S3Server, startS3 } from './s3-server.ts'

/** Short only while the service hangs. */
const timeouts = { ...usualTimeouts }
const reason = 'The S3 service for backups cannot be reached, or has failed.'
let s3: S3Server
let proxy: S3Proxy
let platform: TestPlatform
let project: BackedUpProject
let options: PlatformOptions
before(async () => {
  s3 = await startS3()
  const { endpoint, bucket, accessKeyId, secretAccessKey } = s3.settings
  proxy = await startS3Proxy(endpoint!)
  options = {
    settings: {
      BACKUP_S3_BUCKET: bucket,
      BACKUP_S3_ENDPOINT: proxy.url,
      BACKUP_S3_ACCESS_KEY_ID: accessKeyId,
      BACKUP_S3_SECRET_ACCESS_KEY: secretAccessKey,
      PLATFORM_STATEMENT_TIMEOUT_MS: '120000',
    },
    s3Timeouts: timeouts,
  }
  platform = await startPlatform(options)
  project = await backedUpProject(platform)
  await project.backups.configure({ params: { id: project.id }, body: { verify_enabled: false } })
  // Several pieces.
  await project.sql(`
    create table things (id int, text text);
    insert into things select n, string_agg(md5(n::text || m), '') from generate_series(1, 2000) n, generate_series(1, 300) m group by n`)
})
after(async () => {
  await platform?.stop()
  proxy?.close()
  await s3?.stop()
})

/** The service hangs from the first request on that the function selects. */
async function hanging<T>(
  mode: Mode,
  selects: (request: IncomingMessage) => boolean,
  work: () => Promise<T>,
): Promise<T> {
  let isHanging = false
  proxy.modeOf = request => {
    isHanging ||= selects(request)
    return isHanging ? mode : 'forwarding'
  }
  // A service that is slower than that before it hangs makes no difference.
  Object.assign(timeouts, { requestMs: 1000, idleMs: 200 })
  try {
    return await work()
  } finally {
    proxy.modeOf = undefined
    Object.assign(timeouts, usualTimeouts)
  }
}

const nth = (n: number, method: string) => {
  let count = 0
  return (request: IncomingMessage) => request.method === method && ++count === n
}

async function assertNothingLeft(): Promise<void> {
  await eventually(() => proxy.open === 0, 'no request is left')
  const ref = await platform.refOf(project.id)
  const left = () =>
    platform.asSuperuser('postgres', session =>
      session.rows(sql`
        select datname as name from pg_database where datname = ${verifyOf(ref)}
        union all select query from pg_stat_activity
         where datname = ${ref} and (state = 'idle in transaction' or query ilike 'copy%')`),
    )
  await eventually(async () => (await left()).length === 0, 'no database and no session is left')
  const tasks = await platform.app.control.rows(raw('select kind from backup_tasks'))
  assert.deepEqual(tasks, [])
}

for (const [mode, n] of [
  ['silent', 1],
  ['stalling', 4],
] as const)
  test(`backups: a backup to an S3 service that hangs fails and says so, and the next one succeeds (${mode}, at upload ${n})`, async () => {
    const failed = await hanging(mode, nth(n, 'PUT'), async () => {
      const { id } = await project.backups.create({ params: { id: project.id } })
      const answer = await platform.call('POST', `/v1/rest/${project.id}/things`, {
        token: project.service_role_key,
        body: { id: 0 },
      })
      assert.equal(answer.status, 201)
      return project.ended(id)
    })
    assert.deepEqual([failed.status, failed.error], ['failed', reason])
    await assertNothingLeft()
    const next = await project.backUp()
    assert.deepEqual([next.status, next.error], ['done', null])
  })

for (const [mode, n] of [
  ['silent', 5],
  ['stalling', 1],
] as const)
  test(`backups: a verification from an S3 service that hangs ends, does not blame the backup, and can be repeated (${mode}, at download ${n})`, async () => {
    const backup = await project.backUp()
    const unverified = await hanging(mode, nth(n, 'GET'), () => project.verify(backup.id))
    assert.deepEqual([unverified.verify_error, unverified.verified_at], [`Not verified: ${reason}`, null])
    await assertNothingLeft()
    const verified = await project.verify(backup.id)
    assert.deepEqual([verified.verify_error, verified.verified_at !== null], [null, true])
  })

test('backups: a restore from an S3 service that hangs fails, and the project is unchanged', async () => {
  const backup = await project.backUp()
  await project.sql('create table later (id int)')
  // Not the manifest, which is the file 0.
  const selects = ({ method, url }: IncomingMessage) =>
    method === 'GET' && new RegExp(`${backup.id}-1-[1-9a-f]`).test(url!)
  const failed = await hanging('stalling', selects, () => project.restore(backup.id))
  assert.deepEqual([failed.status, failed.error], ['failed', reason])
  assert.deepEqual(await project.rows('select from public.later'), [])
  await assertNothingLeft()
})

test('backups: the platform stops while an S3 service hangs', { timeout: 600_000 }, async () => {
  const patient = { requestMs: 600_000, idleMs: 600_000 }
  const node = await startPlatform({ ...options, s3Timeouts: patient })
  try {
    const { id } = await node.createProject()
    const backedUp = `/api/v1/projects/${id}/backups`
    proxy.modeOf = ({ url }) => (url!.includes(id) ? 'silent' : 'forwarding')
    assert.equal((await node.call('POST', backedUp, { token: node.adminToken })).status, 202)
    await eventually(() => proxy.open > 0, 'a request hangs')
  } finally {
    await node.stop()
    proxy.modeOf = undefined
  }
})
