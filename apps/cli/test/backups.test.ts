// Backups from the command line, with a real platform.
import assert from 'node:assert/strict'
import { readdirSync, renameSync, truncateSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { PassThrough } from 'node:stream'
import { after, before, test } from 'node:test'
import { type BackedUpProject, backedUpProject } from '../../server/test/backup-project.ts'
import { eventually } from '../../server/test/eventually.ts'
import { startPlatform, type TestPlatform } from '../../server/test/harness.ts'
import { run } from '../src/run.ts'
import { plinth, type RunOptions, temporaryDirectory } from './plinth.ts'
import { recordingProxy } from './recording-proxy.ts'
import { codes } from './storage-project.ts'

let platform: TestPlatform
const store = join(temporaryDirectory(), 'backups')
before(async () => {
  platform = await startPlatform({ settings: { PLATFORM_BACKUP_DIR: store } })
})
after(() => platform.stop())

const unknown = '0198f2c4-5d6e-7a8b-9c0d-1e2f3a4b5c6d'

async function commands() {
  const project = await backedUpProject(platform)
  const cwd = temporaryDirectory()
  const env = {
    PLATFORM_URL: platform.url,
    PLATFORM_TOKEN: platform.adminToken,
    PLATFORM_PROJECT: project.id,
  }
  const backup = (args: string[], options: RunOptions = {}) =>
    plinth(['backup', ...args], { cwd, ...options, env: { ...env, ...options.env } })
  const succeed = async (args: string[]) => {
    const ran = await backup(args)
    assert.equal(ran.code, 0, `${args.join(' ')}: ${ran.stdout} ${ran.stderr}`)
    return ran
  }
  return {
    project,
    env,
    cwd,
    backup,
    done: async (...args: string[]) => (await succeed(args)).json.data,
    async text(...args: string[]): Promise<[stdout: string, stderr: string]> {
      const { stdout, stderr } = await succeed([...args, '-o', 'text'])
      return [stdout, stderr]
    },
    async failed(...args: string[]) {
      const ran = await backup(args)
      assert.equal(codes(ran)[0], 1, `${args.join(' ')}: ${ran.stdout}`)
      return ran.json.error
    },
  }
}

const names = async (project: BackedUpProject) =>
  (await project.rows<{ name: string }>('select name from public.notes order by name')).map(
    ({ name }) => name,
  )

test('backup create, list and verify: wait for the end, and show sizes, durations and the verification', async () => {
  const { done, text, project, backup } = await commands()
  await done('settings', '--verify-enabled', 'false')
  await project.sql(`create table notes (name text); insert into notes values ('kept')`)
  assert.match((await text('list'))[1], /^No backups yet: plinth backup create/)
  const made = await done('create')
  assert.deepEqual([made.status, made.kind, made.error, made.progress], ['done', 'manual', null, null])
  const [stdout, stderr] = await text('create')
  const [, id] = /^ {2}id +(\S{36})$/m.exec(stdout) ?? []
  assert.match(
    stdout,
    /^ {2}status +done$(.*\n)+ {2}took +\d+(\.\d)?s\n {2}size +\S+ k?M?B\n {2}stored +\S+ k?B/m,
  )
  assert.match(stderr, new RegExp(`plinth backup verify ${id}`))

  assert.match(
    (await text('verify', id!))[0],
    /^Verified \S{36}: \S+ k?B in \S+s\. The restored copy is the same\.$/m,
  )
  const again = await done('verify', id!.toUpperCase())
  const { backups, total } = await done('list')
  assert.deepEqual([total, backups[0].id, backups[1].id], [2, id, made.id])
  assert.equal(backups[0].verified_at, again.verified_at)
  assert.match(
    (await text('list'))[0],
    /^ID +KIND +STATUS +CREATED +TOOK +SIZE +STORED +FILES +VERIFIED\n\S+ +manual +done +\d{4}-.* +\d{4}-\S+ \S+\n\S+ +manual .* -\n$/,
  )
  const started = await backup(['create', '--no-wait'])
  assert.deepEqual([started.code, started.json.data.status], [0, 'running'])
  assert.equal((await project.ended(started.json.data.id)).status, 'done')
})

test('backup restore, restores and undo: replace the state, and put it back', async () => {
  const { done, text, failed, project } = await commands()
  await project.sql(`create table notes (name text); insert into notes values ('kept')`)
  const { id } = await done('create')
  await project.sql(`delete from notes; insert into notes values ('later')`)
  assert.equal((await failed('restore', id)).code, 'confirmation_missing')
  assert.deepEqual(await names(project), ['later'])
  assert.match((await text('restores'))[1], /^No restores yet/)

  const [stdout, stderr] = await text('restore', id, '--yes')
  assert.deepEqual(await names(project), ['kept'])
  assert.match(stdout, new RegExp(`^ {2}status +done\\n {2}backup +${id}$`, 'm'))
  assert.match(stdout, /^ {2}took +\d[\dm. ]*s\n {2}size +\S+ kB$/m)
  const [, restoreId] = /plinth backup undo (\S{36})$/m.exec(stderr) ?? []
  const { restores } = await done('restores')
  assert.deepEqual([restores.length, restores[0].id, restores[0].backup_id], [1, restoreId, id])
  assert.match(
    (await text('restores'))[0],
    /^ID +BACKUP +STATUS +CREATED +TOOK +SIZE +.* STATE BEFORE\n\S{36} +\S{36} +done +.{16} +\d[\dm. ]*s +\S+ kB /,
  )

  const unconfirmed = await failed('undo', restoreId!)
  assert.equal(unconfirmed.code, 'confirmation_missing')
  assert.match(unconfirmed.message, /discards what has changed in the project since then/)
  assert.deepEqual(await names(project), ['kept'])
  assert.match((await text('undo', restoreId!, '--yes'))[0], /^Undone in \S+s\. /)
  assert.deepEqual(await names(project), ['later'])
  const twice = await failed('undo', restoreId!, '--yes')
  assert.equal(twice.code, 'restore_not_undoable')
  assert.match(twice.suggestion, /plinth backup restores/)
})

test('backup restore and undo: a terminal is asked first', async () => {
  const { done, project, env, cwd } = await commands()
  await project.sql(`create table notes (name text); insert into notes values ('kept')`)
  const { id } = await done('create')
  async function answerNo(...args: string[]): Promise<string> {
    const stream = () => Object.assign(new PassThrough(), { isTTY: true, columns: 100 })
    const [stdin, stdout, stderr] = [stream(), stream(), stream()]
    stdin.write('n\n')
    const code = await run(['backup', ...args], {
      env: { ...env, NO_COLOR: '1' },
      cwd,
      stdin,
      stdout,
      stderr,
      interruption: () => new AbortController().signal,
      temporaryFiles: new Set(),
    })
    const shown = String(stderr.read())
    assert.equal(code, 1, shown)
    return shown
  }
  assert.match(
    await answerNo('restore', id),
    /gets the state of \d{4}-.*24 hours.*Restore it\? \[y\/N\].*Nothing was restored/s,
  )
  assert.deepEqual((await done('restores')).restores, [])

  const restored = await done('restore', id, '--yes')
  const { body } = await platform.call('GET', `/api/v1/projects/${project.id}`, {
    token: platform.adminToken,
  })
  assert.match(
    await answerNo('undo', restored.id),
    new RegExp(
      `^${body.name} \\(${body.slug}\\) gets the state before .* \\d{4}-.*is discarded.*Undo it\\? \\[y/N\\].*Nothing was changed`,
      's',
    ),
  )
  assert.equal((await done('restores')).restores[0].status, 'done')
})

test('backup create: says nothing of a verification that it has waited for', async () => {
  const { text, project } = await commands()
  await project.sql(`create table notes (name text); insert into notes values ('kept')`)
  const [stdout, stderr] = await text('create')
  const isVerified = /^ {2}verified +\d{4}-/m.test(stdout)
  assert.equal(stderr.includes('plinth backup verify'), !isVerified, stdout + stderr)
})

test('backup restore: the backup of a deleted project can be restored as a new one only', async () => {
  const { done, text, failed, project, env } = await commands()
  const { id } = await done('create')
  await project.sql('create table notes (name text)')
  const deleted = await plinth(['projects', 'delete', project.id, '--yes'], { env })
  assert.equal(deleted.code, 0, deleted.stdout)
  const refused = await failed('restore', id, '--yes')
  assert.equal(refused.code, 'project_not_found')
  assert.match(refused.message, /^The project is deleted/)
  assert.ok(
    refused.suggestion.endsWith(`plinth backup restore ${id} --project ${project.id} --as-new <name>`),
    refused.suggestion,
  )
  const made = await done('restore', id, '--as-new', 'Again')
  assert.match((await text('restores'))[0], new RegExp(` new project ${made.id}\\n$`))
  await platform.app.control.script(`update restores set status = 'failed' where id = '${made.restore.id}'`)
  assert.match((await text('restores'))[0], / no project was made\n$/)
})

test('backup: a damaged backup and a store that cannot be written end with 1 and the reason', async () => {
  const { done, text, failed, project, cwd } = await commands()
  await done('settings', '--verify-enabled', 'false')
  await project.sql(`create table notes (name text); insert into notes values ('kept')`)
  const { id } = await done('create')
  const folder = join(store, project.id)
  for (const file of readdirSync(folder, { recursive: true, withFileTypes: true }))
    if (file.isFile()) truncateSync(join(file.parentPath, file.name), 20)
  const unverified = await failed('verify', id)
  assert.equal(unverified.code, 'backup_not_verified')
  assert.match(unverified.message, /cannot be verified: A file of the backup is (damaged|missing)/)
  assert.match(unverified.suggestion, /plinth backup create/)
  // The same result again is a result too.
  assert.equal((await failed('verify', id)).message, unverified.message)
  const [stdout, stderr] = await text('list')
  assert.match(stdout, / failed\n$/)
  assert.match(stderr, new RegExp(`^${id} cannot be verified: A file`))
  const looking = await startPlatform({ beside: platform, settings: { PLATFORM_BACKUP_DIR: store } })
  const health = (token: string, ...args: string[]) =>
    plinth(['health', ...args], { cwd, env: { PLATFORM_URL: looking.url, PLATFORM_TOKEN: token } })
  try {
    const [problem] = await eventually(async () => {
      const { backup_problems: problems } = (await health(platform.adminToken)).json.data
      return problems.length > 0 ? problems : undefined
    }, 'the backup in health')
    const { verify_error: error } = (await done('list')).backups[0]
    assert.deepEqual([problem.backup_id, problem.project_id, problem.verify_error], [id, project.id, error])
    const shown = await health(platform.adminToken, '-o', 'text')
    assert.match(shown.stdout, new RegExp(`^${id}  ${project.id}  unverifiable  .*A file of the backup`, 'm'))
    for (const token of ['', 'wrong', 'wröng\u20ac']) {
      const { code, json, stderr } = await health(token)
      assert.deepEqual([code, json.data.services.backups.status], [0, 'degraded'], stderr)
      assert.equal(json.data.backup_problems, null)
    }
  } finally {
    await looking.stop()
  }
  const unrestored = await failed('restore', id, '-y')
  assert.equal(unrestored.code, 'restore_failed')
  assert.match(unrestored.message, /The project is unchanged, because .*: A file of the backup is/)
  assert.match((await text('restores'))[1], /has failed: A file of the backup is/)

  renameSync(folder, `${folder}.away`)
  writeFileSync(folder, 'not a directory')
  const unmade = await failed('create')
  assert.equal(unmade.code, 'backup_failed')
  assert.match(unmade.message, /^The backup \S{36} has failed: \S/)
})

test('backup settings: shows them, and changes those that are given', async () => {
  const { done, text } = await commands()
  const usual = await done('settings')
  assert.deepEqual([usual.enabled, usual.retain_days, usual.interval_minutes], [false, null, 1440])
  const [shown, hint] = await text('settings')
  assert.match(shown, /^ {2}backups +only on demand\n {2}kept +7 days\n {2}verification +every 7d$/m)
  assert.match(hint, /plinth backup settings --enabled true/)
  const flags = ['--verify-enabled', 'false', '--retain-days', '30', '--retain-count', '10']
  assert.deepEqual(await done('settings', ...flags, '--verify-interval-minutes', '15'), {
    ...usual,
    retain_days: 30,
    retain_count: 10,
    verify_enabled: false,
    verify_interval_minutes: 15,
  })
  assert.match(
    (await text('settings'))[0],
    /^ {2}kept +30 days, at most 10 backups\n {2}verification +only on demand/m,
  )
  const changed = await done(
    'settings',
    '--retain-days',
    'none',
    '--enabled',
    'true',
    '--interval-minutes',
    '60',
    '--verify-enabled',
    'true',
    '--verify-interval-minutes',
    '1501',
  )
  assert.deepEqual(
    [changed.retain_days, changed.retain_count, changed.enabled, changed.interval_minutes],
    [null, 10, true, 60],
  )
  assert.match(
    (await text('settings'))[0],
    /^ {2}backups +every 1h\n(.*\n) {2}verification +every 1d 1h 1m$/m,
  )
})

test('backup: ids the project does not have', async () => {
  const { failed } = await commands()
  for (const [args, code, words] of [
    [['verify', unknown], 'backup_not_found', /plinth backup list/],
    [['restore', unknown, '-y'], 'backup_not_found', /plinth backup list/],
    [['undo', unknown, '-y'], 'restore_not_found', /plinth backup restores/],
  ] as const) {
    const error = await failed(...args)
    assert.equal(error.code, code)
    assert.match(error.suggestion, words)
  }
})

test('backup: invalid arguments are rejected before any request', async () => {
  const { backup } = await commands()
  const proxy = await recordingProxy(platform.url)
  for (const [line, code, words] of [
    ['verify', 'usage_missing_argument', /backup/],
    ['verify latest', 'usage_invalid_value', /"latest" is not the id of a backup.*plinth backup list/],
    ['restore x -y', 'usage_invalid_value', /plinth backup list/],
    ['undo x', 'usage_invalid_value', /plinth backup restores/],
    ['settings --enabled maybe', 'usage_invalid_value', /true, false/],
    ['settings --interval-minutes 14', 'usage_invalid_value', /15 to 525600 minutes/],
    ['settings --verify-interval-minutes 1e3', 'usage_invalid_value', /15 to 525600 minutes/],
    ['settings --retain-days 0', 'usage_invalid_value', /1 to 36500 or none/],
    ['settings --retain-count many', 'usage_invalid_value', /1 to 1000 or none/],
  ] as const) {
    const refused = await backup(line.split(' '), { env: { PLATFORM_URL: proxy.url } })
    assert.deepEqual(codes(refused), [1, code], `${line}: ${refused.stdout}`)
    const { message, suggestion } = refused.json.error
    assert.match(`${message} ${suggestion}`, words, line)
  }
  assert.deepEqual(proxy.requests, [])
})
