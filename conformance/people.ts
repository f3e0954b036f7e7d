// Creates projects, platform users and tokens for tests through the management API.
import assert from 'node:assert/strict'
import { createHmac, randomBytes } from 'node:crypto'
import type { Target } from './target.ts'
import type { Reply } from './wire.ts'

export const unique = (prefix: string) => `${prefix}-${randomBytes(5).toString('hex')}`
export const nowSeconds = () => Math.floor(Date.now() / 1000)
export const sleep = (ms: number) => new Promise(resolve => setTimeout(resolve, ms))
export const someId = '00000000-0000-4000-8000-000000000000'
export const uuid = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/

/** Quotas of a project that tests call more often than the default rate limits allow. */
export const unlimited = { rate_limit_anon: 0, rate_limit_authenticated: 0, rate_limit_service_role: 0 }

export interface CreatedProject {
  id: string
  name: string
  slug: string
  anon_key: string
  service_role_key: string
  jwt_secret: string
  api_url: string
  [field: string]: any
}

export async function createProject(
  target: Target,
  fields: Record<string, unknown> = {},
  token = target.adminToken,
): Promise<CreatedProject> {
  const reply = await target.call('POST', '/api/v1/projects', {
    token,
    body: { name: unique('project'), ...fields },
  })
  assert.equal(reply.status, 201, reply.text)
  return reply.body
}

export interface User {
  id: string
  email: string
  password: string
}

export async function createUser(
  target: Target,
  role = 'super_admin',
  fields: Record<string, unknown> = {},
): Promise<User> {
  const email = `${unique(role)}@example.test`
  const password = unique('correct horse')
  const reply = await target.manage('POST', '/admin/users', { email, password, role, ...fields })
  assert.equal(reply.status, 201, reply.text)
  return { id: reply.body.id, email, password }
}

export const tryLogin = (
  target: Target,
  { email, password }: Pick<User, 'email' | 'password'>,
  headers: Record<string, string> = {},
): Promise<Reply> => target.call('POST', '/api/v1/platform/login', { body: { email, password }, headers })

/** Retries after the login rate limit, which only a server shared by several files reaches. */
export async function login(target: Target, user: Pick<User, 'email' | 'password'>): Promise<Reply> {
  const reply = await tryLogin(target, user)
  if (reply.body?.error?.code !== 'over_request_rate_limit') return reply
  await sleep(1000 * Number(reply.headers.get('retry-after')))
  return login(target, user)
}

/** The session token of a user. */
export async function sessionOf(target: Target, user: User): Promise<string> {
  const reply = await login(target, user)
  assert.equal(reply.status, 200, reply.text)
  return reply.body.token
}

export interface Pat {
  id: string
  name: string
  token: string
}

export async function mintToken(
  target: Target,
  scope: string,
  fields: Record<string, unknown> = {},
): Promise<Pat> {
  const reply = await target.manage('POST', '/platform/tokens', { name: unique(scope), scope, ...fields })
  assert.equal(reply.status, 201, reply.text)
  return reply.body
}

/** Every row of a list, over all pages. */
export async function listAll(target: Target, path: string, plural: string): Promise<any[]> {
  const rows: any[] = []
  for (let total = 1; rows.length < total; ) {
    const { status, text, body } = await target.manage('GET', `${path}limit=100&offset=${rows.length}`)
    assert.equal(status, 200, text)
    if (body[plural].length === 0) break
    rows.push(...body[plural])
    total = body.total
  }
  return rows
}

/** The audit entry of the request with this answer. It may be written shortly after the answer. */
export async function auditOf(target: Target, action: string, reply: Reply): Promise<any> {
  const requestId = reply.headers.get('x-request-id')
  for (const deadline = Date.now() + 60_000; Date.now() < deadline; await sleep(25)) {
    const entries = await listAll(target, `/admin/audit?action=${action}&`, 'entries')
    const found = entries.find(({ request_id }) => request_id === requestId)
    if (found) return found
  }
  assert.fail(`no audit entry ${action} for request ${requestId}`)
}

const base64url = (text: string) => Buffer.from(text).toString('base64url')

/** A compact JWS. A test may forge its header and hash. */
export function jwt(
  claims: unknown,
  secret: string,
  header: Record<string, unknown> = { alg: 'HS256', typ: 'JWT' },
  hash = 'sha256',
): string {
  const signed = `${base64url(JSON.stringify(header))}.${base64url(JSON.stringify(claims))}`
  return `${signed}.${createHmac(hash, secret).update(signed).digest('base64url')}`
}

/** The JWT of an application's user, as a sign-in of the project would issue it. */
export const userJwt = (
  project: Pick<CreatedProject, 'jwt_secret'>,
  claims: Record<string, unknown> = {},
): string =>
  jwt(
    { sub: someId, role: 'authenticated', iat: nowSeconds(), exp: nowSeconds() + 3600, ...claims },
    project.jwt_secret,
  )
