// Functions of a project run while its copy is restored, for as long as they like.
import assert from 'node:assert/strict'
import { randomBytes, randomUUID } from 'node:crypto'
import { after, before, test } from 'node:test'
import type { PitrStatus } from '@plinth/contract/pitr.ts'
import { withClient } from '#src/kernel/postgres/database.ts'
import { sql } from '#src/kernel/postgres/sql.ts'
import { claimJobs, nextDueMs } from '#src/services/pitr/store.ts'
import { controlSettings, migratePlatform } from '#src/tenancy/cluster.ts'
import { eventually } from './eventually.ts'
import { type PitrPlatform, startPitrPlatform } from './pitr-platform.ts'

let platform: PitrPlatform
before(async () => {
  platform = await startPitrPlatform()
})
after(() => platform?.stop())

const execute = async ({ id, service_role_key }: { id: string; service_role_key: string }, text: string) => {
  const { status, body } = await platform.call('POST', `/v1/rest/${id}/rpc/exec_sql`, {
    token: service_role_key,
    body: { sql: text },
  })
  assert.ok(status < 300, JSON.stringify(body))
}

const slow = `
  create function slow(n int) returns int language plpgsql immutable as $$ begin
    if current_database() like '%recovered' then perform pg_sleep(3600); end if;
    return n;
  end $$;
  create table notes (n int, m int generated always as (slow(n)) stored);
  insert into notes values (1)`

test('pitr: a cutover does not wait for the recoveries of other projects', async () => {
  const calm = await platform.createProject()
  const others = [await platform.createProject(), await platform.createProject()]
  await execute(calm, 'create table notes (n int)')
  for (const other of others) await execute(other, slow)
  await platform.untilArchived(calm.id)
  const target = await platform.now()
  const prepared = await platform.recover(calm.id, target)
  assert.deepEqual([prepared.error, prepared.status], [null, 'prepared'])
  const jobs: string[] = []
  for (const { id } of others) {
    const { job } = await platform.pitr.restore({ params: { id }, body: { target_time: target } })
    jobs.push(job.id)
  }
  const asleep = () =>
    platform.asSuperuser('postgres', session =>
      session.rows(
        sql`select from pg_stat_activity where datname like '%recovered' and wait_event = 'PgSleep'`,
      ),
    )
  await eventually(async () => (await asleep()).length === 2, 'the functions of both projects run')
  const done = await platform.cutOver(calm.id, prepared.id)
  assert.deepEqual([done.error, done.status], [null, 'done'])
  assert.equal((await asleep()).length, 2)
  for (const [at, { id }] of others.entries())
    assert.equal((await platform.job(id, jobs[at]!)).status, 'preparing')
})

test('pitr: a job is claimed by its status, and not of a project whose places are taken', async () => {
  const name = `pitr_claims_${randomBytes(6).toString('hex')}`
  await platform.asSuperuser('postgres', session => session.script(`create database ${name}`))
  await withClient(platform.address, name, controlSettings, async session => {
    await migratePlatform(session, platform.app.cluster.platformMigrations)
    const [full, free, cut] = [randomUUID(), randomUUID(), randomUUID()]
    for (const id of [full, free, cut]) {
      await session.run(sql`
        insert into projects (id, ref, name, slug, status, anon_key, service_role_key, jwt_secret)
        values (${id}, ${`r${id}`}, 'n', ${id}, 'active', '', '', '')`)
      await session.run(sql`
        insert into pitr_jobs (id, project_id, target_time, status)
        values (${randomUUID()}, ${id}, now(), ${id === cut ? 'cutting_over' : 'pending'})`)
    }
    const claim = async (statuses: readonly PitrStatus[]) =>
      (await claimJobs(session, { statuses, full: [full], limit: 9, leaseSeconds: 30 })).map(each => [
        each.project_id,
        each.status,
      ])
    assert.equal(await nextDueMs(session, ['cutting_over'], [cut]), undefined)
    assert.deepEqual(await claim(['pending', 'preparing']), [[free, 'preparing']])
    assert.deepEqual(await claim(['cutting_over']), [[cut, 'cutting_over']])
    assert.deepEqual(await claim(['pending', 'preparing', 'cutting_over']), [])
  })
})
