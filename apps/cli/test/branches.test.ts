// Branches from the command line, with a real platform.
import assert from 'node:assert/strict'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { after, before, test } from 'node:test'
import { backedUpProject } from '../../server/test/backup-project.ts'
import { startPlatform, type TestPlatform } from '../../server/test/harness.ts'
import { begin, drawnBy, plinth, temporaryDirectory } from './plinth.ts'
import { codes } from './storage-project.ts'

let platform: TestPlatform
before(async () => {
  platform = await startPlatform()
})
after(() => platform.stop())

async function commands() {
  const project = await backedUpProject(platform)
  const cwd = temporaryDirectory()
  const env = {
    PLATFORM_URL: platform.url,
    PLATFORM_TOKEN: platform.adminToken,
    PLATFORM_PROJECT: project.id,
  }
  const run = (args: string[]) => plinth(args, { cwd, env })
  async function succeed(...args: string[]) {
    const ran = await run(args)
    assert.equal(ran.code, 0, `${args.join(' ')}: ${ran.stdout} ${ran.stderr}`)
    return ran
  }
  async function fail(...args: string[]) {
    const ran = await run(args)
    assert.equal(codes(ran)[0], 1, `${args.join(' ')}: ${ran.stdout}`)
    return ran.json.error
  }
  /** What a terminal shows on stderr. */
  async function shown(...args: string[]): Promise<string[]> {
    const running = begin([...args, '-o', 'text'], { cwd, env, isTerminal: true })
    assert.equal(await running.ended, 0, running.stderr())
    return drawnBy(running)
  }
  return { project, cwd, run, succeed, fail, shown }
}

test('branch: create, list, diff, push the diff, reset and delete', async () => {
  const { project, cwd, succeed, fail, shown } = await commands()
  await project.sql('create table notes (id int primary key)')
  const created = (await succeed('branch', 'create', 'New checkout', '--expires', '7d')).json.data
  assert.equal(created.slug, 'new-checkout')
  assert.equal(created.status, 'active')
  assert.ok(created.service_role_key && created.jwt_secret && created.expires_at)
  assert.equal((await fail('branch', 'create', 'new checkout')).code, 'branch_exists')
  const { stdout: listed } = await succeed('branches', 'list', '-o', 'text')
  assert.match(listed, /^SLUG +ID +STATUS +SIZE +ROWS +STATE OF +EXPIRES\nnew-checkout .* active .*MB +yes /)

  const same = await succeed('branch', 'diff', 'new-checkout')
  assert.equal(same.stdout.trim(), '')
  const changed = await platform.call('POST', `/v1/rest/${created.id}/rpc/exec_sql`, {
    token: created.service_role_key,
    body: { sql: 'alter table notes add column text text; create table orders (id int primary key)' },
  })
  assert.ok(changed.status < 300)
  const { stdout: migration } = await succeed('branch', 'diff', 'new-checkout')
  assert.match(migration, /create table public\.orders/)
  const compared = await shown('branch', 'diff', 'new-checkout')
  assert.match(compared[1]!, /^Comparing new-checkout {2}\d[\dm. ]*s$/)
  assert.match(compared.at(-1)!, /^Compared in \d[\dm. ]*s\.\n$/)
  writeFileSync(join(cwd, '20300131_new_checkout.sql'), migration)
  await succeed('db', 'push', '--path', cwd, '--apply')
  assert.deepEqual(await project.rows('select text from public.notes'), [])

  assert.equal((await fail('branch', 'reset', 'new-checkout')).code, 'confirmation_missing')
  const { stdout: reset } = await succeed('branch', 'reset', 'new-checkout', '--yes', '-o', 'text')
  assert.match(reset, /^Reset new-checkout in \d[\dm. ]*s, \S+ MB\. /)
  assert.equal((await fail('projects', 'delete', project.id, '--yes')).code, 'project_has_branches')
  assert.equal((await fail('branch', 'delete', 'new-checkout')).code, 'confirmation_missing')
  const { stdout: deleted } = await succeed('branch', 'delete', 'new-checkout', '--yes', '-o', 'text')
  assert.match(deleted, /^Deleted the branch new-checkout in \d[\dm. ]*s, \S+ MB\.$/m)
  assert.deepEqual((await succeed('branch', 'list')).json.data, { branches: [], total: 0 })
  assert.equal((await fail('branch', 'diff', 'new-checkout', '-o', 'json')).code, 'branch_not_found')
  assert.equal((await fail('branch', 'create', 'late', '--expires', 'soon')).code, 'usage_invalid_value')
})

test('branch: a creation that fails has printed the keys', async () => {
  const { project, run } = await commands()
  const upload = await platform.call('POST', `/v1/${project.id}/storage/v1/bucket`, {
    token: project.service_role_key,
    body: { name: 'papers' },
  })
  assert.equal(upload.status, 200)
  const put = await platform.call('POST', `/v1/${project.id}/storage/v1/object/papers/a`, {
    token: project.service_role_key,
    body: 'text',
    headers: { 'content-type': 'text/plain' },
  })
  assert.equal(put.status, 200)
  // Without the bytes of its file the project cannot be copied.
  await platform.app.pieces.removeFolder(project.id)
  const text = await run(['branch', 'create', 'as text', '-o', 'text'])
  assert.equal(text.code, 1, text.stdout)
  assert.match(text.stdout, /service_role key +platform_\S+\n +JWT secret +\S+/)
  assert.match(text.stderr, /branch_failed/)
  const json = await run(['branch', 'create', 'as json', '-o', 'json'])
  assert.deepEqual([json.code, json.json.error.code], [1, 'branch_failed'])
  assert.match(json.stderr, /"service_role_key":"platform_/)
})
