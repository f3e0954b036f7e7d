// The projects of a control database with their databases and roles on the server, and sessions to look at them.
import { afterEach } from 'node:test'
import pg from 'pg'
import { testServer } from './harness.ts'

export interface Found {
  id: string
  ref: string
  slug: string
  status: string
  hasDatabase: boolean
  roles: number
  logins: number
}

/** All projects of the control database with their databases and roles on the server. */
export async function readProjects(client: pg.Client): Promise<Found[]> {
  const { rows } = await client.query<Found>(`
    select id, ref, slug, status,
           exists (select from pg_database where datname = ref) as "hasDatabase",
           (select count(*)::int from pg_roles where rolname in (ref || '_owner', ref || '_api', ref || '_svc', ref || '_auth')) as roles,
           (select count(*)::int from pg_roles where rolcanlogin and rolname in (ref || '_owner', ref || '_api', ref || '_svc', ref || '_auth')) as logins
      from projects`)
  return rows
}

/** Databases and roles of projects that no longer exist. */
export async function orphans(client: pg.Client, among: Iterable<string>): Promise<string[]> {
  const { rows } = await client.query<{ name: string }>(
    `select has.name
       from unnest($1::text[]) as given(ref)
      cross join lateral (
        select datname as name from pg_database where datname = ref
        union all
        select rolname from pg_roles where rolname in (ref || '_owner', ref || '_api', ref || '_svc', ref || '_auth')) has
      where not exists (
        select from projects where projects.ref = given.ref and status in ('active', 'suspended'))`,
    [[...among]],
  )
  return rows.map(({ name }) => name)
}

/** Sessions of one test file, as superuser unless another login is given. A hook ends them after each test. */
export function serverSessions() {
  /** Cleanup steps, run in reverse order after each test. */
  const undo: (() => Promise<unknown>)[] = []
  afterEach(async () => {
    for (const step of undo.splice(0).reverse()) await step()
  })

  async function connect(database: string, over: Partial<pg.ClientConfig> = {}): Promise<pg.Client> {
    const { host, port, user, password } = testServer()
    const client = new pg.Client({ host, port, user, password, database, ...over })
    client.on('error', () => {})
    await client.connect()
    undo.push(() => client.end().catch(() => {}))
    return client
  }

  /** CREATE DATABASE waits up to 5 seconds while another session is connected to its template. */
  async function holdTemplate(name: string) {
    const template = `${name}_template`
    const outside = await connect('postgres')
    const open = (isOpen: boolean) => outside.query(`alter database ${template} allow_connections ${isOpen}`)
    await open(true)
    undo.push(() => open(false))
    const inside = await connect(template)
    return { release: () => inside.end() }
  }

  return { undo, connect, holdTemplate }
}
