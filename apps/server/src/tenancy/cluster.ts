// Prepares a Postgres server for projects: the shared roles, the control database, and the template of project databases.
import { fileURLToPath } from 'node:url'
import { guardedSettings, type Session, withClient } from '#src/kernel/postgres/database.ts'
import {
  listMissing,
  type Migration,
  migrate,
  readMigrations,
  versionOf,
} from '#src/kernel/postgres/migrate.ts'
import type { ServerAddress } from '#src/kernel/postgres/server-address.ts'
import { identifier, sql } from '#src/kernel/postgres/sql.ts'

export interface Cluster {
  address: ServerAddress
  control: string
  template: string
  platformMigrations: readonly Migration[]
  projectMigrations: readonly Migration[]
  projectVersion: string
}

/** No tenant can connect to the control database, so unqualified table names are safe. */
export const controlSettings = { ...guardedSettings, search_path: 'public' }

const oldestServer = 150000
const migrationsIn = (folder: string) =>
  readMigrations(fileURLToPath(new URL(`../../migrations/${folder}`, import.meta.url)))

/** The names and migrations of this release. */
export function clusterOf(address: ServerAddress, control: string): Cluster {
  const projectMigrations = migrationsIn('project')
  return {
    address,
    control,
    template: `${control}_template`,
    platformMigrations: migrationsIn('platform'),
    projectMigrations,
    projectVersion: versionOf(projectMigrations),
  }
}

/** What happens around the migration of the control database. If it fails, nothing is changed. */
export interface AroundMigration {
  /** On a database that is not new, with the migrations that it lacks. */
  before?(session: Session, cluster: Cluster, missing: readonly Migration[]): Promise<void>
  /** After the migrations, in their transaction. */
  within?(session: Session): Promise<void>
}

export async function prepareCluster(
  address: ServerAddress,
  control: string,
  { before, within }: AroundMigration = {},
): Promise<Cluster> {
  const cluster = clusterOf(address, control)
  await checkUsable(address)
  await withClient(address, 'postgres', guardedSettings, async session => {
    // Advisory locks are per database: this one serialises all nodes that start on this cluster.
    await session.run(sql`select pg_advisory_lock(hashtext('plinth: prepare cluster'))`)
    await createSharedRoles(session)
    await createDatabase(session, control)
    await withClient(address, control, controlSettings, async inside => {
      const missing = await listMissing(inside, 'migrations', cluster.platformMigrations)
      if (missing) await before?.(inside, cluster, missing)
      await migratePlatform(inside, cluster.platformMigrations, within)
    })
    await prepareTemplate(session, cluster)
  })
  return cluster
}

/** Throws an error with a message for the operator. */
export const checkUsable = (address: ServerAddress): Promise<void> =>
  withClient(address, 'postgres', guardedSettings, checkServer).catch(explainUnusable)

/**
 * In one transaction: a backup of the control database is always one of a release, also if a migration fails or the process
 * is killed between two of them.
 */
export const migratePlatform = (
  session: Session,
  migrations: readonly Migration[],
  within?: (session: Session) => Promise<void>,
): Promise<void> =>
  asOne(session, async () => {
    await migrate(session, 'migrations', migrations)
    await within?.(session)
  })

async function asOne(session: Session, work: () => Promise<void>): Promise<void> {
  await session.script('begin')
  try {
    await work()
    await session.script('commit')
  } catch (error) {
    await session.script('rollback').catch(() => {})
    throw error
  }
}

function explainUnusable(error: Error & { code?: string }): never {
  const cause = (error.cause ?? error) as Error & { code?: string }
  if (cause instanceof UnusableServer) throw cause
  throw new UnusableServer(cause.message || cause.code || 'it does not answer', cause)
}

class UnusableServer extends Error {
  constructor(why: string, cause?: unknown) {
    super(`DATABASE_URL: the database server cannot be used: ${why}.`, { cause })
  }
}

async function checkServer(session: Session): Promise<void> {
  const server = await session.row<{ version: number; is_superuser: boolean }>(
    sql`select current_setting('server_version_num')::int as version,
               (select rolsuper from pg_roles where rolname = current_user) as is_superuser`,
  )
  if (!server || server.version < oldestServer) throw new UnusableServer('it must be version 15 or newer')
  if (!server.is_superuser)
    throw new UnusableServer(
      'it must be a superuser who logs in, to create roles, databases and event triggers',
    )
}

/** A caller has one of the first three. No login can become the owner of the auth tables or of the change capture. */
const sharedRoles = {
  anon: '',
  authenticated: '',
  service_role: 'bypassrls',
  supabase_auth_admin: '',
  supabase_realtime_admin: '',
}

async function createSharedRoles(session: Session): Promise<void> {
  const existing = await session.rows<{ rolname: string }>(
    sql`select rolname from pg_roles where rolname = any(${Object.keys(sharedRoles)})`,
  )
  for (const [role, attribute] of Object.entries(sharedRoles))
    if (!existing.some(({ rolname }) => rolname === role))
      await session.script(`create role ${role} nologin noinherit ${attribute}`)
  await session.script(
    'revoke all on database postgres from public; revoke all on database template1 from public; revoke all on database template0 from public',
  )
}

async function createDatabase(session: Session, name: string): Promise<void> {
  const exists = await session.row(sql`select 1 from pg_database where datname = ${name}`)
  if (!exists) await session.script(`create database ${identifier(name)} template template0 encoding 'UTF8'`)
  // Revoke it also for a database that the operator created: no tenant may connect.
  await session.script(`revoke all on database ${identifier(name)} from public`)
}

/** Migrates the template. It allows no connections, because cloning fails while someone is connected. */
async function prepareTemplate(
  session: Session,
  { address, template, projectMigrations, projectVersion }: Cluster,
) {
  await createDatabase(session, template)
  const quoted = identifier(template)
  const { version } = (await session.row<{ version: string | null }>(
    sql`select shobj_description(oid, 'pg_database') as version from pg_database where datname = ${template}`,
  ))!
  if (version !== projectVersion) {
    await session.script(`alter database ${quoted} allow_connections true`)
    await withClient(address, template, guardedSettings, inside => migrateProject(inside, projectMigrations))
    await session.script(`comment on database ${quoted} is '${projectVersion}'`)
  }
  await session.script(`alter database ${quoted} is_template true allow_connections false`)
}

/** In one transaction: a project whose migration fails keeps the state of the release before. */
export const migrateProject = (
  session: Session,
  migrations: readonly Migration[],
  within?: (session: Session) => Promise<void>,
): Promise<void> =>
  asOne(session, async () => {
    await session.script('create schema if not exists platform')
    await migrate(session, 'platform.migrations', migrations)
    await within?.(session)
  })
