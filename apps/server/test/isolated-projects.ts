// Two projects on one server, with open sessions of every role, to test what the SQL of one can reach.
import { after, before } from 'node:test'
import type { CreatedProject } from '@plinth/contract/projects.ts'
import type { Role } from '@plinth/contract/route.ts'
import pg from 'pg'
import { keyring } from '#src/kernel/crypto/keys.ts'
import { raw } from '#src/kernel/postgres/sql.ts'
import { type Caller, statement } from '#src/tenancy/databases.ts'
import { createLogins, type Login, type Logins } from '#src/tenancy/logins.ts'
import { startPlatform, type TestPlatform } from './harness.ts'

/** The roles that statements of a project run as. */
export type ProjectRole = 'owner' | Role
export const projectRoles: readonly ProjectRole[] = ['owner', 'anon', 'authenticated', 'service_role']
export const loginOf: Record<ProjectRole, Login> = {
  owner: 'owner',
  anon: 'api',
  authenticated: 'api',
  service_role: 'svc',
}
/** SQLSTATE insufficient_privilege. */
export const denied = '42501'

interface Tenants {
  platform: TestPlatform
  project: CreatedProject
  otherProject: CreatedProject
  ownRef: string
  otherRef: string
  sessions: Record<ProjectRole, pg.Client>
  /** Sessions that statements of the project must not end. */
  otherSessions: Record<'otherOwner' | 'otherApi' | 'superuser' | 'ownApi', pg.Client>
}

export const codeOf = (error: unknown) => (error as { code?: string }).code ?? String(error)
export const pidOf = (client: pg.Client) => (client as pg.Client & { processID: number }).processID

export function isolatedProjects() {
  const tenants = {} as Tenants
  let logins: Logins

  before(async () => {
    const platform = await startPlatform()
    tenants.platform = platform
    logins = createLogins(platform.address, keyring(platform.controlPlaneSecret))
    tenants.project = await platform.createProject('First of two')
    tenants.otherProject = await platform.createProject('Kassandra Reederei')
    const ownRef = await platform.refOf(tenants.project.id)
    const otherRef = await platform.refOf(tenants.otherProject.id)
    Object.assign(tenants, { ownRef, otherRef })
    await asOwner(ownRef, 'create table notes (a text); alter table notes disable row level security')
    const [owner, anon, authenticated, service_role, otherOwner, otherApi, superuser, ownApi] =
      await Promise.all([
        ...projectRoles.map(role => logIn(ownRef, loginOf[role])),
        logIn(otherRef, 'owner'),
        logIn(otherRef, 'api'),
        connect(platform.address, ownRef),
        logIn(ownRef, 'api'),
      ])
    tenants.sessions = {
      owner: owner!,
      anon: anon!,
      authenticated: authenticated!,
      service_role: service_role!,
    }
    tenants.otherSessions = {
      otherOwner: otherOwner!,
      otherApi: otherApi!,
      superuser: superuser!,
      ownApi: ownApi!,
    }
  })

  after(async () => {
    const open = [...Object.values(tenants.sessions ?? {}), ...Object.values(tenants.otherSessions ?? {})]
    await Promise.all(open.map(client => client.end().catch(() => {})))
    await tenants.platform?.stop()
  })

  const logIn = (ref: string, login: Login, database = ref) => connect(logins.address(ref, login), database)
  const asOwner = (ref: string, text: string) =>
    tenants.platform.app.databases.asOwner({ ref }, session => session.script(text))

  /** Runs a statement and undoes it. Returns 'allowed' or the SQLSTATE. */
  async function outcome(role: ProjectRole, text: string): Promise<string> {
    const client = tenants.sessions[role]
    const needsNoTransaction = /^(alter system|(create|drop) (database|tablespace))/.test(text)
    try {
      if (!needsNoTransaction) await client.query('begin')
      if (role !== 'owner') await client.query(`set ${needsNoTransaction ? '' : 'local'} role ${role}`)
      await client.query(text)
      return 'allowed'
    } catch (error) {
      return codeOf(error)
    } finally {
      await client.query(needsNoTransaction ? 'reset role' : 'rollback')
    }
  }

  return {
    tenants,
    logIn,
    asOwner,
    outcome,
    async outcomes(role: ProjectRole, statements: readonly string[]): Promise<Record<string, string>> {
      const byStatement: Record<string, string> = {}
      for (const text of statements) byStatement[text] = await outcome(role, text)
      return byStatement
    },
    async asCaller(project: CreatedProject, role: Role, text: string, values: string[] = []) {
      const { directory, databases } = tenants.platform.app
      const tenant = (await directory.find(project.id))!
      const caller: Caller = { tenant, role, claims: JSON.stringify({ role }), userId: '', sessionId: '' }
      const facts = { method: 'GET', path: '/', headers: '{}' }
      const { rows } = await databases.asCaller(caller, facts, statement(text, false), values)
      return rows.map(row => row.map(cell => cell?.toString() ?? null))
    },
    asSuperuser: <T>(database: string, text: string) =>
      tenants.platform.asSuperuser(database, session => session.rows<T>(raw(text))),
  }
}

async function connect(
  { host, port, user, password }: TestPlatform['address'],
  database: string,
): Promise<pg.Client> {
  const client = new pg.Client({ host, port, user, password, database })
  // Tests end some sessions on purpose.
  client.on('error', () => {})
  await client.connect()
  return client
}
