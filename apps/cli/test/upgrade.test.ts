// Upgrades from the command line, with a real platform.
import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { startPlatform, type TestPlatform } from '../../server/test/harness.ts'
import { failMigration, failRecord, outdatedProjects } from '../../server/test/outdated-project.ts'
import { plinth, temporaryDirectory } from './plinth.ts'

let platform: TestPlatform
before(async () => {
  platform = await startPlatform()
})
after(() => platform.stop())

const upgrade = (...args: string[]) =>
  plinth(['upgrade', ...args], {
    cwd: temporaryDirectory(),
    env: { PLATFORM_URL: platform.url, PLATFORM_TOKEN: platform.adminToken },
  })

test('upgrade: shows the plan, executes it with --yes, and ends with 1 if a project fails', async () => {
  const [good, failing] = await outdatedProjects(platform, 2)
  await failMigration(platform, failing!)
  const planned = await upgrade('-o', 'text')
  assert.equal(planned.code, 0, planned.stderr)
  assert.match(planned.stdout, new RegExp(`${good!.id}.*MB.*auth_claims`))
  assert.match(planned.stderr, /Nothing was changed\. plinth upgrade --yes/)
  const dry = await upgrade('--dry-run')
  assert.deepEqual([dry.json.data.executed, dry.json.data.manifest], [false, null])

  const ran = await upgrade('--yes', '-o', 'text')
  assert.equal(ran.code, 1, ran.stdout)
  assert.match(ran.stdout, new RegExp(`${good!.id} +done +[0-9a-f-]{36}`))
  assert.match(ran.stdout, new RegExp(`${failing!.id} +failed: cannot change return type`))
  assert.match(ran.stdout, /control backup +[0-9a-f-]{36}/)
  await platform.asSuperuser(failing!.ref, session => session.script('drop function auth.email()'))
  const again = await upgrade('-y')
  assert.equal(again.code, 0, again.stderr)
  assert.match((await upgrade('--yes', '-o', 'text')).stdout, /Everything is up to date/)
})

test('upgrade: ends with 1 and says why if it ends early', async () => {
  const [project] = await outdatedProjects(platform, 1)
  await failRecord(platform, project!)
  const ran = await upgrade('--yes', '-o', 'text')
  assert.equal(ran.code, 1, ran.stdout)
  assert.match(ran.stderr, /ended early: .*no record/)
  await platform.app.control.script('drop function fail_record() cascade')
  assert.equal((await upgrade('--yes')).json.data.manifest.id, null)
})

test('upgrade: ends with 1 if every project is upgraded but that could not be recorded', async () => {
  await outdatedProjects(platform, 1)
  await platform.app.control.script(`
    create function fail_end() returns trigger language plpgsql as $$ begin raise 'no end'; end $$;
    create trigger fail_end before update on upgrades for each row
      when (new.status = 'done') execute function fail_end()`)
  const ran = await upgrade('--yes', '-o', 'text')
  assert.equal(ran.code, 1, ran.stdout)
  assert.match(ran.stderr, /Every project is upgraded, but that could not be recorded/)
  await platform.app.control.script('drop function fail_end() cascade')
})

test('upgrade: rejects wrong flags and targets', async () => {
  assert.equal((await upgrade('--dry-run', '--yes')).json.error.code, 'flags_conflict')
  for (const [target, code] of [
    ['0.0.1', 'invalid_target'],
    ['999.0.0', 'upgrade_not_installed'],
  ] as const) {
    const ran = await upgrade('--target', target, '--yes')
    assert.deepEqual([ran.code, ran.json.error.code], [1, code])
  }
})
