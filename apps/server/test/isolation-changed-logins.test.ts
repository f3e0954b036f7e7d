// A tenant changes the password or the settings of its own logins.
import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import type { CreatedProject } from '@plinth/contract/projects.ts'
import { isolatedProjects } from './isolated-projects.ts'

const { tenants, asOwner, asCaller, asSuperuser } = isolatedProjects()

describe('a login that the tenant has changed', () => {
  const withProject = async (work: (ref: string, project: CreatedProject) => Promise<void>) => {
    const project = await tenants.platform.createProject()
    await work(await tenants.platform.refOf(project.id), project)
  }
  /** A function that runs commands as the login, as an injection into a tenant's function could. */
  const runAsLogin = `create function as_login(command text) returns void language plpgsql as
    $$ begin reset role; execute command; end $$`
  const reconnect = async ({ id }: CreatedProject) => {
    tenants.platform.app.databases.disconnect(id)
    await sleep(50)
  }

  it('works for the next owner session after a password change', () =>
    withProject(async ref => {
      await asOwner(ref, `alter role current_user password 'known to the tenant'`)
      await asOwner(ref, 'create table after_healing (a int)')
      await asOwner(ref, 'alter role current_user password null')
      await asOwner(ref, 'drop table after_healing')
    }))

  it('works for the next caller after a password change', () =>
    withProject(async (ref, project) => {
      await asOwner(ref, runAsLogin)
      for (const role of ['anon', 'service_role'] as const) {
        await asCaller(project, role, 'select as_login($1)', [`alter role current_user password 'known'`])
        await reconnect(project)
        assert.deepEqual(await asCaller(project, role, 'select current_user'), [[role]])
      }
    }))

  it('ignores settings stored for its role', () =>
    withProject(async (ref, project) => {
      await asOwner(ref, `${runAsLogin}; create table kept (a text)`)
      for (const setting of [
        `local_preload_libraries = 'nosuch'`,
        'search_path = nowhere',
        'statement_timeout = 1',
        `client_encoding = 'LATIN1'`,
        `"DateStyle" = 'German'`,
        `"TimeZone" = 'Asia/Tokyo'`,
        `role = 'authenticated'`,
      ])
        await asCaller(project, 'anon', 'select as_login($1)', [`alter role current_user set ${setting}`])
      await reconnect(project)
      const seen = `select current_user, (select count(*) from kept), 'ä', make_date(2026, 1, 2), current_setting('timezone')`
      assert.deepEqual(await asCaller(project, 'anon', seen), [['anon', '0', 'ä', '2026-01-02', 'UTC']])

      await asOwner(ref, `alter role current_user set local_preload_libraries = 'nosuch'`)
      await asOwner(ref, `alter role current_user set role = 'anon'`)
      await asOwner(ref, `alter role current_user set client_encoding = 'LATIN1'`)
      await asOwner(ref, 'create table after_healing (a int)')
    }))

  it('ignores stored settings that end or forbid transactions', async () => {
    for (const setting of [
      'default_transaction_read_only = on',
      'transaction_timeout = 1',
      'idle_session_timeout = 1',
      `bytea_output = 'escape'`,
    ])
      await withProject(async (ref, project) => {
        await asOwner(ref, `${runAsLogin}; create table kept (a bytea); grant all on kept to service_role`)
        await asCaller(project, 'service_role', 'select as_login($1)', [
          `alter role current_user set ${setting}`,
        ])
        await reconnect(project)
        await asCaller(project, 'service_role', 'select 1')
        await sleep(20)
        const insert = `insert into kept values ('\\x41') returning a`
        assert.deepEqual(await asCaller(project, 'service_role', insert), [['\\x41']], setting)
      })
  })

  it('ignores stored settings that end or forbid transactions of the owner', async () => {
    for (const setting of [
      'default_transaction_read_only = on',
      'transaction_timeout = 1',
      'statement_timeout = 1',
    ])
      await withProject(async ref => {
        await asOwner(ref, `alter role current_user set ${setting}`)
        await asOwner(ref, 'create table made (a int); select pg_sleep(0.05)')
      })
  })

  it('is repaired once, not at every connection, when it has settings for another database', () =>
    withProject(async (ref, project) => {
      await asOwner(ref, runAsLogin)
      const command = `alter role current_user in database ${tenants.otherRef} set work_mem = '1MB'`
      await asCaller(project, 'anon', 'select as_login($1)', [command])
      const written = async () => {
        await reconnect(project)
        await asCaller(project, 'anon', 'select 1')
        return asSuperuser('postgres', `select xmin::text from pg_authid where rolname = '${ref}_api'`)
      }
      assert.deepEqual(await written(), await written())
    }))

  it('keeps its limits when it is repaired', () =>
    withProject(async (ref, project) => {
      await asOwner(ref, runAsLogin)
      const limit = `select current_setting('temp_file_limit')`
      assert.deepEqual(await asCaller(project, 'anon', limit), [['256MB']])
      await asCaller(project, 'anon', 'select as_login($1)', [`alter role current_user password 'known'`])
      await reconnect(project)
      assert.deepEqual(await asCaller(project, 'anon', limit), [['256MB']])
    }))
})
