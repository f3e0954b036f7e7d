// Objects and locks of a tenant do not affect the sessions of the platform.
import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import type { CreatedProject } from '@plinth/contract/projects.ts'
import { sql } from '#src/kernel/postgres/sql.ts'
import { startPlatform, untilUpgraded } from './harness.ts'
import { isolatedProjects } from './isolated-projects.ts'

const { tenants, logIn, asOwner, asCaller, asSuperuser } = isolatedProjects()

describe('objects that shadow names used by the platform’s superuser', () => {
  const shadows = (role: string) => `
    create function public.trap() returns boolean language plpgsql as $$
      begin execute 'alter role ${role} superuser'; return true;
      exception when insufficient_privilege then return false; end $$;
    create function public.same(text, text) returns boolean language plpgsql as
      $$ begin perform public.trap(); return $1 operator(pg_catalog.=) $2; end $$;
    create operator public.= (leftarg = text, rightarg = text, function = public.same);
    create function public.format(text, name, name) returns text language plpgsql as
      $$ begin perform public.trap(); return pg_catalog.format($1, $2, $3); end $$;
    create function public.now() returns timestamptz language plpgsql as
      $$ begin perform public.trap(); return pg_catalog.now(); end $$;
    create function public.pg_has_role(oid, text) returns boolean language plpgsql as
      $$ begin perform public.trap(); return true; end $$;
    create function public.to_regnamespace(text) returns regnamespace language plpgsql as
      $$ begin perform public.trap(); return pg_catalog.to_regnamespace($1); end $$;
    create table public.migrations (name text, hash text);
    create table public.pg_class (oid oid, relname name);
    create table public.pg_namespace (oid oid, nspname name);
    create view public.watched as select public.trap();`
  const isSuperuser = async (role: string) =>
    (
      await asSuperuser<{ rolsuper: boolean }>(
        'postgres',
        `select rolsuper from pg_roles where rolname = '${role}'`,
      )
    )[0]?.rolsuper

  it('are not used by an upgrade', async () => {
    const project = await tenants.platform.createProject()
    const ref = await tenants.platform.refOf(project.id)
    const role = `${ref}_owner`
    await asOwner(ref, shadows(role))

    // A superuser session with public in its search_path does run the trap.
    await tenants.platform.asSuperuser(ref, async session => {
      await session.script(`begin; set search_path = "$user", public`)
      await session.rows(sql`select format('%I.%I', 'a'::name, 'b'::name)`)
      const fallen = await session.row(sql`select rolsuper from pg_catalog.pg_roles where rolname = ${role}`)
      assert.deepEqual(fallen, { rolsuper: true })
      await session.script('rollback')
    })

    await tenants.platform.asSuperuser(ref, session =>
      session.script(`update platform.migrations set hash = ''`),
    )
    await tenants.platform.app.control.run(
      sql`update projects set schema_version = '' where id = ${project.id}`,
    )
    const second = await startPlatform({ beside: tenants.platform })
    await untilUpgraded(second)
    await second.stop()

    assert.equal(await isSuperuser(role), false)
    const { schema_version } = (await tenants.platform.app.control.row<{ schema_version: string }>(
      sql`select schema_version from projects where id = ${project.id}`,
    ))!
    assert.equal(schema_version, tenants.platform.app.cluster.projectVersion)
    const replaced = await asSuperuser<{ name: string }>(
      ref,
      `select name from platform.migrations where hash <> '' order by name`,
    )
    const repeatable = tenants.platform.app.cluster.projectMigrations.filter(
      ({ isRepeatable }) => isRepeatable,
    )
    assert.deepEqual(
      replaced.map(({ name }) => name),
      repeatable.map(({ name }) => name).sort(),
    )
    assert.deepEqual(
      second.logged.filter(line => line.includes('could not be upgraded')),
      [],
    )
  })

  it('are not run as superuser by DDL or by creating an extension', async () => {
    const project = await tenants.platform.createProject()
    const ref = await tenants.platform.refOf(project.id)
    await asOwner(ref, shadows(`${ref}_owner`))
    await asOwner(
      ref,
      `create table made (a int); create table copied as select 1 as a; create view shown as select 1 as a;
       create schema later; drop schema later; drop table made; create extension hstore; create extension citext schema extensions`,
    )
    assert.equal(await isSuperuser(`${ref}_owner`), false)
    assert.deepEqual(
      (
        await asSuperuser<{ on: boolean }>(
          ref,
          `select relrowsecurity as on from pg_class where relname = 'copied'`,
        )
      )[0],
      { on: true },
    )
  })
})

describe('locks that a tenant holds', () => {
  const deleteProject = ({ id, slug }: CreatedProject) =>
    tenants.platform.call('DELETE', `/api/v1/projects/${id}?confirm=${slug}`, {
      token: tenants.platform.adminToken,
    })

  it('do not block the deletion of a project', async () => {
    const [doomed, holder] = await Promise.all([
      tenants.platform.createProject(),
      tenants.platform.createProject(),
    ])
    const ref = await tenants.platform.refOf(doomed.id)
    const inside = await logIn(ref, 'owner')
    const outside = await logIn(await tenants.platform.refOf(holder.id), 'owner')
    await inside.query(`begin; alter role current_user password 'known'`)
    await outside.query(`begin; alter role current_user in database ${ref} set work_mem = '1MB'`)
    const removing = deleteProject(doomed)
    const first = await Promise.race([removing, sleep(90_000, 'blocked', { ref: false })])
    await Promise.all([inside.end(), outside.end()].map(ending => ending.catch(() => {})))
    await removing
    assert.notEqual(first, 'blocked')
  })

  it('do not block requests to the control database', async () => {
    const project = await tenants.platform.createProject()
    const ref = await tenants.platform.refOf(project.id)
    const holders = await Promise.all([logIn(ref, 'api'), logIn(ref, 'svc')])
    for (const holder of holders) {
      await holder.query(`alter role current_user password 'known'`)
      await holder.query(`begin; alter role current_user password 'better known'`)
    }
    // Each new connection finds a changed password and must wait for the locked row of its role.
    const callers = (['anon', 'service_role'] as const).flatMap(role =>
      Array.from({ length: 20 }, () => asCaller(project, role, 'select 1').catch(() => {})),
    )
    await sleep(200)
    const { status } = await tenants.platform.call('GET', '/api/v1/projects', {
      token: tenants.platform.adminToken,
    })
    await Promise.all(callers.concat(holders.map(holder => holder.end())) as Promise<unknown>[])
    assert.equal(status, 200)
    assert.deepEqual(await asCaller(project, 'anon', 'select 1'), [['1']])
  })
})
