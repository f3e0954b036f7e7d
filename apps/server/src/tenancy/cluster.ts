// Prepares a Postgres server for projects: the shared roles, the control database, and the template of project databases.
import { fileURLToPath } from 'node:url'
import { guardedSettings, type Session, withClient } from '#src/kernel/postgres/database.ts'
import { type Migration, migrate, readMigrations, versionOf } from '#src/kernel/postgres/migrate.ts'
import type { ServerAddress } from '#src/kernel/postgres/server-address.ts'
import { identifier, sql } from '#src/kernel/postgres/sql.ts'

export interface Cluster {
  address: ServerAddress
  control: string
  template: string
  projectMigrations: readonly Migration[]
  projectVersion: string
}

/** No tenant can connect to the control database, so unqualified table names are safe. */
export const controlSettings = { ...guardedSettings, search_path: 'public' }

const oldestServer = 150000
const migrationsIn = (folder: string) =>
  readMigrations(fileURLToPath(new URL(`../../migrations/${folder}`, import.meta.url)))

export async function prepareCluster(address: ServerAddress, control: string): Promise<Cluster> {
  const projectMigrations = migrationsIn('project')
  const cluster: Cluster = {
    address,
    control,
    template: `${control}_template`,
    projectMigrations,
    projectVersion: versionOf(projectMigrations),
  }
  await withClient(address, 'postgres', guardedSettings, checkServer).catch(explainUnusable)
  await withClient(address, 'postgres', guardedSettings, async session => {
    // Advisory locks are per database: this one serialises all nodes that start on this cluster.
    await session.run(sql`select pg_advisory_lock(hashtext('plinth: prepare cluster'))`)
    await createSharedRoles(session)
    await createDatabase(session, control)
    await withClient(address, control, controlSettings, inside =>
      migrate(inside, 'migrations', migrationsIn('platform')),
    )
    await prepareTemplate(session, cluster)
  })
  return cluster
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

export async function migrateProject(session: Session, migrations: readonly Migration[]): Promise<void> {
  await session.script('create schema if not exists platform')
  await migrate(session, 'platform.migrations', migrations)
}
