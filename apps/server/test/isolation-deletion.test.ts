// A tenant can name the logins of other projects in its own database, because names of roles are visible. Postgres then
// refuses to drop them.
import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { isDeepStrictEqual } from 'node:util'
import type { CreatedProject } from '@plinth/contract/projects.ts'
import { raw } from '#src/kernel/postgres/sql.ts'
import { loginRole, logins } from '#src/tenancy/logins.ts'
import { eventually } from './eventually.ts'
import { isolatedProjects } from './isolated-projects.ts'

const { tenants, logIn, asOwner, asSuperuser } = isolatedProjects()

interface Doomed {
  project: CreatedProject
  ref: string
  role: Record<(typeof logins)[number], string>
}

async function doomedProject(): Promise<Doomed> {
  const project = await tenants.platform.createProject()
  const ref = await tenants.platform.refOf(project.id)
  const role = Object.fromEntries(logins.map(login => [login, loginRole(ref, login)])) as Doomed['role']
  return { project, ref, role }
}

const deleteProject = ({ project: { id, slug } }: Doomed) =>
  tenants.platform.call('DELETE', `/api/v1/projects/${id}?confirm=${slug}`, {
    token: tenants.platform.adminToken,
  })

/** The statement does not contain the ref: a deletion ends statements of superusers that contain it. */
async function listLeft({ ref }: Doomed) {
  const names = await asSuperuser<{ name: string }>(
    'postgres',
    'select datname::text as name from pg_database union all select rolname::text from pg_roles',
  )
  return names.filter(({ name }) => name.startsWith(ref))
}

async function assertDeleted({ project }: Doomed) {
  const { status, body } = await tenants.platform.call('GET', `/api/v1/projects/${project.id}`, {
    token: tenants.platform.adminToken,
  })
  assert.equal(status, 404, JSON.stringify(body))
}

async function assertGone(doomed: Doomed) {
  assert.deepEqual(await listLeft(doomed), [])
  await assertDeleted(doomed)
}

describe('a project whose logins another project names', () => {
  it('is deleted, and the other project keeps what is its own', async () => {
    const doomed = await doomedProject()
    const { owner, api, svc, auth } = doomed.role
    const { ownRef } = tenants
    await asOwner(
      ownRef,
      `create schema named;
       create table named.t (id int primary key, a text);
       insert into named.t values (1, 'kept');
       create function named.f() returns int language sql as 'select 1';
       create sequence named.s;
       create type named.e as enum ('x');
       select lo_create(4711);
       grant usage on schema named to ${owner}, anon;
       grant select on named.t to ${owner} with grant option;
       grant select on named.t to anon;
       grant update (a) on named.t to ${api};
       grant execute on function named.f() to ${svc};
       grant usage on sequence named.s to ${auth};
       grant usage on type named.e to ${owner};
       grant select on large object 4711 to ${owner};
       alter default privileges in schema named grant select on tables to ${owner}, anon;
       alter default privileges grant execute on functions to ${api};
       create policy theirs on named.t to ${owner} using (true);
       create policy shared on named.t to ${owner}, anon using (a is not null);`,
    )
    const { status, body } = await deleteProject(doomed)
    assert.ok(status < 300, JSON.stringify(body))
    await assertGone(doomed)
    assert.deepEqual(
      await asSuperuser(
        ownRef,
        `select (select count(*)::int from named.t) as rows, has_table_privilege('anon', 'named.t', 'select') as anon,
                (select array_agg(polname::text || ' ' || polroles::regrole[]::text) from pg_policy where polrelid = 'named.t'::regclass) as policies,
                (select array_agg(a.grantee::regrole::text) from pg_default_acl d, aclexplode(d.defaclacl) a
                  where d.defaclnamespace = 'named'::regnamespace) as defaults`,
      ),
      [{ rows: 1, anon: true, policies: ['shared {anon}'], defaults: ['anon'] }],
    )
  })

  it('is deleted if a role that is not the owner of the object has granted the rights', async () => {
    const doomed = await doomedProject()
    const { ownRef } = tenants
    await asOwner(
      ownRef,
      `create table passed_on (id int, a text);
       create function passed_on() returns int language sql as 'select 1';
       alter default privileges revoke all on tables from anon;
       grant usage, create on schema public to service_role with grant option;
       grant all on passed_on to service_role with grant option;
       grant all on function passed_on() to service_role with grant option;
       grant all (id) on passed_on to service_role with grant option;
       select lo_create(4712);
       grant all on large object 4712 to service_role with grant option;`,
    )
    const service = await logIn(ownRef, 'svc')
    await service.query(
      `set role service_role;
       grant select on passed_on to ${doomed.role.owner} with grant option;
       grant update (a), references (id) on passed_on to ${doomed.role.api};
       grant execute on function passed_on() to ${doomed.role.owner};
       grant usage on schema public to ${doomed.role.owner};
       grant select on large object 4712 to ${doomed.role.owner}`,
    )
    await service.end()
    const { status, body } = await deleteProject(doomed)
    assert.ok(status < 300, JSON.stringify(body))
    await assertGone(doomed)
  })

  it('is deleted while the other project goes on naming them', async () => {
    const doomed = await doomedProject()
    const { ownRef } = tenants
    await asOwner(ownRef, 'create table again (id int)')
    let isOver = false
    const naming = Array.from({ length: 3 }, async () => {
      while (!isOver) {
        const client = await logIn(ownRef, 'owner').catch(() => undefined)
        if (!client) continue
        for (let i = 0; !isOver; i++)
          try {
            await client.query(
              `create table if not exists again_${i % 7} (id int); grant select on again_${i % 7} to ${doomed.role.owner}`,
            )
          } catch (error) {
            // Unless a role is missing, the session was ended.
            if (/role/.test(String(error))) isOver = true
            else break
          }
        await client.end().catch(() => {})
      }
    })
    const { status, body } = await deleteProject(doomed)
    isOver = true
    await Promise.all(naming)
    assert.ok(status < 300, JSON.stringify(body))
    await assertDeleted(doomed)
    // Now or by the recovery.
    await eventually(async () => (await listLeft(doomed)).length === 0, 'the roles are dropped')
  })

  it('is deleted if its roles cannot be dropped yet, and no object of another project is dropped', async () => {
    const doomed = await doomedProject()
    const { ownRef } = tenants
    await asOwner(ownRef, 'create table copied (id int)')
    // As in a copy that is being given to another project.
    const give = (role: string) =>
      tenants.platform.asSuperuser(ownRef, session =>
        session.script(`alter table public.copied owner to ${role}`),
      )
    await give(doomed.role.owner)
    const { status, body } = await deleteProject(doomed)
    assert.ok(status < 300, JSON.stringify(body))
    await assertDeleted(doomed)
    // The database is dropped later if a backend cannot be interrupted.
    const roles = Object.values(doomed.role).sort()
    const left = async () => (await listLeft(doomed)).map(({ name }) => name).sort()
    await eventually(async () => isDeepStrictEqual(await left(), roles), 'only the roles are left')
    await give(loginRole(ownRef, 'owner'))
    await eventually(async () => (await listLeft(doomed)).length === 0, 'the roles are dropped')
    await asOwner(ownRef, 'drop table copied')
  })

  it('is deleted if it lacks a login, as before its upgrade', async () => {
    const doomed = await doomedProject()
    await tenants.platform.asSuperuser(doomed.ref, session =>
      session.script(`drop owned by ${doomed.role.auth}; drop role ${doomed.role.auth}`),
    )
    await asOwner(
      tenants.ownRef,
      `create table fewer (id int); grant select on fewer to ${doomed.role.owner}`,
    )
    const { status, body } = await deleteProject(doomed)
    assert.ok(status < 300, JSON.stringify(body))
    await assertGone(doomed)
  })

  it('is deleted without running event triggers of the other project', async () => {
    const doomed = await doomedProject()
    const { ownRef } = tenants
    const role = loginRole(ownRef, 'owner')
    await asOwner(
      ownRef,
      `create table trapped (id int);
       create function trap() returns event_trigger language plpgsql as $$
         begin execute 'alter role ${role} superuser'; exception when insufficient_privilege then null; end $$;
       create policy theirs on trapped to ${doomed.role.owner} using (true);
       grant select on trapped to ${doomed.role.api};`,
    )
    await assert.rejects(asOwner(ownRef, 'create event trigger mine on sql_drop execute function trap()'), {
      code: '42501',
    })
    // Only a superuser can create one. This one is the worst that an operator can do.
    await tenants.platform.asSuperuser(ownRef, session =>
      session.script(
        ['sql_drop', 'ddl_command_end', 'ddl_command_start']
          .map(event => `create event trigger trap_${event} on ${event} execute function public.trap();`)
          .join('\n'),
      ),
    )
    // It falls into the trap without protection.
    await tenants.platform.asSuperuser(ownRef, async session => {
      await session.script(`begin; drop owned by ${doomed.role.owner}`)
      const [fallen] = await session.rows(raw(`select rolsuper from pg_roles where rolname = '${role}'`))
      assert.deepEqual(fallen, { rolsuper: true })
      await session.script('rollback')
    })
    const { status, body } = await deleteProject(doomed)
    assert.ok(status < 300, JSON.stringify(body))
    await assertGone(doomed)
    assert.deepEqual(
      await asSuperuser('postgres', `select rolsuper from pg_roles where rolname = '${role}'`),
      [{ rolsuper: false }],
    )
  })
})
