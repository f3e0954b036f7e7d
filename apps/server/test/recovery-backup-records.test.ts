// What an older control database, of a recovery to a time or of restore-control, knows of the store of backups afterwards.
import assert from 'node:assert/strict'
import { randomBytes, randomUUID } from 'node:crypto'
import { after, test } from 'node:test'
import { copyBackupRecords, forgetRemovedBackups } from '#src/archive/control-store.ts'
import { guardedSettings, type Session, withClient } from '#src/kernel/postgres/database.ts'
import { sql } from '#src/kernel/postgres/sql.ts'
import { clusterOf, controlSettings, migratePlatform } from '#src/tenancy/cluster.ts'
import { testServer } from './harness.ts'

const name = `records_${randomBytes(6).toString('hex')}`
const made: string[] = []
const onServer = (statement: string) =>
  withClient(testServer(), 'postgres', guardedSettings, session => session.script(statement))
after(async () => {
  for (const database of made) await onServer(`drop database if exists ${database} with (force)`)
})

/** Two control databases: the newer one, and the older one that is put in its place. */
async function databases<T>(work: (newer: Session, older: Session) => Promise<T>): Promise<T> {
  const [newer, older] = ['newer', 'older'].map(which => `${name}_${made.length}_${which}`)
  for (const database of [newer!, older!]) {
    made.push(database)
    await onServer(`create database ${database}`)
  }
  return withClient(testServer(), newer!, controlSettings, from =>
    withClient(testServer(), older!, controlSettings, to => work(from, to)),
  )
}

const migrated = async (session: Session) =>
  migratePlatform(session, clusterOf(testServer(), 'any').platformMigrations)

const insertProject = (session: Session, id: string) =>
  session.run(sql`
    insert into projects (id, ref, name, slug, status, anon_key, service_role_key, jwt_secret)
    values (${id}, ${`r${id}`}, 'n', ${id}, 'active', '', '', '')`)

const at = (hour: number) => `2030-01-31 ${hour}:00:00Z`
const insertBackup = (session: Session, project: string, id: string, hour: number, status = 'done') =>
  session.run(sql`
    insert into backups (id, project_id, kind, status, created_at)
    values (${id}, ${project}, 'manual', ${status}, ${at(hour)})`)
const insertFile = (session: Session, project: string, version: string, first: number, last: number) =>
  session.run(sql`insert into backup_files values (${project}, ${version}, 1, ${at(first)}, ${at(last)})`)

const idsOf = async (session: Session, table: 'backups' | 'backup_tasks' | 'restores') =>
  new Set(
    (
      await session.rows<{ id: string }>(
        table === 'backups'
          ? sql`select id from backups`
          : table === 'restores'
            ? sql`select id from restores where status = 'running'`
            : sql`select id from backup_tasks`,
      )
    ).map(({ id }) => id),
  )
const versions = async (session: Session) =>
  new Set(
    (await session.rows<{ version: string }>(sql`select version from backup_files`)).map(
      each => each.version,
    ),
  )

test('recovery: backups that were removed since, and files that only they had, do not come back', () =>
  databases(async (newer, older) => {
    const [project, lost] = [randomUUID(), randomUUID()]
    const [removed, ended, failed, kept, later, ofLost] = Array.from({ length: 6 }, randomUUID) as [
      string,
      string,
      string,
      string,
      string,
      string,
    ]
    const [onlyRemoved, shared, onlyLater, inLost] = Array.from({ length: 4 }, randomUUID) as [
      string,
      string,
      string,
      string,
    ]
    for (const session of [newer, older]) {
      await migrated(session)
      await insertProject(session, project)
      await insertBackup(session, project, kept, 4)
    }
    // As of the older time.
    await insertProject(older, lost)
    await insertBackup(older, project, removed, 2)
    await insertBackup(older, project, ended, 3, 'running')
    await insertBackup(older, project, failed, 1, 'failed')
    await insertBackup(older, lost, ofLost, 2)
    await insertFile(older, project, onlyRemoved, 2, 3)
    await insertFile(older, project, shared, 2, 4)
    await insertFile(older, lost, inLost, 2, 2)
    const [restore, restored] = [randomUUID(), randomUUID()]
    await older.run(sql`
      insert into restores (id, project_id, backup_id, before_backup_id, status) values
        (${restore}, ${project}, ${removed}, ${ended}, 'running'), (${restored}, ${project}, ${removed}, ${kept}, 'done')`)
    await older.run(sql`
      insert into backup_tasks (id, project_id, kind, backup_id, restore_id)
      values (${randomUUID()}, ${project}, 'restore', ${removed}, ${restore})`)
    // Since then.
    await insertBackup(newer, project, ended, 3, 'failed')
    await insertBackup(newer, project, later, 6)
    await insertFile(newer, project, shared, 2, 6)
    await insertFile(newer, project, onlyLater, 6, 6)

    await copyBackupRecords(newer, older)
    await forgetRemovedBackups(newer, older)
    // The newer database says nothing about a project that it does not know.
    assert.deepEqual(await idsOf(older, 'backups'), new Set([failed, kept, later, ofLost]))
    assert.deepEqual(await versions(older), new Set([shared, onlyLater, inLost]))
    assert.deepEqual(await idsOf(older, 'backup_tasks'), new Set())
    assert.deepEqual(await idsOf(older, 'restores'), new Set())
    const ends = await older.rows(sql`select id, status, error from restores where status = 'failed'`)
    assert.deepEqual(ends, [{ id: restore, status: 'failed', error: 'The backup was removed meanwhile.' }])
  }))

test('recovery: a control database of a release without backups is left as it is', () =>
  databases(async (newer, older) => {
    await migrated(newer)
    await forgetRemovedBackups(newer, older)
    await forgetRemovedBackups(older, newer)
    const project = randomUUID()
    await insertProject(newer, project)
    await insertBackup(newer, project, randomUUID(), 1)
    await forgetRemovedBackups(older, newer)
    assert.equal((await idsOf(newer, 'backups')).size, 1)
  }))
