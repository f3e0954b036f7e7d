// Four projects with the same tables: three read-only ones that differ in hidden data, and one for writes.
import { readFileSync } from 'node:fs'
import { client } from '@plinth/contract/client.ts'
import { projectsApi } from '@plinth/contract/projects.ts'
import pg from 'pg'
import { signJwt } from '#src/kernel/crypto/jwt.ts'
import type { ServerAddress } from '#src/kernel/postgres/server-address.ts'
import type { Who } from './markers.ts'
import { type Data, insertStatements, makeData, users, type Variant } from './rows.ts'

export type Place = Variant | 'scratch'
export const places: readonly Place[] = ['left', 'for-anon', 'for-user1', 'scratch']

export interface Project {
  id: string
  database: string
  /** The headers of each caller. */
  credentials: Record<Who, Record<string, string>>
}

export interface World {
  url: string
  postgres: ServerAddress
  projects: Record<Place, Project>
  claims: Record<Who, object>
  /** The rows of `left`. */
  data: Data
}

export interface WorldOptions {
  url: string
  adminToken: string
  /** The direct address of Postgres, because statements of the setup must not be recorded. */
  postgres: ServerAddress
  control: string
  seed: string
}

const unlimited = { rate_limit_anon: 0, rate_limit_authenticated: 0, rate_limit_service_role: 0 }
const expiry = 7_391_000_000
const claims: Record<Who, object> = {
  anon: { role: 'anon' },
  user1: { sub: users.user1, role: 'authenticated', exp: expiry },
  user2: { sub: users.user2, role: 'authenticated', exp: expiry },
  service: { role: 'service_role' },
}

export async function buildWorld({ url, adminToken, postgres, control, seed }: WorldOptions): Promise<World> {
  const api = client(projectsApi, { baseUrl: url, token: adminToken })
  const schema = readFileSync(new URL('schema.sql', import.meta.url), 'utf8')
  const build = async (place: Place): Promise<[Place, Project]> => {
    const created = await api.create({ body: { name: `fuzz ${place}`, quotas: unlimited } })
    const [project] = await query<{ ref: string }>(postgres, control, [
      `select ref from public.projects where id = '${created.id}'`,
    ])
    const data = makeData(seed, place === 'scratch' ? 'left' : place)
    await query(postgres, project!.ref, [
      `set role ${project!.ref}_owner`,
      'set search_path = public',
      schema,
      ...insertStatements(data),
    ])
    return [place, { id: created.id, database: project!.ref, credentials: credentialsFor(created) }]
  }
  const built: [Place, Project][] = []
  for (const place of places) built.push(await build(place))
  const projects = Object.fromEntries(built) as Record<Place, Project>
  return { url, postgres, projects, claims, data: makeData(seed, 'left') }
}

function credentialsFor(keys: {
  anon_key: string
  service_role_key: string
  jwt_secret: string
}): Project['credentials'] {
  const signedIn = (who: Who) => ({
    apikey: keys.anon_key,
    authorization: `Bearer ${signJwt(claims[who] as Record<string, unknown>, keys.jwt_secret)}`,
  })
  return {
    anon: { apikey: keys.anon_key },
    user1: signedIn('user1'),
    user2: signedIn('user2'),
    service: { apikey: keys.service_role_key },
  }
}

async function query<T>(address: ServerAddress, database: string, statements: string[]): Promise<T[]> {
  const { host, port, user, password } = address
  const session = new pg.Client({ host, port, user, password, database })
  await session.connect()
  try {
    let rows: T[] = []
    for (const statement of statements)
      ({ rows } = (await session.query(statement)) as unknown as { rows: T[] })
    return rows
  } finally {
    await session.end()
  }
}

/** A checksum of all rows of a project. */
export async function checksum(world: World, place: Place): Promise<string> {
  const sums = Object.keys(world.data).map(
    name =>
      `select '${name}' as name, md5(string_agg(t::text, '|' order by t::text)) as sum from public."${name}" t`,
  )
  const rows = await query(world.postgres, world.projects[place].database, [sums.join(' union all ')])
  return JSON.stringify(rows)
}
