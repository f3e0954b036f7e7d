// kill -9 of the command that recovers the whole instance and of each Postgres that it starts, and a full disk.
import assert from 'node:assert/strict'
import fs from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { setImmediate } from 'node:timers/promises'
import type { CreatedProject } from '@plinth/contract/projects.ts'
import type pg from 'pg'
import { engineFiles } from '#src/kernel/postgres/engine/place.ts'
import { isRunning } from '#src/kernel/running-process.ts'
import { postmasterPid, postmastersIn, postmastersOf } from './data-dir.ts'
import { eventually } from './eventually.ts'
import { connectToSecondServer, secondServers } from './pitr-holds.ts'
import {
  ask,
  jobOf,
  notes,
  now,
  pitr,
  projectWithNotes,
  recoveriesIn,
  recoverNow,
  request,
  rest,
  untilMaintained,
  untilOver,
} from './pitr-host.ts'
import {
  exitOf,
  type PlatformProcess,
  platformProcesses,
  type RunningPlatform,
  sigkill,
  stop,
} from './platform-process.ts'

const { launch, start, dataDirWithProject } = platformProcesses()
const env = { PLATFORM_PITR: 'on' }
const mebibyte = 1024 * 1024

async function prepared(platform: RunningPlatform, project: CreatedProject, target: string): Promise<string> {
  const id = await request(platform, project, target)
  const job = await untilOver(platform, project, id)
  assert.deepEqual([job.error, job.status], [null, 'prepared'])
  return id
}

async function untilBaseBackups(platform: RunningPlatform, project: CreatedProject, count: number) {
  await eventually(
    async () => (await pitr(platform, project, 'GET', 'restore-points')).body.base_backups?.length === count,
    `there are ${count} base backups`,
  )
  await untilMaintained(platform)
}

/**
 * The second server, which has fewer connections, waits while the role exists: where it gets the records of backups. A file
 * of the control database is larger than any segment of WAL.
 */
const held = `
  create role hold_cutover;
  create function hold_cutover() returns trigger language plpgsql as $$ begin
    while current_setting('max_connections')::int < 100 and exists (select from pg_roles where rolname = 'hold_cutover')
    loop perform pg_sleep(0.02); end loop;
    return null;
  end $$;
  create trigger hold_cutover before delete on backups for each statement execute function hold_cutover();
  create table large (text text) with (autovacuum_enabled = off, toast.autovacuum_enabled = off);
  alter table large alter column text set storage external;
  insert into large select repeat('x', ${mebibyte}) from generate_series(1, 24)`

const release = 'drop role hold_cutover'

/** A session on the second server while that waits, or undefined if the command has ended before. */
async function untilHeld(run: PlatformProcess): Promise<pg.Client | undefined> {
  const isHeld = `select from pg_stat_activity where datname = 'plinth' and wait_event = 'PgSleep'`
  const found = await eventually(async () => {
    if (run.hasEnded) return { client: undefined }
    const client = await connectToSecondServer(run.dataDir, 'postgres')
    const rows = await client?.query(isHeld).then(
      result => result.rows,
      () => [],
    )
    if (rows && rows.length > 0) return { client }
    await client?.end().catch(() => {})
    return
  }, 'the second server waits')
  return found.client
}

/** Kills the main one, which the command starts again by itself. */
async function killPostgres(dataDir: string): Promise<void> {
  const sessions: { pid: number }[] = await ask(dataDir, 'postgres', 'select pid from pg_stat_activity')
  sigkill(postmasterPid(dataDir))
  await eventually(() => !sessions.some(isRunning), 'its sessions have ended')
}

function killSecondServer(dataDir: string): void {
  for (const pid of secondServers(dataDir)) sigkill(pid)
}

/** What the command leaves when it fails: the cluster in its place, and nothing else. */
async function assertUnchanged(dataDir: string): Promise<void> {
  const { clusterDir } = engineFiles(dataDir)
  const others = fs
    .readdirSync(join(clusterDir, '..'))
    .filter(name => /^(cluster-exchange|postgres-|recovery-)/.test(name))
  assert.deepEqual(others, [])
  assert.ok(fs.existsSync(join(clusterDir, 'PG_VERSION')))
  assert.ok(!fs.existsSync(join(dataDir, 'platform.lock')))
  // Sessions of a postmaster that was killed end soon.
  await eventually(() => postmastersOf(dataDir).length === 0, 'no Postgres runs')
}

test('pitr: after kill -9 of either Postgres, or with a full disk, a recovery of the instance has changed nothing, and can be repeated', {
  skip: process.platform !== 'linux' && 'needs ulimit as on Linux',
}, async () => {
  const dataDir = await dataDirWithProject('pitr-instance-postgres')
  let platform = await start({ dataDir, env })
  const { project } = await projectWithNotes(platform, 'postgres')
  // After the base backup, so that the large file is made by replay.
  await ask(dataDir, 'plinth', held)
  const target = await now(dataDir)
  await rest(platform, project, 'POST', 'notes', { n: 3 })
  const id = await prepared(platform, project, target)
  await stop(platform)
  const args = ['pitr-cutover', '--instance', id]
  const cutOver = () => launch({ dataDir, env, args })
  const unchanged = 'The instance is unchanged, because the cutover has failed'
  async function assertFailed(run: PlatformProcess, reason: RegExp): Promise<void> {
    assert.equal(await exitOf(run), '1', run.stderr)
    assert.match(run.stderr, new RegExp(`^${unchanged}: ${reason.source}\n$`))
    await assertUnchanged(dataDir)
  }
  const stopped = /Postgres was stopped or killed meanwhile\. Run the command again\./

  // The main one, while the second is made, and while the second gets the records.
  let run = cutOver()
  await eventually(() => run.hasEnded || recoveriesIn(dataDir).length > 0, 'the second one is made')
  await killPostgres(dataDir)
  let session = await untilHeld(run)
  if (session) {
    await killPostgres(dataDir)
    await session.query(release)
  }
  await assertFailed(run, stopped)

  // The second one, while it replays, and while it gets the records.
  run = cutOver()
  await eventually(() => run.hasEnded || secondServers(dataDir).length > 0, 'the second one runs')
  killSecondServer(dataDir)
  if (await untilHeld(run)) killSecondServer(dataDir)
  await assertFailed(run, /(Postgres was|recovery failed: Postgres ended with) [^\n]+/)

  // The second one, which is shut down before the exchange. It does not react before it is killed.
  run = cutOver()
  session = await untilHeld(run)
  const [second] = secondServers(dataDir)
  process.kill(second!, 'SIGSTOP')
  await session!.query(release)
  await eventually(() => postmastersOf(dataDir).length === 0, 'the main one is shut down')
  sigkill(second!)
  await assertFailed(
    run,
    /recovery failed: the second server ended with signal SIGKILL before it was shut down/,
  )

  // The second one has no space for a file.
  run = launch({ dataDir, env, args, fileSizeLimit: 20 * mebibyte })
  await assertFailed(run, /recovery failed: .*could not extend file .*: File too large.*/)

  platform = await start({ dataDir, env })
  assert.deepEqual(await notes(platform, project), [1, 2, 3])
  assert.equal((await jobOf(platform, project, id)).status, 'prepared')
  await untilBaseBackups(platform, project, 1)
  await stop(platform)

  // The main one, while it is shut down: by then nothing reads it.
  run = cutOver()
  session = await untilHeld(run)
  const main = postmasterPid(dataDir)
  process.kill(main, 'SIGSTOP')
  await session!.query(release)
  const users = `select from pg_stat_activity where datname = 'plinth'`
  await eventually(async () => (await session!.query(users)).rows.length === 0, 'the records are there')
  sigkill(main)
  assert.equal(await exitOf(run), '0', run.stderr)
  assert.ok(fs.existsSync(join(JSON.parse(run.stdout).kept, 'PG_VERSION')))
  assert.deepEqual(recoveriesIn(dataDir), [])
  platform = await start({ dataDir, env })
  assert.deepEqual(await notes(platform, project), [1, 2])
  await stop(platform)
})

test('pitr: a recovery of the instance that is killed has changed nothing, or the next start ends it', async () => {
  const dataDir = await dataDirWithProject('pitr-instance-killed')
  let platform = await start({ dataDir, env })
  const { project, target } = await projectWithNotes(platform, 'killed')
  const id = await prepared(platform, project, target)
  const { clusterDir } = engineFiles(dataDir)
  const home = join(clusterDir, '..')
  const steps: { what: string; isReached(): boolean }[] = [
    { what: 'files are placed', isReached: () => recoveriesIn(dataDir).length > 0 },
    {
      what: 'the second server runs',
      isReached: () =>
        recoveriesIn(dataDir).some(name => fs.existsSync(join(home, name, 'postgres/postmaster.pid'))),
    },
    {
      what: 'the clusters are exchanged',
      isReached: () => fs.readdirSync(home).some(name => /^cluster-exchange|^postgres-before/.test(name)),
    },
  ]
  for (const { what, isReached } of steps) {
    await stop(platform)
    const run = launch({ dataDir, env, args: ['pitr-cutover', '--instance', id] })
    while (!isReached() && !run.hasEnded) await setImmediate()
    run.child.kill('SIGKILL')
    // The exchange takes milliseconds, so it may be over.
    assert.match(await exitOf(run), /^(SIGKILL|0)$/, `${what}: ${run.stderr}`)
    const isExchanged = !fs.existsSync(clusterDir)
    platform = await start({ dataDir, env })
    const found = await notes(platform, project)
    assert.ok(isExchanged ? found.length === 1 : found.length > 0, what)
    if (found.length === 1) break
    assert.equal((await jobOf(platform, project, id)).status, 'prepared')
    await eventually(() => recoveriesIn(dataDir).length === 0, 'its files are removed')
  }
  await eventually(() => recoveriesIn(dataDir).length === 0, 'its files are removed')
  assert.ok(!fs.existsSync(join(home, 'cluster-exchange.json')))
  // A process that Postgres has just forked has the command line of the postmaster for a moment.
  await eventually(() => postmastersIn(clusterDir).length === 1, 'one Postgres runs')
  // After an exchange, times of the new timeline need a base backup of it.
  await untilBaseBackups(platform, project, (await notes(platform, project)).length === 1 ? 2 : 1)
  await rest(platform, project, 'POST', 'notes', { n: 9 })
  assert.equal((await recoverNow(platform, project)).status, 'prepared')
  await stop(platform)
})
