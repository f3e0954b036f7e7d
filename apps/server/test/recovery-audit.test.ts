// For some days after a recovery of the instance the cluster before can be put back, and the audit log says since when.
import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { sql } from '#src/kernel/postgres/sql.ts'
import { hasWayBack, recordInstanceCutover, wayBackDays } from '#src/tenancy/instance-cutover.ts'
import { startPlatform, type TestPlatform } from './harness.ts'

let platform: TestPlatform
before(async () => {
  platform = await startPlatform()
})
after(() => platform?.stop())

const prune = (days: number) => platform.admin.pruneAudit({ query: { days } })

test('recovery: an audit log that is pruned does not end the way back after a recovery of the instance', async () => {
  const { control } = platform.app
  await recordInstanceCutover(control, '2030-01-31T10:00:00Z')
  await control.run(sql`
    insert into audit (actor_kind, actor_label, action, at) values ('system', 'platform', 'another', now() - interval '3 days')`)
  const age = (hours: number) =>
    control.run(sql`
      update audit set at = now() - make_interval(hours => ${hours}) where action = 'pitr.instance_cut_over'`)
  await age(wayBackDays * 24 - 1)
  await prune(1)
  assert.equal(await hasWayBack(control), true)
  assert.deepEqual(await control.rows(sql`select from audit where action = 'another'`), [])
  await age(wayBackDays * 24 + 1)
  await prune(1)
  assert.deepEqual(await control.rows(sql`select from audit where action = 'pitr.instance_cut_over'`), [])
  assert.equal(await hasWayBack(control), false)
})
