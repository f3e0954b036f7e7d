// Times that can and cannot be recovered, what becomes of prepared copies, and answers without an archive.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { client } from '@plinth/contract/client.ts'
import { pitrApi } from '@plinth/contract/pitr.ts'
import { sql } from '#src/kernel/postgres/sql.ts'
import { eventually } from './eventually.ts'
import { type Reply, startPlatform } from './harness.ts'
import { pitrOn, startPitrPlatform } from './pitr-platform.ts'
import { webhookProject } from './webhook-project.ts'

const switchSegment = `select pg_logical_emit_message(true, 'test', 'x'); select pg_switch_wal(); checkpoint`

test('pitr: times before the window, in a gap, in the future and no times at all are refused with the window', async () => {
  const platform = await startPitrPlatform()
  const beforeAll = await platform.now()
  const project = await webhookProject(platform)
  await platform.untilArchived(project.id)
  const path = `/api/v1/projects/${project.id}/pitr`
  const answer = async (method: string, route: string, body?: object): Promise<Reply> => {
    for (;;) {
      const reply = await platform.call(method, `${path}/${route}`, { token: platform.adminToken, body })
      if (reply.body.error?.code !== 'pitr_archive_behind') return reply
    }
  }
  const preview = async (target: string) => {
    const query = new URLSearchParams({ target_time: target })
    const { status, body } = await answer('GET', `restore/preview?${query}`)
    const posted = await answer('POST', 'restore', { target_time: target })
    assert.deepEqual([posted.status, posted.body], [status, body], 'a request gets the answer of the preview')
    const { window } = body.error ?? {}
    if (window)
      assert.ok(body.error.message.endsWith(`Times from ${window.from} to ${window.to} can be recovered.`))
    return { status, code: body.error?.code, window: body.error?.window }
  }
  const params = { id: project.id }
  const { window } = await platform.pitr.restorePoints({ params })
  const tooEarly = await preview(beforeAll)
  assert.deepEqual([tooEarly.status, tooEarly.code], [422, 'target_outside_window'])
  assert.equal(tooEarly.window.from, window!.from)
  const future = await preview(new Date(Date.now() + 3_600_000).toISOString())
  assert.deepEqual([future.status, future.code, future.window.from], [422, 'target_in_future', window!.from])
  for (const invalid of ['yesterday', '2030-01-31', '2030-01-31T10:00:00', ''])
    assert.deepEqual(await preview(invalid), { status: 400, code: 'invalid_request', window: undefined })
  const long = await answer('GET', 'restore/preview?target_time=2000-01-31T10:00:00Z')
  assert.match(long.body.error.message, /^The project was created after this time\. Times from /)
  for (const [target, hasHint] of [
    ['2030-01-31T10:00:00+00:00', true],
    ['2030-01-31T10:00:00+00', true],
    ['2030-01-31+10:00:00', false],
    ['2030-01-31T10:00+00:00', false],
  ] as const) {
    const { status, body } = await answer('GET', `restore/preview?target_time=${target}`)
    assert.equal(status, 400)
    assert.equal(body.error.message.endsWith('. In a URL, write the + of the offset as %2B'), hasHint, target)
  }

  // While the platform is stopped, its slot and the WAL are lost.
  await platform.app.close()
  const inGap = await platform.asSuperuser('postgres', async session => {
    const isFree = sql`select from pg_replication_slots where slot_name = 'plinth_archive' and not active`
    await eventually(() => session.row(isFree), 'the slot is free')
    await session.script(`select pg_drop_replication_slot('plinth_archive')`)
    for (let n = 0; n < 3; n++)
      for (const statement of switchSegment.split(';')) await session.script(statement)
    const row = await session.row<{ at: string }>(sql`select now()::text as at`)
    for (let n = 0; n < 3; n++)
      for (const statement of switchSegment.split(';')) await session.script(statement)
    return new Date(row!.at).toISOString()
  })
  const again = await startPlatform({ beside: platform, server: platform.server, settings: pitrOn })
  const pitr = client(pitrApi, { baseUrl: again.url, token: again.adminToken })
  await eventually(
    async () => (await pitr.restorePoints({ params })).windows!.length === 2,
    'times after the gap can be recovered',
  )
  const lost = await again.call('GET', `${path}/restore/preview?target_time=${inGap}`, {
    token: again.adminToken,
  })
  assert.deepEqual([lost.status, lost.body.error.code], [422, 'wal_gap'])
  assert.match(lost.body.error.message, /^The WAL of this time is missing in the archive\. /)
  assert.ok(lost.body.error.window.from > inGap)
  const { warnings } = await pitr.preview({ params, query: { target_time: window!.from } })
  assert.deepEqual(warnings, [
    `What has changed in the project since ${window!.from} is lost with the cutover. It is kept for 24 hours, and as a backup.`,
    'Some times before or after this one cannot be recovered, because WAL was lost.',
  ])
  const health = async () =>
    (await again.call('GET', '/api/v1/health/services', { token: again.adminToken })).body.warnings.join(' ')
  await eventually(async () => /no time from .* can be recovered/.test(await health()), 'health has the gap')
  assert.match(await health(), /on the same disk as the data/)
  const metrics = (await again.call('GET', '/metrics')).body
  assert.match(metrics, /^plinth_pitr_receiving 1$/m)
  assert.match(metrics, /^plinth_pitr_gaps 1$/m)
  const audit = sql`select from audit where action = 'pitr.gap'`
  assert.ok(await again.app.control.row(audit))
  await again.stop()
  await platform.server.stop()
})

test('pitr: a prepared copy ends with its project, by its time, or with another recovery', async () => {
  const platform = await startPitrPlatform()
  const project = await webhookProject(platform)
  await project.sql('create table notes (n int)')
  await platform.untilArchived(project.id)
  const target = await platform.now()
  await platform.call('POST', `/api/v1/projects/${project.id}/db/reset`, {
    token: platform.adminToken,
    body: { confirm: project.id },
  })
  const { points } = await platform.pitr.restorePoints({ params: { id: project.id } })
  assert.deepEqual(
    points!.map(({ kind }) => kind),
    ['reset'],
  )
  const ref = await platform.refOf(project.id)
  const copies = async () =>
    (
      await platform.app.control.rows<{ datname: string }>(
        sql`select datname from pg_database where starts_with(datname, ${ref})`,
      )
    ).map(({ datname }) => datname)
  // Postgres crashes while the copy is prepared.
  const { job } = await platform.pitr.restore({
    params: { id: project.id },
    body: { target_time: points![0]!.at },
  })
  await eventually(async () => (await copies()).length === 2, 'the copy is being made')
  await platform.server.crash()
  await eventually(
    async () => (await platform.job(project.id, job.id).catch(() => undefined))?.progress === null,
    'the job is over',
  )
  const crashed = await platform.job(project.id, job.id)
  assert.ok(['failed', 'prepared'].includes(crashed.status))

  const first = await platform.recover(project.id, target)
  assert.deepEqual([first.error, first.status], [null, 'prepared'])
  const second = await platform.recover(project.id, points![0]!.at)
  assert.equal(second.status, 'prepared')
  assert.equal((await platform.job(project.id, first.id)).status, 'expired')
  await assert.rejects(platform.cutOver(project.id, first.id), /is expired; only a prepared one/)
  assert.deepEqual((await copies()).sort(), [ref, `${ref}_recovered`])
  await platform.projects.remove({ params: { id: project.id } })
  await eventually(async () => (await copies()).length === 0, 'the copy is dropped with the project')
  await platform.stop()
})

test('pitr: with an external database the answer says what to use instead, and health warns', async () => {
  const platform = await startPlatform({ settings: pitrOn })
  const project = await platform.createProject()
  const reason =
    "Recovery to a time is for the embedded database; for the one at DATABASE_URL use its provider's, and backups here."
  const path = `/api/v1/projects/${project.id}/pitr`
  const token = platform.adminToken
  const points = await platform.call('GET', `${path}/restore-points`, { token })
  assert.deepEqual([points.status, points.body], [200, { enabled: false, reason }])
  for (const [method, rest, body] of [
    ['GET', 'restore/preview?target_time=2030-01-31T10:00:00Z', undefined],
    ['POST', 'restore', { target_time: '2030-01-31T10:00:00Z' }],
  ] as const) {
    const refused = await platform.call(method, `${path}/${rest}`, { token, body })
    assert.deepEqual(
      [refused.status, refused.body],
      [409, { error: { code: 'pitr_unavailable', message: reason } }],
    )
  }
  const jobs = await platform.call('GET', `${path}/jobs`, { token })
  assert.deepEqual([jobs.status, jobs.body.jobs, jobs.body.total], [200, [], 0])
  const { body } = await platform.call('GET', '/api/v1/health/services', { token })
  assert.ok(body.warnings.some((each: string) => each.startsWith('PLATFORM_PITR is on, but has no effect')))
  await platform.stop()
})
