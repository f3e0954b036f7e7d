// Recovery to a time on a platform as an operator runs it: killed at several moments, cut over on the host, and switched off.
import assert from 'node:assert/strict'
import { randomUUID } from 'node:crypto'
import fs from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { isDataDirectoryLocked } from '#src/kernel/data-directory.ts'
import { engineFiles } from '#src/kernel/postgres/engine/place.ts'
import { connectAsSuperuser, postmastersIn } from './data-dir.ts'
import { eventually } from './eventually.ts'
import { heldIn } from './held-logins.ts'
import {
  ask,
  jobOf,
  notes,
  now,
  pitr,
  projectWithNotes,
  recoveriesIn,
  request,
  untilMaintained,
  untilOver,
} from './pitr-host.ts'
import { crash, exitOf, platformProcesses, stop } from './platform-process.ts'

const { launch, start, failureOf, dataDirWithProject } = platformProcesses()
const env = { PLATFORM_PITR: 'on' }

test('pitr: killed while it prepares, the platform prepares again, and the cutover on the host is killed too', async () => {
  const dataDir = await dataDirWithProject('pitr-killed')
  let platform = await start({ dataDir, env })
  const { project, target } = await projectWithNotes(platform, 'killed')
  const id = await request(platform, project, target)
  await eventually(() => recoveriesIn(dataDir).length > 0, 'the second server is being made')
  await crash(platform)
  platform = await start({ dataDir, env })
  await ask(dataDir, 'plinth', `update pitr_jobs set leased_until = now()`)
  const { ref } = (await ask(dataDir, 'plinth', `select ref from projects where id = '${project.id}'`))[0]
  const prepared = await untilOver(platform, project, id)
  assert.deepEqual([prepared.error, prepared.status], [null, 'prepared'])
  assert.deepEqual(recoveriesIn(dataDir), [])

  const cutover = launch({ dataDir, env, args: ['pitr-cutover', id] })
  await eventually(
    async () => (await jobOf(platform, project, id)).status !== 'prepared',
    'the cutover has begun',
  )
  await crash(platform)
  assert.match(await exitOf(cutover), /[01]/)
  platform = await start({ dataDir, env })
  await ask(dataDir, 'plinth', `update pitr_jobs set leased_until = now() where status = 'cutting_over'`)
  const done = await untilOver(platform, project, id)
  assert.deepEqual([done.error, done.status], [null, 'done'])
  assert.deepEqual(await notes(platform, project), [1])
  // A verification that the platform begins by itself has a database for a moment.
  const databases = `select datname from pg_database where datname like '${ref}%' and datname not like '%_verify' order by 1`
  assert.deepEqual(await ask(dataDir, 'plinth', databases), [{ datname: ref }, { datname: `${ref}_before` }])
  assert.match(await failureOf({ dataDir, env, args: ['pitr-cutover', id] }), /is done; only a prepared one/)

  // Off: the slot is dropped, so that no WAL is kept, and the routes say why.
  await stop(platform)
  platform = await start({ dataDir })
  await eventually(
    async () => (await ask(dataDir, 'plinth', 'select from pg_replication_slots')).length === 0,
    'the slot is dropped',
  )
  const off = await pitr(platform, project, 'GET', 'restore-points')
  assert.deepEqual([off.status, off.body.enabled], [200, false])
  assert.match(off.body.reason, /PLATFORM_PITR=on/)
  const refused = await pitr(platform, project, 'POST', 'restore', { target_time: target })
  assert.deepEqual([refused.status, refused.body.error.code], [409, 'pitr_unavailable'])
  await stop(platform)
})

test('pitr: a start with recovery off removes what a killed one has left, and ends its jobs', async () => {
  const dataDir = await dataDirWithProject('pitr-killed-off')
  let platform = await start({ dataDir, env })
  const { project, target } = await projectWithNotes(platform, 'off')
  const preparing = await request(platform, project, target)
  const runs = () =>
    recoveriesIn(dataDir).some(
      name => postmastersIn(join(engineFiles(dataDir).clusterDir, '..', name, 'postgres')).length > 0,
    )
  await eventually(runs, 'the second server runs')
  await crash(platform)
  assert.ok(recoveriesIn(dataDir).length > 0, 'its files outlive the platform')
  const untilNothingIsLeft = () =>
    eventually(
      async () =>
        recoveriesIn(dataDir).length === 0 &&
        !fs.existsSync(join(dataDir, 'recovered')) &&
        (await ask(dataDir, 'plinth', `select from pg_database where datname like '%_recovered'`)).length ===
          0,
      'nothing is left',
    )
  platform = await start({ dataDir })
  await untilNothingIsLeft()
  assert.ok(!runs())
  const jobs = () => ask(dataDir, 'plinth', `select id, status from pitr_jobs order by created_at`)
  assert.deepEqual(await jobs(), [{ id: preparing, status: 'failed' }])
  await stop(platform)

  platform = await start({ dataDir, env })
  // The window from before the switch-off is there at once.
  await untilMaintained(platform)
  const id = await request(platform, project, await now(dataDir))
  assert.equal((await untilOver(platform, project, id)).status, 'prepared')
  const { ref } = (await ask(dataDir, 'plinth', `select ref from projects where id = '${project.id}'`))[0]
  // The backup before the cutover waits for this lock.
  const holding = await connectAsSuperuser(dataDir, ref)
  await holding.query('begin; lock table notes in access exclusive mode')
  const cutover = launch({ dataDir, env, args: ['pitr-cutover', id] })
  const running = `select from restores r join backups b on b.id = r.before_backup_id
    where r.status = 'running' and b.status = 'running'`
  await eventually(async () => (await ask(dataDir, 'plinth', running)).length === 1, 'the cutover has begun')
  await crash(platform)
  await exitOf(cutover)
  await holding.end()
  platform = await start({ dataDir })
  await untilNothingIsLeft()
  assert.deepEqual((await jobs())[1], { id, status: 'failed' })
  const ended = `select r.status, r.error, b.status as backup from restores r join backups b on b.id = r.before_backup_id`
  assert.deepEqual(await ask(dataDir, 'plinth', ended), [
    { status: 'failed', error: 'Recovery to a time was switched off.', backup: 'failed' },
  ])
  assert.deepEqual(await notes(platform, project), [1, 2])
  await stop(platform)
})

/** Until the role is dropped, a request of a cutover waits. */
const holdRequests = `
  create role hold_requests;
  create function hold_requests() returns trigger language plpgsql as $$ begin
    while exists (select from pg_roles where rolname = 'hold_requests') loop perform pg_sleep(0.02); end loop;
    return null;
  end $$;
  create trigger hold_requests before update on pitr_jobs for each statement execute function hold_requests()`

test('pitr: while a cutover is requested for a stopped platform, no platform starts', async () => {
  const dataDir = await dataDirWithProject('pitr-request-later')
  const platform = await start({ dataDir, env })
  await ask(dataDir, 'plinth', holdRequests)
  await stop(platform)

  const request = launch({ dataDir, env, args: ['pitr-cutover', randomUUID()] })
  const isHeld = () => ask(dataDir, 'plinth', heldIn('plinth')).then(rows => rows.length > 0)
  await eventually(() => request.hasEnded || isHeld().catch(() => false), 'its statement waits')
  assert.match(await failureOf({ dataDir, env }), /Another platform .* uses/)
  await eventually(isHeld, 'its Postgres still runs')
  await ask(dataDir, 'plinth', 'drop role hold_requests')
  assert.equal(await exitOf(request), '1')
  assert.match(request.stderr, /There is no recovery/)
  assert.ok(!isDataDirectoryLocked(dataDir))
})
