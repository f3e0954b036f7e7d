// Upgrades from the command line, with a real platform.
import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { eventually } from '../../server/test/eventually.ts'
import { startPlatform, type TestPlatform } from '../../server/test/harness.ts'
import { failMigration, failRecord, holdTable, outdatedProjects } from '../../server/test/outdated-project.ts'
import { progressText } from '../src/commands/upgrade.ts'
import { begin, drawnBy, plinth, temporaryDirectory } from './plinth.ts'

let platform: TestPlatform
before(async () => {
  platform = await startPlatform()
})
after(() => platform.stop())

const options = () => ({
  cwd: temporaryDirectory(),
  env: { PLATFORM_URL: platform.url, PLATFORM_TOKEN: platform.adminToken },
})
const upgrade = (...args: string[]) => plinth(['upgrade', ...args], options())

test('upgrade: shows the plan, executes it with --yes with progress, sizes and the duration, and ends with 1 if a project fails', async () => {
  const [good, failing] = await outdatedProjects(platform, 2)
  await failMigration(platform, failing!)
  const planned = await upgrade('-o', 'text')
  assert.equal(planned.code, 0, planned.stderr)
  assert.match(planned.stdout, new RegExp(`${good!.id}.*MB.*auth_claims`))
  assert.match(planned.stderr, /Nothing was changed\. plinth upgrade --yes/)
  const dry = await upgrade('--dry-run')
  assert.deepEqual([dry.json.data.executed, dry.json.data.manifest], [false, null])

  const release = await holdTable(platform, good!, 'auth.users')
  const running = begin(['upgrade', '--yes', '-o', 'text'], { ...options(), isTerminal: true })
  try {
    await eventually(
      () =>
        drawnBy(running).some(line =>
          /^Upgrade: backup {2}1 of 2 {2}(\S+ k?M?B {2})?\d[\dm. ]*s$/.test(line),
        ),
      'the progress is shown',
    )
  } finally {
    await release()
  }
  assert.equal(await running.ended, 1, running.stdout())
  const result = running.stdout()
  assert.match(result, new RegExp(`^${good!.id} +done +[0-9a-f-]{36} +\\S+ [kM]B$`, 'm'))
  assert.match(
    result,
    new RegExp(`^${failing!.id} +failed: cannot change return type.* +[0-9a-f-]{36} +\\S+ [kM]B$`, 'm'),
  )
  assert.match(result, /control backup +[0-9a-f-]{36}\n +control database +\S+ MB\n +took +\d[\dm. ]*s$/m)
  assert.match(drawnBy(running).at(-1)!, /^1 of 2 projects were not upgraded/, 'the progress is removed')
  const continued = (await upgrade('-o', 'text')).stdout
  assert.match(continued, /control database +already backed up$/m)
  assert.match(continued, new RegExp(`^${failing!.id} .* - +auth_claims +cannot change return type`, 'm'))
  await platform.asSuperuser(failing!.ref, session => session.script('drop function auth.email()'))
  const again = await upgrade('-y')
  assert.equal(again.code, 0, again.stderr)
  assert.match((await upgrade('--yes', '-o', 'text')).stdout, /Everything is up to date/)
})

test('upgrade: the progress has the step, the place of the project, the bytes and the time', () => {
  const control = { step: 'control backup', project_id: null, done: 0, total: 3, bytes: 0 }
  assert.equal(progressText(control, 0.25), 'Upgrade: control backup  0.3s')
  const second = { ...control, step: 'backup', project_id: 'x', done: 1, bytes: 12_300_000 }
  assert.equal(progressText(second, 61), 'Upgrade: backup  2 of 3  12.3 MB  1m 1s')
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
