// Branches without enough space, and the moment in which the database of a copy is made.
import assert from 'node:assert/strict'
import { mkdtempSync, rmSync, symlinkSync, unlinkSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import pg from 'pg'
import { closeToOthers, createEmpty, openToOwner } from '#src/archive/database-store.ts'
import { keyring } from '#src/kernel/crypto/keys.ts'
import { orderedUuid } from '#src/kernel/ordered-uuid.ts'
import { identifier, sql } from '#src/kernel/postgres/sql.ts'
import { createLogins, loginRole } from '#src/tenancy/logins.ts'
import { resetOf } from '#src/tenancy/provision.ts'
import { backedUpProject } from './backup-project.ts'
import { branchesOf, ownerSession } from './branch-project.ts'
import { eventually } from './eventually.ts'
import { startPlatform } from './harness.ts'

const onlyLinux = {
  skip: process.platform !== 'linux' && 'needs a file system without space',
}

test(
  'branch: a creation and a reset are 507 if the disk of the database has too little space',
  onlyLinux,
  async t => {
    // This file system has no free space.
    const platform = await startPlatform({ clusterDir: '/proc' })
    t.after(() => platform.stop())
    const parent = await backedUpProject(platform)
    const { create, ended } = branchesOf(platform, parent.id)
    const path = `/api/v1/projects/${parent.id}/branches`
    const ask = async (path: string, body?: object) => {
      const { status, body: answer } = await platform.call('POST', path, {
        token: platform.adminToken,
        ...(body && { body }),
      })
      return [status, answer.error?.code, answer.error?.message]
    }
    const tooLittle =
      /has 0 bytes beyond PLATFORM_DISK_RESERVE_MB, and a copy of this project needs \d{7,}; make room/
    const [status, code, message] = await ask(path, { name: 'full' })
    assert.deepEqual([status, code], [507, 'insufficient_space'])
    assert.match(message, tooLittle)
    const { id } = await create({ name: 'empty', schema_only: true })
    await platform.app.control.run(sql`update branches set schema_only = false where project_id = ${id}`)
    assert.deepEqual((await ask(`${path}/empty/reset`)).slice(0, 2), [507, 'insufficient_space'])

    // A task finds it out when it cannot share blocks.
    const held = await ownerSession(platform, parent.id)
    await platform.app.control.run(sql`
    insert into branch_tasks (id, branch_id, parent_id, kind) values (${orderedUuid()}, ${id}, ${parent.id}, 'reset')`)
    assert.match((await ended('empty')).error!, tooLittle)
    await held.end()
  },
)

test('branch: a creation ends when the disk reserve is reached, and leaves nothing', onlyLinux, async t => {
  const clusterDir = mkdtempSync(join(tmpdir(), 'plinth-branch-space-'))
  const wal = join(clusterDir, 'pg_wal')
  symlinkSync(clusterDir, wal)
  const platform = await startPlatform({ clusterDir, settings: { PLATFORM_DISK_RESERVE_MB: '1' } })
  t.after(async () => {
    await platform.stop()
    rmSync(clusterDir, { recursive: true })
  })
  const parent = await backedUpProject(platform)
  await parent.sql('create table notes (id int primary key); insert into notes values (1)')
  const parentRef = await platform.refOf(parent.id)
  const { api, ended } = branchesOf(platform, parent.id)
  const { id, error } = await platform.asSuperuser(parentRef, async holder => {
    await holder.script('begin; lock table public.notes in access exclusive mode')
    const created = await api.create({ params: { id: parent.id }, body: { name: 'full' } })
    const waiting = sql`select from pg_stat_activity where datname = ${parentRef} and wait_event_type = 'Lock'`
    await eventually(() => platform.app.control.row(waiting), 'the parent is read')
    // This file system has no free space.
    unlinkSync(wal)
    symlinkSync('/proc', wal)
    return ended(created.slug)
  })
  assert.match(error!, /short of disk space/)
  const ref = await platform.refOf(id)
  const left = sql`select from pg_database where starts_with(datname, ${ref})`
  assert.deepEqual(await platform.app.control.rows(left), [])
})

test('copies: a new database is closed to other projects from its first moment', async t => {
  const platform = await startPlatform()
  t.after(() => platform.stop())
  const [mine, other] = await Promise.all([platform.createProject(), platform.createProject()])
  const [ref, otherRef] = await Promise.all([platform.refOf(mine.id), platform.refOf(other.id)])
  const database = resetOf(ref)
  const logins = createLogins(platform.address, keyring(platform.controlPlaneSecret))
  const connect = async (project: string) => {
    const { host, port, user, password } = logins.address(project, 'owner')
    const client = new pg.Client({ host, port, user, password, database })
    return client.connect().then(
      () => client.end().then(() => 'connected'),
      error => error.code,
    )
  }
  await platform.asSuperuser('postgres', async session => {
    await session.script(createEmpty(database))
    // 53300 is too_many_connections, and 42501 insufficient_privilege.
    assert.deepEqual([await connect(ref), await connect(otherRef)], ['53300', '53300'])
    await session.script(closeToOthers(database))
    assert.deepEqual([await connect(ref), await connect(otherRef)], ['42501', '42501'])
    await session.script(openToOwner(database, loginRole(ref, 'owner')))
    assert.deepEqual([await connect(ref), await connect(otherRef)], ['connected', '42501'])
    await eventually(
      () =>
        session.script(`drop database ${identifier(database)}`).then(
          () => true,
          () => false,
        ),
      'the session has ended',
    )
  })
})
