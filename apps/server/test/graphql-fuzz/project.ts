// A project with a random schema, its callers, and the rows that each of them sees over REST.
import { client } from '@plinth/contract/client.ts'
import { projectsApi } from '@plinth/contract/projects.ts'
import { signJwt } from '#src/kernel/crypto/jwt.ts'
import { guardedSettings, withClient } from '#src/kernel/postgres/database.ts'
import type { ServerAddress } from '#src/kernel/postgres/server-address.ts'
import { sql } from '#src/kernel/postgres/sql.ts'
import type { Random } from '../fuzz/random.ts'
import { columnsOf } from './document.ts'
import { type FuzzRow, type FuzzSchema, fuzzUsers, randomSchema } from './world.ts'

export interface Place {
  readonly url: string
  readonly adminToken: string
  /** The direct address of Postgres, because statements of the oracle must not be counted. */
  readonly postgres: ServerAddress
  readonly control: string
}

export interface FuzzCaller {
  readonly claims: { readonly role: string; readonly sub?: string }
  readonly isAnon: boolean
  readonly headers: Readonly<Record<string, string>>
}

export interface FuzzProject {
  readonly id: string
  readonly database: string
  readonly schema: FuzzSchema
  readonly callers: readonly FuzzCaller[]
}

export type RowsByTable = ReadonlyMap<string, readonly FuzzRow[]>

const unlimited = { rate_limit_anon: 0, rate_limit_authenticated: 0, rate_limit_service_role: 0 }

export async function createFuzzProject(place: Place, name: string, random: Random): Promise<FuzzProject> {
  const { url, adminToken, postgres, control } = place
  const api = client(projectsApi, { baseUrl: url, token: adminToken })
  const { id, anon_key, service_role_key, jwt_secret } = await api.create({
    body: { name, quotas: unlimited },
  })
  const found = await withClient(postgres, control, guardedSettings, session =>
    session.row<{ ref: string }>(sql`select ref from public.projects where id = ${id}`),
  )
  const users = fuzzUsers.map(sub => ({ role: 'authenticated', sub }))
  const callers: FuzzCaller[] = [
    { claims: { role: 'service_role' }, isAnon: false, headers: { apikey: service_role_key } },
    { claims: { role: 'anon' }, isAnon: true, headers: { apikey: anon_key } },
    ...users.map(claims => ({
      claims,
      isAnon: false,
      headers: { apikey: anon_key, authorization: `Bearer ${signJwt(claims, jwt_secret)}` },
    })),
  ]
  const schema = randomSchema(random)
  const made = await send(url, `/v1/rest/${id}/rpc/exec_sql`, callers[0]!.headers, { sql: schema.sql })
  if (made.status !== 200) throw new Error(`The schema was not created: ${made.text}`)
  return { id, database: found!.ref, schema, callers }
}

export async function rowsOverRest(
  { url }: Place,
  { id, schema }: FuzzProject,
  { isAnon, headers }: FuzzCaller,
): Promise<RowsByTable> {
  const rows = new Map<string, FuzzRow[]>()
  for (const { name } of schema.tables) {
    const select = columnsOf({ schema, isAnon }, name).map(each =>
      each.type === 'bigint' || each.type === 'numeric' ? `${each.name}::text` : each.name,
    )
    const { status, text } = await send(
      url,
      `/v1/rest/${id}/${name}?select=${select.join()}&order=id`,
      headers,
    )
    if (status !== 200) throw new Error(`The rows of ${name} cannot be read: ${text}`)
    rows.set(name, JSON.parse(text) as FuzzRow[])
  }
  return rows
}

export interface Sent {
  readonly status: number
  readonly text: string
}

/** Sends a body by POST, or a GET without one. */
export async function send(
  url: string,
  path: string,
  headers: Readonly<Record<string, string>>,
  body?: object,
): Promise<Sent> {
  const reply = await fetch(url + path, {
    ...(body && { method: 'POST', body: JSON.stringify(body) }),
    headers: { ...headers, ...(body && { 'content-type': 'application/json' }) },
  })
  return { status: reply.status, text: await reply.text() }
}
