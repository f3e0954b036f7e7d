// A project with auth, the mails of its users, and checks for sessions, users, claims and errors.
import assert from 'node:assert/strict'
import { createHash, randomBytes } from 'node:crypto'
import { type CreatedProject, createProject, sleep, unique, unlimited, uuid } from './people.ts'
import type { Target } from './target.ts'
import { assertRequestId, type Reply } from './wire.ts'

/** All auth rate limits are off, so that they do not affect other tests. */
export const noLimits = {
  token: 0,
  verify: 0,
  email: 0,
  anonymous: 0,
  mfa: 0,
  mail: 0,
  mail_interval_seconds: 0,
}
export const siteUrl = 'https://app.example.test/start'
export const password = 'correct horse'
/** The version header of the client library. With it, errors have their code in `code`. */
export const apiVersion = { 'x-supabase-api-version': '2024-01-01' }
export const someone = (prefix = 'user') => `${unique(prefix)}@example.test`

export type Shape = 'native' | 'alias'
export interface AuthAsk {
  as?: 'anon' | 'service_role' | 'nobody'
  /** A user's access token. */
  token?: string | undefined
  body?: unknown
  headers?: Record<string, string>
  /** The alias of the client library by default. */
  shape?: Shape
}

/** A session as the client sees it, and the credentials to sign in again. */
export interface SignedIn {
  email: string
  password: string
  id: string
  token: string
  refreshToken: string
  sessionId: string
  session: any
}

export interface Mail {
  id: string
  to: string
  template: string
  subject: string
  body_html: string
  body_text: string
  /** The URL of the link, and the six-digit code. */
  link: string
  code: string
  /** The `token` of the link. */
  hash: string
  type: string
}

export interface AuthApi {
  project: CreatedProject
  target: Target
  ask(method: string, path: string, options?: AuthAsk): Promise<Reply>
  get(path: string, options?: AuthAsk): Promise<Reply>
  post(path: string, body?: unknown, options?: AuthAsk): Promise<Reply>
  put(path: string, body?: unknown, options?: AuthAsk): Promise<Reply>
  delete(path: string, options?: AuthAsk): Promise<Reply>
  /** With the service_role key. */
  admin(method: string, path: string, body?: unknown): Promise<Reply>
  /** A new user with a session. The project must have auto_confirm on. */
  signUp(fields?: Record<string, unknown>): Promise<SignedIn>
  signIn(user: Pick<SignedIn, 'email' | 'password'>): Promise<SignedIn>
  /** A confirmed user without a session, created by the admin API. */
  createUser(fields?: Record<string, unknown>): Promise<any>
  readUser(id: string): Promise<any>
  settings(change: Record<string, unknown>): Promise<void>
  sql(script: string): Promise<any[]>
  /** The mails to an address, newest first. */
  mailsTo(address: string): Promise<Pick<Mail, 'id' | 'to' | 'template' | 'subject'>[]>
  /** Waits for the newest mail of a type to an address, other than the given one. */
  mailTo(address: string, template: string, after?: Mail): Promise<Mail>
  /** The types of mails sent to an address, oldest first, after all requested mails have arrived. */
  kindsTo(address: string): Promise<string[]>
  /** Opens a link like a browser: without credentials, and without following the redirect. */
  follow(link: string, method?: string, headers?: Record<string, string>): Promise<Landing>
}

export interface Landing {
  status: number
  /** The whole Location, and its parts. */
  to: string
  /** The Location without query and fragment. */
  place: string
  query: Record<string, string>
  fragment: Record<string, string>
  reply: Reply
}

export async function authProject(
  target: Target,
  settings: Record<string, unknown> = {},
  fields: Record<string, unknown> = {},
): Promise<AuthApi> {
  const project = await createProject(target, { quotas: unlimited, ...fields })
  const api = authOf(target, project)
  await api.settings({ rate_limits: noLimits, site_url: siteUrl, ...settings })
  return api
}

export const authRoot = ({ id }: Pick<CreatedProject, 'id'>, shape: Shape = 'alias') =>
  shape === 'alias' ? `/v1/${id}/auth/v1` : `/v1/auth/${id}`

export function authOf(target: Target, project: CreatedProject): AuthApi {
  const keys = { anon: project.anon_key, service_role: project.service_role_key, nobody: undefined }
  const ask = (
    method: string,
    path: string,
    { as = 'anon', token, body, headers = {}, shape }: AuthAsk = {},
  ) =>
    target.call(method, authRoot(project, shape) + path, {
      apikey: keys[as],
      token: token ?? keys[as],
      body,
      headers: { ...apiVersion, ...headers },
    })

  async function signUp(fields: Record<string, unknown> = {}): Promise<SignedIn> {
    const body = { email: someone(), password, ...fields }
    return signedIn(body, await ask('POST', '/signup', { body }))
  }
  async function signIn(user: Pick<SignedIn, 'email' | 'password'>): Promise<SignedIn> {
    const body = { email: user.email, password: user.password }
    return signedIn(body, await ask('POST', '/token?grant_type=password', { body }))
  }
  const admin = (method: string, path: string, body?: unknown) =>
    ask(method, path, { as: 'service_role', body })

  const outbox = `/projects/${project.id}/email/outbox`
  async function mailsTo(address: string) {
    const reply = await target.manage('GET', `${outbox}?limit=100`)
    assert.equal(reply.status, 200, reply.text)
    return reply.body.messages.filter(({ to }: Mail) => to === address)
  }
  async function mailTo(address: string, template: string, after?: Mail): Promise<Mail> {
    for (const deadline = Date.now() + 60_000; Date.now() < deadline; await sleep(50)) {
      const found = (await mailsTo(address)).find((mail: Mail) => mail.template === template)
      if (found && found.id !== after?.id) return readMail(found.id)
    }
    assert.fail(`no ${template} for ${address}: ${JSON.stringify(await mailsTo(address))}`)
  }
  async function readMail(id: string): Promise<Mail> {
    const { status, text, body } = await target.manage('GET', `${outbox}/${id}`)
    assert.equal(status, 200, text)
    const link = /https?:\/\/\S+/.exec(body.body_text)?.[0] ?? ''
    const query = link === '' ? new URLSearchParams() : new URL(link).searchParams
    const code = /(?<![\w-])\d{6}(?![\w-])/.exec(body.body_text.replace(link, ''))?.[0] ?? ''
    return { ...body, link, code, hash: query.get('token') ?? '', type: query.get('type') ?? '' }
  }

  return {
    project,
    target,
    ask,
    get: (path, options) => ask('GET', path, options),
    post: (path, body, options) => ask('POST', path, { ...options, body }),
    put: (path, body, options) => ask('PUT', path, { ...options, body }),
    delete: (path, options) => ask('DELETE', path, options),
    admin,
    signUp,
    signIn,
    async createUser(fields = {}) {
      const body = { email: someone(), password, email_confirm: true, ...fields }
      return succeeded(await admin('POST', '/admin/users', body))
    },
    async readUser(id) {
      return succeeded(await admin('GET', `/admin/users/${id}`))
    },
    async settings(change) {
      succeeded(await target.manage('PATCH', `/projects/${project.id}/auth`, change))
    },
    async sql(script) {
      const path = `/v1/rest/${project.id}/rpc/exec_sql`
      return succeeded(
        await target.call('POST', path, { apikey: project.service_role_key, body: { sql: script } }),
      )
    },
    mailsTo,
    mailTo,
    async kindsTo(address) {
      const marker = someone('marker')
      succeeded(await admin('POST', '/invite', { email: marker }))
      await mailTo(marker, 'invite')
      return (await mailsTo(address)).map(({ template }: Mail) => template).reverse()
    },
    async follow(link, method = 'GET', headers = {}) {
      const address = new URL(link)
      const open = () => target.call(method, address.pathname + address.search, { headers })
      const reply = await open()
      if (reply.status !== 429) return landing(reply)
      // Opening links has one rate limit window per client address. Only on a shared server is it ever full.
      await sleep(1000 * Number(reply.headers.get('retry-after')))
      return landing(await open())
    },
  }
}

function landing(reply: Reply): Landing {
  const to = reply.headers.get('location') ?? ''
  const [front = '', fragment = ''] = to.split(/#(.*)/s)
  const [place = '', query = ''] = front.split(/\?(.*)/s)
  const pairs = (text: string) => Object.fromEntries(new URLSearchParams(text))
  return { status: reply.status, to, place, query: pairs(query), fragment: pairs(fragment), reply }
}

function signedIn(credentials: { email: string; password: string }, reply: Reply): SignedIn {
  const session = succeeded(reply)
  assertSession(session)
  return {
    ...credentials,
    id: session.user.id,
    token: session.access_token,
    refreshToken: session.refresh_token,
    sessionId: claimsOf(session.access_token).session_id,
    session,
  }
}

/** The body of an answer that must be 200. */
export function succeeded(reply: Reply): any {
  assert.equal(reply.status, 200, `${reply.status} ${reply.text}`)
  return reply.body
}

export const claimsOf = (token: string): any =>
  JSON.parse(Buffer.from(token.split('.')[1] ?? '', 'base64url').toString())

/** auth §7: the token in the link, which is also `token_hash`. */
export const tokenHash = (email: string, code: string) =>
  createHash('sha224').update(`${email}${code}`).digest('hex')

/** Another six-digit code. */
export const otherCode = (code: string) => String((Number(code) + 1) % 1_000_000).padStart(6, '0')

export function pkce(): { verifier: string; challenge: string } {
  const verifier = randomBytes(56).toString('hex')
  return { verifier, challenge: createHash('sha256').update(verifier).digest('base64url') }
}
/** In the format of the client library. */
export const challengeOf = ({ challenge }: { challenge: string }) => ({
  code_challenge: challenge,
  code_challenge_method: 's256',
})

const time = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)$/
export const assertTime = (value: unknown, what: string) => assert.match(String(value), time, what)

/** auth §2, session. */
export function assertSession(session: any): void {
  assert.equal(session?.token_type, 'bearer', JSON.stringify(session))
  assert.match(session.access_token, /^[\w-]+\.[\w-]+\.[\w-]+$/)
  assert.match(session.refresh_token, /^[\w-]{12,}$/)
  assert.ok(Number.isInteger(session.expires_in) && session.expires_in > 0)
  assert.ok(Number.isInteger(session.expires_at))
  assert.equal(session.expires_at, claimsOf(session.access_token).exp)
  assertUser(session.user)
}

const times = [
  'email_confirmed_at',
  'phone_confirmed_at',
  'confirmed_at',
  'invited_at',
  'confirmation_sent_at',
  'recovery_sent_at',
  'email_change_sent_at',
  'phone_change_sent_at',
  'reauthentication_sent_at',
  'last_sign_in_at',
  'banned_until',
  'deleted_at',
]
const always = [
  'id',
  'aud',
  'role',
  'email',
  'phone',
  'app_metadata',
  'user_metadata',
  'identities',
  'created_at',
  'updated_at',
  'is_anonymous',
]

/** auth §2, user: required fields, optional fields, and no others. */
export function assertUser(user: any): void {
  const known = new Set([...always, ...times, 'new_email', 'new_phone', 'factors'])
  for (const field of always) assert.ok(field in user, `${field} is missing: ${JSON.stringify(user)}`)
  for (const [field, value] of Object.entries(user)) {
    assert.ok(known.has(field), `${field} is no field of a user: ${JSON.stringify(user)}`)
    assert.notEqual(value, null, `${field} is null`)
  }
  assert.match(user.id, uuid)
  assert.equal(user.aud, 'authenticated')
  for (const field of ['role', 'email', 'phone']) assert.equal(typeof user[field], 'string', field)
  for (const field of ['app_metadata', 'user_metadata'])
    assert.equal(Object.prototype.toString.call(user[field]), '[object Object]', field)
  for (const field of ['created_at', 'updated_at', ...times])
    if (field in user) assertTime(user[field], field)
  assert.equal(typeof user.is_anonymous, 'boolean')
  assert.ok(Array.isArray(user.identities))
  for (const identity of user.identities) assertIdentity(identity, user)
  if ('factors' in user) assert.ok(user.factors.length > 0, 'factors is left out when empty')
}

/** auth §2, identity. */
export function assertIdentity(identity: any, user: any): void {
  assert.match(identity.identity_id, uuid)
  assert.equal(identity.user_id, user.id)
  assert.equal(typeof identity.id, 'string')
  // A soft-deleted user has only hashes.
  if (!user.deleted_at) assert.equal(typeof identity.identity_data.sub, 'string')
  if (!user.deleted_at && identity.provider === 'email') assert.equal(identity.id, user.id)
  for (const field of ['created_at', 'updated_at']) assertTime(identity[field], field)
}

/** Checks only status and code. */
export function assertRefused(reply: Reply, status: number, code: string, what = ''): void {
  assert.deepEqual([reply.status, reply.body?.code], [status, code], `${what} ${reply.text}`)
}

/** auth §3: all fields, the code as a string, the version echoed, and the code in a header. */
export function assertAuthError(reply: Reply, status: number, code: string, message?: RegExp): void {
  assert.equal(reply.body?.code, code, `${reply.status} ${reply.text}`)
  assert.equal(reply.status, status, `${reply.status} ${reply.text}`)
  // Some clients read `error_description`, so it may be present.
  const { weak_password, error_description, ...body } = reply.body
  assert.deepEqual(body, {
    code,
    error_code: code,
    message: body.message,
    msg: body.message,
    error: body.message,
    statusCode: status,
    hint: body.hint,
    details: body.details,
  })
  for (const field of ['message', 'hint', 'details'])
    assert.equal(typeof (body as Record<string, unknown>)[field], 'string', field)
  assert.notEqual(body.message, '')
  assert.equal(error_description ?? body.message, body.message)
  assert.equal(weak_password !== undefined, code === 'weak_password', reply.text)
  if (message) assert.match(body.message, message)
  assert.equal(reply.headers.get('x-supabase-api-version'), '2024-01-01', 'the version is echoed')
  assert.equal(reply.headers.get('x-sb-error-code'), code)
  assertRequestId(reply)
}

const volatile = /^(date|x-request-id|x-ratelimit-|retry-after|content-length)/
/** The parts of two answers that an attacker can compare: everything except times and counts. */
export const seen = ({ status, body, text, headers }: Reply) => ({
  status,
  body: body ?? text,
  headers: Object.fromEntries([...headers].map(([name, value]) => [name, volatile.test(name) ? '…' : value])),
})
