// Damaged files of backups are reported, and restore nothing.
import assert from 'node:assert/strict'
import fs from 'node:fs'
import { basename, join } from 'node:path'
import { after, before, test } from 'node:test'
import type { ServicesHealth } from '@plinth/contract/health.ts'
import type { Manifest } from '#src/archive/manifest.ts'
import { sql } from '#src/kernel/postgres/sql.ts'
import { reasonOf } from '#src/services/backups/reason.ts'
import { archiveOf } from './archive-of.ts'
import { type BackedUpProject, backedUpProject } from './backup-project.ts'
import { eventually } from './eventually.ts'
import { startPlatform, type TestPlatform } from './harness.ts'

let platform: TestPlatform
let project: BackedUpProject
let backupId: string
let manifest: Manifest
before(async () => {
  platform = await startPlatform()
  project = await backedUpProject(platform)
  await project.backups.configure({ params: { id: project.id }, body: { verify_enabled: false } })
  await project.sql(`
    create table things (id int, text text);
    insert into things select n, md5(n::text) || md5((-n)::text) from generate_series(1, 20000) n;
    select lo_from_bytea(0, 'a large object');
    insert into storage.buckets (id, name) values ('papers', 'papers')`)
  const answer = await fetch(`${platform.url}/v1/${project.id}/storage/v1/object/papers/one.txt`, {
    method: 'POST',
    headers: { authorization: `Bearer ${project.service_role_key}`, 'content-type': 'text/plain' },
    body: Buffer.alloc(100_000, 'file '),
  })
  assert.equal(answer.status, 200, await answer.text())
  const backup = await project.backUp()
  assert.equal(backup.error, null)
  backupId = backup.id
  manifest = (await readWith(platform.controlPlaneSecret)).manifest
})
after(() => platform?.stop())

const readWith = async (secret: string) => (await archiveOf(platform, project.id, backupId, secret)).archive

/** The files of the backup, the largest first, and the versions of files of the project. */
function stored() {
  const folder = join(platform.config.dataDir, 'backups', project.id)
  const paths = fs
    .readdirSync(folder, { recursive: true, withFileTypes: true })
    .filter(each => each.isFile())
    .map(each => join(each.parentPath, each.name))
    .sort((a, b) => fs.statSync(b).size - fs.statSync(a).size)
  const archive = paths.filter(path => basename(path).startsWith(`${backupId}-`))
  return { archive, versions: paths.filter(path => !/^.{36}-/.test(basename(path))) }
}
const numbered = (number: number) =>
  stored().archive.find(path => basename(path).startsWith(`${backupId}-1-${number.toString(16)}.`))!
const kinds: Record<string, () => string> = {
  manifest: () => numbered(0),
  'rows of a service': () => numbered(1),
  rows: () => stored().archive[0]!,
  schema: () => numbered(manifest.database.schema.number),
  'large objects': () => numbered(manifest.database.largeObjectsFile!.number),
  'list of files': () => numbered(manifest.files.number),
  'stored file': () => stored().versions[0]!,
}

const counted = async (id: string) =>
  (
    await platform.app.control.row<{ verify_differences: Record<string, number> | null }>(
      sql`select verify_differences from backups where id = ${id}`,
    )
  )?.verify_differences

function flip(path: string): void {
  const bytes = fs.readFileSync(path)
  bytes[Math.floor(bytes.length / 2)]! ^= 1
  fs.writeFileSync(path, bytes)
}
const damages: Record<string, (path: string) => void> = {
  'with a flipped bit': flip,
  'that is cut': path => fs.truncateSync(path, fs.statSync(path).size - 1),
  'that is missing': path => fs.rmSync(path),
  'with the bytes of another one': path =>
    fs.copyFileSync(stored().archive.find(each => each !== path)!, path),
}

for (const [kind, find] of Object.entries(kinds))
  for (const [damage, inflict] of Object.entries(damages))
    test(`backups: a verification reports the ${kind} ${damage}`, async () => {
      const path = find()
      const intact = fs.readFileSync(path)
      inflict(path)
      try {
        const { verified_at: at, verify_error: error } = await project.verify(backupId)
        assert.equal(at, null)
        assert.match(error!, /damaged|missing/)
        assert.deepEqual(await counted(backupId), { [kind === 'stored file' ? 'files' : 'unreadable']: 1 })
      } finally {
        fs.writeFileSync(path, intact)
      }
    })

for (const [damage, inflict] of Object.entries(damages))
  test(`backups: the backup after a verification heals a stored file ${damage}`, async () => {
    const path = stored().versions[0]!
    const intact = fs.readFileSync(path)
    inflict(path)
    try {
      assert.match((await project.verify(backupId)).verify_error!, /damaged or missing/)
      const { id, error } = await project.backUp()
      assert.equal(error, null)
      assert.ok(fs.readFileSync(path).equals(intact))
      assert.equal((await project.verify(id)).verify_error, null)
    } finally {
      fs.writeFileSync(path, intact)
    }
    assert.equal((await project.verify(backupId)).verify_error, null, 'earlier backups have the file, too')
  })

test('backups: a backup is made although a file is damaged in the store and missing in the project', async () => {
  const path = stored().versions[0]!
  const intact = fs.readFileSync(path)
  const objects = join(platform.config.dataDir, 'objects')
  const live = join(
    objects,
    String(
      fs.readdirSync(objects, { recursive: true }).find(each => basename(String(each)) === basename(path)),
    ),
  )
  const bytes = fs.readFileSync(live)
  flip(path)
  try {
    assert.match((await project.verify(backupId)).verify_error!, /damaged or missing/)
    fs.rmSync(live)
    const { id, error } = await project.backUp()
    assert.equal(error, null)
    assert.match((await project.verify(id)).verify_error!, /damaged or missing/)
    // The file is there again, and so the next backup copies it.
    fs.writeFileSync(live, bytes)
    const next = await project.backUp()
    assert.equal(next.error, null)
    assert.ok(fs.readFileSync(path).equals(intact))
    for (const each of [id, next.id]) assert.equal((await project.verify(each)).verify_error, null)
  } finally {
    fs.writeFileSync(live, bytes)
    fs.writeFileSync(path, intact)
  }
  assert.equal((await project.verify(backupId)).verify_error, null)
})

for (const kind of Object.keys(kinds))
  test(`backups: a restore with damaged ${kind} changes nothing`, async () => {
    const path = kinds[kind]!()
    const intact = fs.readFileSync(path)
    await project.sql(`create table if not exists later (id int)`)
    flip(path)
    try {
      const { status, error } = await project.restore(backupId)
      assert.equal(status, 'failed')
      assert.match(error!, /damaged/)
    } finally {
      fs.writeFileSync(path, intact)
    }
    assert.deepEqual(await project.rows('select from public.later'), [])
    const ref = await platform.refOf(project.id)
    const databases = await platform.asSuperuser('postgres', session =>
      session.rows<{ datname: string }>(
        sql`select datname from pg_database where starts_with(datname, ${ref})`,
      ),
    )
    assert.deepEqual(
      databases.map(({ datname }) => datname),
      [ref],
    )
  })

test('backups: another CONTROL_PLANE_SECRET is reported as such', async () => {
  const error = await readWith('another secret').then(
    () => assert.fail('it can be read'),
    failure => failure,
  )
  assert.match(reasonOf(error), /was written with another CONTROL_PLANE_SECRET/)
})

/** The credentials that may read every project, and those that may not or are none. */
async function credentials() {
  const managed = async (path: string, body: object) => {
    const reply = await platform.call('POST', `/api/v1${path}`, { token: platform.adminToken, body })
    assert.ok(reply.status < 300, JSON.stringify(reply.body))
    return reply.body
  }
  const session = async (role: string) => {
    const user = { email: `${role}@example.test`, password: 'a long enough password' }
    const { id } = await managed('/admin/users', { ...user, role })
    if (role !== 'super_admin')
      await platform.app.control.run(
        sql`insert into members (project_id, user_id, role) values (${project.id}, ${id}, 'owner')`,
      )
    return (await managed('/platform/login', user)).token as string
  }
  const { token: read } = await managed('/platform/tokens', { name: 'monitoring', scope: 'read' })
  return {
    read: read as string,
    sufficient: [platform.adminToken, read, await session('super_admin')],
    others: [undefined, 'wrong', `${read}x`, project.service_role_key, await session('project_admin')],
  }
}

test('backups: one that cannot be verified is in health and in metrics until it is verified', async () => {
  const { sufficient, others, read } = await credentials()
  const path = numbered(0)
  const intact = fs.readFileSync(path)
  flip(path)
  const { verify_error: error } = await project.verify(backupId)
  const looking = await startPlatform({ beside: platform })
  const health = async (token?: string) => {
    const { status, body } = await looking.call(
      'GET',
      '/health/services',
      token === undefined ? {} : { token },
    )
    assert.equal(status, 200, JSON.stringify(body))
    return body as ServicesHealth
  }
  try {
    await eventually(
      async () => JSON.stringify(await health()).includes('cannot be verified'),
      'the warning in health',
    )
    assert.ok(JSON.stringify(await health()).includes(`: ${backupId} of project ${project.id}"`))
    for (const token of others) {
      const shown = await health(token)
      assert.deepEqual(Object.keys(shown.services['backups']!).sort(), ['detail', 'status'], token)
      assert.ok(!JSON.stringify(shown).includes(error!), token)
    }
    for (const token of sufficient) {
      // A credential that cannot be checked within a second is ignored.
      const problems = await eventually(
        async () => (await health(token)).services['backups']!.problems,
        'the problems in health',
      )
      const [problem, ...more] = problems
      const { created_at: at, ...shown } = problem!
      assert.deepEqual([Number.isNaN(Date.parse(at)), more], [false, []])
      assert.deepEqual(shown, {
        backup_id: backupId,
        project_id: project.id,
        kind: 'unverifiable',
        verified_at: null,
        verify_error: error,
        differences: { unreadable: 1 },
      })
    }
    await platform.app.control.transaction(async session => {
      await session.run(sql`lock table tokens in access exclusive mode`)
      assert.equal((await health(read)).services['backups']!.problems, undefined)
      assert.equal((await health(platform.adminToken)).services['backups']!.problems!.length, 1)
    })
    const metrics = await looking.call('GET', '/metrics', { token: platform.adminToken })
    assert.match(metrics.body, /^plinth_backups_unverifiable 1$/m)
    assert.match(metrics.body, /^plinth_backup_differences\{kind="unreadable"\} 1$/m)
    assert.match(metrics.body, /^plinth_backup_differences\{kind="rows"\} 0$/m)
    for (const id of [backupId, project.id]) assert.ok(!metrics.body.includes(id), id)
    const audit = `/api/v1/admin/audit?action=backups.not_verified&project_id=${project.id}&limit=1`
    const { entries } = (await platform.call('GET', audit, { token: platform.adminToken })).body
    assert.deepEqual([entries[0].target, entries[0].details], [backupId, error])
  } finally {
    await looking.stop()
    fs.writeFileSync(path, intact)
  }
  assert.equal((await project.verify(backupId)).verify_error, null)
})
