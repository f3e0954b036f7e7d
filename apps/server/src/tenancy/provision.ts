// A project's database and roles, made and unmade. Every step can be repeated and undone, so whoever finds a
// half-made project can finish removing it.
import { type Database, guardedSettings, type Session, withClient } from '#src/kernel/postgres/database.ts'
import { identifier, literal, sql } from '#src/kernel/postgres/sql.ts'
import { type Cluster, controlSettings, migrateProject } from './cluster.ts'
import {
  logins as allLogins,
  type Login,
  type Logins,
  loginRole,
  tempFileLimits,
  tenantLogin,
} from './logins.ts'

export interface Provisioner {
  create(ref: string): Promise<void>
  /**
   * Gives a project of an older version the tables, functions, logins and rights of this one. Each migration is a
   * transaction with its record, so one that is interrupted is continued by the next call.
   */
  renew(project: { id: string; ref: string }, signal?: AbortSignal): Promise<void>
  /**
   * Closes the project's logins for good and drops its databases and roles. False when a database could not be dropped
   * in the given time, because a backend that cannot be interrupted is in the way: in this database, or in any other of
   * the server, since DROP DATABASE waits until every backend has released its open files.
   */
  drop(ref: string, patienceMs: number, signal?: AbortSignal): Promise<boolean>
}

const connectionLimits: Record<Login, number> = { owner: 20, api: 100, svc: 100, auth: 50 }
const databaseConnectionLimit = 250
const templateBusy = '55006'
const patienceMs = 250
/** The session of a node that was killed ends soon, and its advisory lock with it. */
const renewSettings = { ...guardedSettings, lock_timeout: '10s', client_connection_check_interval: '2s' }
const queryCanceled = '57014'
const objectInUse = '55006'

export function createProvisioner(control: Database, cluster: Cluster, logins: Logins): Provisioner {
  async function createRoles(session: Session, ref: string, logged: readonly Login[]): Promise<void> {
    const roles = await Promise.all(
      logged.map(async login => {
        const role = identifier(loginRole(ref, login))
        // A ready verifier: no clear-text password is ever in a statement.
        return `create role ${role} login noinherit nocreatedb nocreaterole
            connection limit ${connectionLimits[login]} password ${literal(await logins.verifier(ref, login))};
          alter role ${role} set temp_file_limit = '${tempFileLimits[login]}';`
      }),
    )
    await session.script(`${roles.join('\n')}
      grant anon, authenticated to ${identifier(loginRole(ref, 'api'))};
      grant service_role to ${identifier(loginRole(ref, 'svc'))};`)
  }

  /** The lock on the row keeps a deletion waiting, which would miss roles that are created after it. */
  async function createMissingRoles(id: string, ref: string): Promise<void> {
    const existing = await control.rows<{ rolname: string }>(
      sql`select rolname from pg_roles where rolname = any(${allLogins.map(login => loginRole(ref, login))})`,
    )
    const missing = allLogins.filter(
      login => !existing.some(({ rolname }) => rolname === loginRole(ref, login)),
    )
    if (missing.length === 0) return
    await control.transaction(async session => {
      const isServed = await session.row(
        sql`select from projects where id = ${id} and status in ('active', 'suspended') for share`,
      )
      if (isServed) await createRoles(session, ref, missing)
    })
  }

  /** Connection limit 0 keeps everybody out until PUBLIC's right to connect is taken away. */
  async function cloneTemplate(ref: string): Promise<void> {
    for (let attempt = 1; ; attempt++)
      try {
        return await control.script(
          `create database ${identifier(ref)} template ${identifier(cluster.template)} connection limit 0`,
        )
      } catch (error) {
        // Another node is bringing the template up to date.
        if ((error as { code?: string }).code !== templateBusy || attempt === 50) throw error
        await new Promise(resolve => setTimeout(resolve, 100))
      }
  }

  /** Any tenant can hold a lock that stands in the way; whoever does is shown out. */
  async function insist<T>(session: Session, work: () => Promise<T>): Promise<T> {
    const { pid } = (await session.row<{ pid: number }>(sql`select pg_backend_pid() as pid`))!
    const clear = setInterval(() => void endBlockers(control, pid).catch(() => {}), patienceMs)
    try {
      return await work()
    } finally {
      clearInterval(clear)
    }
  }

  return {
    async create(ref) {
      // Both have ended before anything is undone.
      const made = await Promise.allSettled([createRoles(control, ref, allLogins), cloneTemplate(ref)])
      for (const each of made) if (each.status === 'rejected') throw each.reason
      await withClient(cluster.address, ref, guardedSettings, session => session.script(grants(ref, ref)))
    },
    renew: ({ id, ref }, signal) =>
      withClient(
        cluster.address,
        ref,
        renewSettings,
        session =>
          insist(session, async () => {
            // Of two nodes the second waits here, and then finds nothing left to migrate.
            await session.run(sql`select pg_advisory_lock(hashtext('plinth: upgrade'))`)
            await createMissingRoles(id, ref)
            await migrateProject(session, cluster.projectMigrations)
            await session.script(grants(ref, ref))
          }),
        { signal },
      ),
    drop(ref, dropMs, signal) {
      const roles = allLogins.map(login => loginRole(ref, login))
      const databases = [ref, shadowOf(ref)]
      const work = async (session: Session) => {
        await endMakers(session, ref)
        // No new logins, so that FORCE leaves nobody behind; roles go last, because the database depends on them.
        await retrying(() => insist(session, () => session.script(roles.map(disable).join('\n'))))
        await endSessions(session, roles, databases)
        if (!(await areEmpty(session, databases, dropMs))) return false
        for (const database of databases)
          if (!(await insist(session, () => dropDatabase(session, database, dropMs)))) return false
        await insist(session, () => session.script(`drop role if exists ${roles.map(identifier).join(', ')}`))
        return true
      }
      return withClient(cluster.address, cluster.control, controlSettings, work, { signal })
    },
  }
}

/** DROP DATABASE would wait for them, too, but always for five seconds. */
async function areEmpty(session: Session, databases: readonly string[], withinMs: number): Promise<boolean> {
  for (const end = performance.now() + withinMs; ; await new Promise(resolve => setTimeout(resolve, 50))) {
    const left = await session.row(
      sql`select from pg_stat_activity where datname = any(${databases}) and backend_type = 'client backend' limit 1`,
    )
    if (!left) return true
    if (performance.now() > end) return false
  }
}

/** False when it takes too long. A database that is dropped halfway admits nobody and can be dropped again. */
export async function dropDatabase(session: Session, database: string, withinMs: number): Promise<boolean> {
  await session.script(`set statement_timeout = ${withinMs}`)
  try {
    await session.script(`drop database if exists ${identifier(database)} with (force)`)
    return true
  } catch (error) {
    const { code } = error as { code?: string }
    if (code === queryCanceled || code === objectInUse) return false
    throw error
  } finally {
    await session.script('reset statement_timeout').catch(() => {})
  }
}

/** Postgres gives up on a role that its owner changes at the same moment. */
async function retrying(work: () => Promise<void>): Promise<void> {
  for (let attempt = 1; ; attempt++)
    try {
      return await work()
    } catch (error) {
      if (attempt === 5 || (error as { code?: string }).code !== 'XX000') throw error
    }
}

const disable = (role: string) =>
  `do $$ begin alter role ${identifier(role)} nologin; exception when undefined_object then null; end $$;`

/** A platform that was killed leaves its CREATE DATABASE running: it would finish after everything was removed. */
async function endMakers(session: Session, ref: string): Promise<void> {
  const end = sql`
    select pg_terminate_backend(pid, 5000) from pg_stat_activity
     where pid <> pg_backend_pid() and application_name = 'plinth' and usename = current_user
       and state = 'active' and position(${ref} in query) > 0`
  await session.run(end)
}

/** Those of the project's logins, and any other in its databases, such as an upgrade that waits for a lock. */
const endSessions = (session: Session, roles: string[], databases: string[]) =>
  session.run(sql`
    select pg_terminate_backend(pid) from pg_stat_activity
     where usename = any(${roles}) or (datname = any(${databases}) and backend_type = 'client backend')`)

const endBlockers = (control: Database, pid: number) =>
  control.run(sql`
    select pg_terminate_backend(a.pid) from pg_stat_activity a
     where a.pid = any(pg_blocking_pids(${pid})) and a.usename ~ ${tenantLogin}`)

/** A second database of a project, for trying migrations out; see shadow.ts. */
export const shadowOf = (ref: string) => `${ref}_shadow`

/** Run inside the new database by the superuser, who keeps owning it; the tenant gets schema public. */
export function grants(ref: string, name: string): string {
  const database = identifier(name)
  const [owner, api, svc, auth] = allLogins.map(login => identifier(loginRole(ref, login)))
  const everyone = 'anon, authenticated, service_role'
  const defaults = `alter default privileges for role ${owner} in schema public grant`
  return `
    revoke all on database ${database} from public;
    grant connect, create, temporary on database ${database} to ${owner};
    grant connect on database ${database} to ${api}, ${svc}, ${auth};
    alter schema public owner to ${owner};
    alter publication supabase_realtime owner to ${owner};
    grant create, usage on schema extensions to ${owner};
    grant select, insert, update, delete on all tables in schema auth to ${auth};
    grant execute on function auth.identity_object(auth.identities), auth.factor_object(auth.mfa_factors),
      auth.user_object(auth.users), auth.refresh_session(uuid, bigint, integer, integer, integer) to ${auth};
    grant select, insert, update, delete, references, trigger on all tables in schema auth to ${owner};
    revoke insert, update, delete, references, trigger on auth.revocations from ${owner};
    grant execute on function platform.first_time(oid), platform.forget(oid) to ${owner};
    grant execute on procedure platform.drop_auth_trigger(text, text, boolean),
      platform.set_auth_trigger(text, text, text, boolean), platform.rename_auth_trigger(text, text, text),
      platform.comment_on_auth_trigger(text, text, text) to ${owner};
    grant usage on schema storage to ${owner};
    alter table if exists storage.buckets owner to ${owner};
    alter table if exists storage.objects owner to ${owner};
    grant usage on schema realtime to ${owner};
    alter table if exists realtime.messages owner to ${owner};
    alter function platform.prepare_judge(oid, text, "char") owner to ${owner};
    ${queueGrants(identifier(loginRole(ref, 'owner')))}
    ${defaults} select, insert, update, delete on tables to ${everyone};
    ${defaults} usage, select on sequences to ${everyone};
    ${defaults} execute on functions to ${everyone};
    alter database ${database} connection limit ${databaseConnectionLimit};`
}

/** Queues belong to the owner, who makes them; the service role works on their messages, however a table came there. */
function queueGrants(owner: string): string {
  const defaults = `alter default privileges for role ${owner} in schema pgmq grant`
  return `
    grant usage, create on schema pgmq to ${owner};
    grant select, insert, update, delete on pgmq.meta to ${owner};
    grant execute on all functions in schema pgmq to ${owner};
    ${defaults} select, insert, update, delete, truncate on tables to service_role;
    ${defaults} usage, select on sequences to service_role;
    do $$
    begin
      -- Where the tenant has made a schema of this name, it is the tenant's.
      if exists (select from pg_namespace n join pg_roles r on r.oid = n.nspowner
                  where n.nspname = 'pgmq_public' and r.rolname = current_user) then
        grant usage on schema pgmq_public to ${owner};
        grant execute on all functions in schema pgmq_public to ${owner};
      end if;
    end
    $$;`
}
