// Creates and removes the database and roles of a project. Every step can be repeated and undone, so any node can finish the
// removal of an unfinished project.
import { startChore } from '#src/kernel/chores.ts'
import { type Database, guardedSettings, type Session, withClient } from '#src/kernel/postgres/database.ts'
import { sqlState } from '#src/kernel/postgres/database-error.ts'
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
import { defaultPrivilegesOf, type GrantsFor } from './project-grants.ts'
import { dropRoles } from './role-removal.ts'

export interface Provisioner {
  create(ref: string): Promise<void>
  /** Drops what an earlier attempt to make the project has left, and creates its logins. */
  createLogins(ref: string): Promise<void>
  /**
   * Upgrades the schema, functions, logins and rights of a project to this release. Each migration and its record are one
   * transaction, so an interrupted upgrade continues with the next call.
   */
  upgrade(project: { id: string; ref: string }, signal?: AbortSignal): Promise<void>
  /** Upgrades another database of the project in the same way, before it takes the place of the live one. */
  renew(ref: string, database: string): Promise<void>
  /**
   * Disables the project's logins and drops its databases and roles. False if a database could not be dropped before the
   * timeout, because a backend cannot be interrupted. That backend may be in any database of the server, since DROP
   * DATABASE waits until every backend has released its open files. Also false if another database still names the roles.
   */
  drop(ref: string, timeoutMs: number, signal?: AbortSignal): Promise<boolean>
}

const connectionLimits: Record<Login, number> = { owner: 20, api: 100, svc: 100, auth: 50 }
const templateBusy = '55006'
const timeoutMs = 250
/** For databases of an earlier attempt. */
const copyMs = 60_000
/** The session of a killed node ends soon and releases its advisory lock. */
const upgradeSettings = { ...guardedSettings, lock_timeout: '10s', client_connection_check_interval: '2s' }
const queryCanceled = '57014'
/**
 * A sequence writes WAL only for every 32nd number. A copy of the template would go on within the numbers that the template
 * has written, so after a crash, or in a recovery to a time, it would give some of them again.
 */
const logSequences = `
  select setval(format('%I.%I', schemaname, sequencename)::regclass, last_value)
    from pg_sequences where last_value is not null`
const objectInUse = '55006'

export function createProvisioner(
  control: Database,
  cluster: Cluster,
  logins: Logins,
  grants: GrantsFor,
): Provisioner {
  async function createRoles(session: Session, ref: string, logged: readonly Login[]): Promise<void> {
    const roles = await Promise.all(
      logged.map(async login => {
        const role = identifier(loginRole(ref, login))
        // Send a SCRAM verifier, so that no statement contains the password.
        return `create role ${role} login noinherit nocreatedb nocreaterole
            connection limit ${connectionLimits[login]} password ${literal(await logins.verifier(ref, login))};
          alter role ${role} set temp_file_limit = '${tempFileLimits[login]}';`
      }),
    )
    await session.script(`${roles.join('\n')}
      grant anon, authenticated to ${identifier(loginRole(ref, 'api'))};
      grant service_role to ${identifier(loginRole(ref, 'svc'))};`)
  }

  /** The row lock blocks a concurrent deletion, which would miss roles created after it. */
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

  /** Connection limit 0 rejects logins until CONNECT is revoked from PUBLIC. */
  async function cloneTemplate(ref: string): Promise<void> {
    for (let attempt = 1; ; attempt++)
      try {
        return await control.script(
          `create database ${identifier(ref)} template ${identifier(cluster.template)} connection limit 0`,
        )
      } catch (error) {
        // Another node is migrating the template.
        if (sqlState(error) !== templateBusy || attempt === 50) throw error
        await new Promise(resolve => setTimeout(resolve, 100))
      }
  }

  /** A tenant can hold a conflicting lock. Such sessions are ended. */
  async function insist<T>(session: Session, work: () => Promise<T>): Promise<T> {
    const { pid } = (await session.row<{ pid: number }>(sql`select pg_backend_pid() as pid`))!
    const clearing = startChore({
      name: 'end blockers',
      everyMs: timeoutMs,
      run: () => endBlockers(control, pid),
    })
    try {
      return await work()
    } finally {
      await clearing.stop()
    }
  }

  function drop(ref: string, dropMs: number, signal?: AbortSignal): Promise<boolean> {
    const roles = allLogins.map(login => loginRole(ref, login))
    const databases = databasesOf(ref)
    const work = async (session: Session) => {
      await endMakers(session, ref)
      // Disable logins first, so that no session starts after FORCE. Drop the roles last, because the database depends on them.
      await retrying(() => insist(session, () => session.script(roles.map(disable).join('\n'))))
      await endSessions(session, roles, databases)
      if (!(await areEmpty(session, databases, dropMs))) return false
      for (const database of databases)
        if (!(await insist(session, () => dropDatabase(session, database, dropMs)))) return false
      return dropRoles(session, roles, { address: cluster.address, insist, signal })
    }
    return withClient(cluster.address, cluster.control, controlSettings, work, { signal })
  }

  const migrate = (session: Session, ref: string, database: string): Promise<void> =>
    migrateProject(session, cluster.projectMigrations, () => session.script(grants(ref, database)))

  return {
    async create(ref) {
      // Wait for both before the rollback.
      const made = await Promise.allSettled([createRoles(control, ref, allLogins), cloneTemplate(ref)])
      for (const each of made) if (each.status === 'rejected') throw each.reason
      await withClient(cluster.address, ref, guardedSettings, session =>
        session.script(`${logSequences}; ${grants(ref, ref)} ${defaultPrivilegesOf(ref)}`),
      )
    },
    async createLogins(ref) {
      if (!(await drop(ref, copyMs))) throw new Error('what an earlier attempt has left cannot be dropped')
      await createRoles(control, ref, allLogins)
    },
    upgrade: ({ id, ref }, signal) =>
      withClient(
        cluster.address,
        ref,
        upgradeSettings,
        session =>
          insist(session, async () => {
            // A second node waits here for the lock and then finds nothing to migrate.
            await session.run(sql`select pg_advisory_lock(hashtext('plinth: upgrade'))`)
            await createMissingRoles(id, ref)
            await migrate(session, ref, ref)
          }),
        { signal },
      ),
    renew: (ref, database) =>
      withClient(cluster.address, database, upgradeSettings, session => migrate(session, ref, database)),
    drop,
  }
}

/** DROP DATABASE waits for these sessions too, but always for up to five seconds. */
async function areEmpty(session: Session, databases: readonly string[], withinMs: number): Promise<boolean> {
  for (const end = performance.now() + withinMs; ; await new Promise(resolve => setTimeout(resolve, 50))) {
    const left = await session.row(
      sql`select from pg_stat_activity where datname = any(${databases}) and backend_type = 'client backend' limit 1`,
    )
    if (!left) return true
    if (performance.now() > end) return false
  }
}

/** False after the timeout. A database whose drop was interrupted rejects connections and can be dropped again. */
export async function dropDatabase(session: Session, database: string, withinMs: number): Promise<boolean> {
  await session.script(`set statement_timeout = ${withinMs}`)
  try {
    await session.script(`drop database if exists ${identifier(database)} with (force)`)
    return true
  } catch (error) {
    const code = sqlState(error)
    if (code === queryCanceled || code === objectInUse) return false
    throw error
  } finally {
    await session.script('reset statement_timeout').catch(() => {})
  }
}

/** Drops a database besides that of the project, such as one that a killed task was filling. */
export async function dropCopy({ address, control }: Cluster, database: string): Promise<void> {
  const isDropped = await withClient(address, control, controlSettings, async session => {
    await endMakers(session, database)
    return dropDatabase(session, database, copyMs)
  })
  if (!isDropped) throw new Error(`the database ${database} cannot be dropped`)
}

/** Retries, because Postgres fails when the role changes concurrently. */
async function retrying(work: () => Promise<void>): Promise<void> {
  for (let attempt = 1; ; attempt++)
    try {
      return await work()
    } catch (error) {
      if (attempt === 5 || sqlState(error) !== 'XX000') throw error
    }
}

const disable = (role: string) =>
  `do $$ begin alter role ${identifier(role)} nologin; exception when undefined_object then null; end $$;`

/**
 * The CREATE DATABASE of a killed platform keeps running and would complete after the removal. A deletion of the
 * project, which may be dropping the same database, goes on.
 */
export async function endMakers(session: Session, name: string): Promise<void> {
  const end = sql`
    select pg_terminate_backend(pid, 5000) from pg_stat_activity
     where pid <> pg_backend_pid() and application_name = 'plinth' and usename = current_user
       and state = 'active' and query !~* '^\\s*drop database' and position(${name} in query) > 0`
  await session.run(end)
}

/** Sessions of the project's logins, and others in its databases, such as an upgrade that waits for a lock. */
const endSessions = (session: Session, roles: string[], databases: string[]) =>
  session.run(sql`
    select pg_terminate_backend(pid) from pg_stat_activity
     where usename = any(${roles}) or (datname = any(${databases}) and backend_type = 'client backend')`)

const endBlockers = (control: Database, pid: number) =>
  control.run(sql`
    select pg_terminate_backend(a.pid) from pg_stat_activity a
     where a.pid = any(pg_blocking_pids(${pid})) and a.usename ~ ${tenantLogin}`)

/** The name of the database into which a backup is restored to verify it. */
export const verifyOf = (ref: string) => `${ref}_verify`
/** The name of the database that a restore fills, and that of the state before the last restore. */
export const restoredOf = (ref: string) => `${ref}_restored`
export const beforeOf = (ref: string) => `${ref}_before`
/** The name of the database with the project as it was at a time; see services/pitr. */
export const recoveredOf = (ref: string) => `${ref}_recovered`
/** The name of the database that a reset of a branch fills, and that of the one it replaces. */
export const resetOf = (ref: string) => `${ref}_reset`
export const replacedOf = (ref: string) => `${ref}_replaced`
/** The name of the shadow database; see shadow-database.ts. */
export const shadowOf = (ref: string) => `${ref}_shadow`

/** All databases that a project can have. */
export const databasesOf = (ref: string): string[] => [
  ref,
  ...[shadowOf, verifyOf, restoredOf, beforeOf, recoveredOf, resetOf, replacedOf].map(nameOf => nameOf(ref)),
]
