// Recovery to a time from the command line, on the host of a platform.
import assert from 'node:assert/strict'
import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { connectAsSuperuser } from '../../server/test/data-dir.ts'
import { eventually } from '../../server/test/eventually.ts'
import { begin, drawnBy, plinthProcess, plinth as run, temporaryDirectory } from './plinth.ts'

const settings = { PLATFORM_PORT: '0', RUNTIME_PORT: '0', PLATFORM_DISK_RESERVE_MB: '0', PLATFORM_PITR: 'on' }

async function refOf(dataDir: string, projectId: string): Promise<string> {
  const control = await connectAsSuperuser(dataDir)
  try {
    return (await control.query('select ref from projects where id = $1', [projectId])).rows[0].ref
  } finally {
    await control.end()
  }
}

test('pitr: restore-points, a dry run, a recovery, its cutover and undo, and the cutover of the instance', async () => {
  const cwd = temporaryDirectory({}, () => plinth(['down', '--volumes', '--yes', '--force']))
  const plinth = (args: string[]) => run(args, { cwd, env: settings })
  const asProcess = (args: string[]) => plinthProcess(args, { cwd, env: settings })
  const onTerminal = (...args: string[]) => begin(args, { cwd, env: settings, isTerminal: true })
  const dataDir = join(cwd, '.plinth/data')
  const done = async (...args: string[]) => {
    const ran = await plinth(args)
    assert.equal(ran.code, 0, `${args.join(' ')}: ${ran.stdout} ${ran.stderr}`)
    return ran.json.data
  }
  const text = async (...args: string[]) => {
    const { code, stdout, stderr } = await plinth([...args, '-o', 'text'])
    assert.equal(code, 0, stdout + stderr)
    return [stdout, stderr] as const
  }
  const started = await asProcess(['start'])
  assert.equal(started.code, 0, started.stdout + started.stderr)
  const { url } = started.json.data
  const { id, service_role_key: key } = await done('projects', 'create', 'shop', '--url', url)
  await done('link', url, '--project', 'shop')
  const rest = (method: string, path: string, body?: unknown) =>
    fetch(`${url}/v1/rest/${id}/${path}`, {
      method,
      headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json' },
      ...(body !== undefined && { body: JSON.stringify(body) }),
    })
  const notes = async () =>
    ((await (await rest('GET', 'notes?order=n')).json()) as { n: number }[]).map(({ n }) => n)
  await rest('POST', 'rpc/exec_sql', { sql: 'create table notes (n int)' })
  await eventually(async () => (await done('pitr', 'restore-points')).window, 'the first base backup is made')
  assert.match((await text('pitr', 'jobs'))[1], /^No recoveries yet/)
  await rest('POST', 'notes', { n: 1 })
  // The commit may have been later in the same millisecond.
  const committed = Date.now()
  await eventually(() => Date.now() > committed + 1, 'the next millisecond')
  const target = new Date().toISOString()
  // The time of a commit is after the target, even if it follows within the same millisecond.
  await eventually(() => Date.now() > Date.parse(target) + 1, 'the next millisecond')
  await rest('POST', 'notes', { n: 2 })

  const [preview, warnings] = await text('pitr', 'restore', '--target-time', target, '--dry-run')
  assert.match(preview, /window +\d{4}-.* to .*\n.*base backup +\d{4}-.*\n.*WAL +\S+ to \S+, \d+ segments/)
  assert.match(warnings, /is lost with the cutover/)
  const [shown, next] = await text('pitr', 'restore', '--target-time', target)
  assert.match(
    shown,
    /^Recovered and verified \S+ kB in \d[\dm. ]*s\.\n {2}id +\S{36}\n {2}status +prepared\n(.*\n)+ {2}took +\d[\dm. ]*s\n {2}size +\S+ kB$/m,
  )
  const [, job = ''] = /plinth pitr cutover (\S{36})$/m.exec(next) ?? []
  assert.deepEqual(await notes(), [1, 2])
  assert.match((await text('pitr', 'restore-points'))[0], /^KIND +TIME .*\nwindow +\d{4}-.*\nbase backup /)
  const unconfirmed = await plinth(['pitr', 'cutover', job])
  assert.equal(unconfirmed.json.error.code, 'confirmation_missing')
  // The backup of the present state waits for the table.
  const holding = await connectAsSuperuser(dataDir, await refOf(dataDir, id))
  await holding.query('begin; lock table auth.users in access exclusive mode')
  const cutover = onTerminal('pitr', 'cutover', job, '--yes', '-o', 'text')
  try {
    await eventually(
      () => drawnBy(cutover).some(line => /^Cutover: (?!starting)\w+ .*\d[\dm. ]*s$/.test(line)),
      'the progress is shown',
    )
  } finally {
    await holding.end()
  }
  assert.equal(await cutover.ended, 0, cutover.stderr())
  assert.match(
    cutover.stdout(),
    /^Cut over: \S+ MB in \d[\dm. ]*s\. The project has the state of that time\.\n$/,
  )
  assert.deepEqual(await notes(), [1])
  const [, restore = ''] = /plinth backup undo (\S{36})$/m.exec(cutover.stderr()) ?? []
  assert.match((await text('backup', 'restores'))[0], new RegExp(`^${restore} +${job} +done .* kB `, 'm'))
  await done('backup', 'undo', restore, '--yes')
  assert.deepEqual(await notes(), [1, 2])
  assert.match(
    (await text('pitr', 'jobs'))[0],
    /^ID +TIME +STATUS +CREATED +TOOK +SIZE .*\n\S{36} +\d{4}-\S+ +done +.{16} +\d[\dm. ]*s +\S+ kB /,
  )

  const again = await done('pitr', 'restore', '--target-time', target)
  const running = await plinth(['pitr', 'cutover', again.id, '--instance', '--yes'])
  assert.equal(running.json.error.code, 'pitr_cutover_failed')
  assert.match(running.json.error.suggestion, /plinth stop/)
  assert.equal((await asProcess(['stop'])).code, 0)
  const instance = onTerminal('pitr', 'cutover', again.id, '--instance', '--yes', '-o', 'json')
  assert.equal(await instance.ended, 0, instance.stderr())
  const { kept, bytes, seconds } = JSON.parse(instance.stdout()).data
  assert.ok(existsSync(join(kept, 'PG_VERSION')))
  assert.ok(bytes > 20_000_000 && seconds > 0, instance.stdout())
  const steps = drawnBy(instance).map(line => /^Recovery of the instance: ([a-z ]+?) {2}/.exec(line)?.[1])
  assert.deepEqual(
    [...new Set(steps.filter(step => step !== undefined))],
    ['starting', 'starting the database', 'archiving', 'recovering', 'exchanging the clusters'],
  )
  const refused = await plinth(['pitr', 'recover-instance'])
  assert.equal(refused.json.error.code, 'pitr_recovery_failed')
  assert.match(refused.json.error.message, /is for an empty data directory/)
})

test('pitr: invalid arguments are rejected before any request', async () => {
  for (const [line, code, words] of [
    ['restore', 'usage_missing_flag', /target-time/],
    ['restore --target-time yesterday', 'usage_invalid_value', /with an offset/],
    ['restore --target-time 2030-01-31T10:00:00', 'usage_invalid_value', /with an offset/],
    ['recover-instance --target-time yesterday', 'usage_invalid_value', /with an offset/],
    ['cutover latest -y', 'usage_invalid_value', /not the id of a recovery.*plinth pitr jobs/],
  ] as const) {
    const refused = await run(['pitr', ...line.split(' ')], { env: { PLATFORM_URL: 'http://127.0.0.1:1' } })
    assert.deepEqual([refused.code, refused.json.error.code], [1, code], refused.stdout)
    assert.match(`${refused.json.error.message} ${refused.json.error.suggestion}`, words)
  }
})
