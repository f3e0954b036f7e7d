// Checks for sessions, users, identities, factors and errors.
import assert from 'node:assert/strict'
import type { AuthError, Factor, Session, User, UserIdentity } from '@supabase/supabase-js'

export const uuid = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/
const time = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)$/

const userFields = [
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
const userTimes = [
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

/** Checks required fields and types, and that there are no unknown fields. */
export function looksLikeUser(user: User | null | undefined): asserts user is User {
  assert.ok(user)
  const found: Record<string, unknown> = { ...user }
  assert.deepEqual(
    userFields.filter(field => !(field in found)),
    [],
    'a user lacks fields',
  )
  const known = [...userFields, ...userTimes, 'new_email', 'new_phone', 'factors']
  assert.deepEqual(
    Object.keys(found).filter(field => !known.includes(field)),
    [],
    'a user has fields of its own',
  )
  assert.match(user.id, uuid)
  assert.equal(user.aud, 'authenticated')
  for (const field of ['role', 'email', 'phone']) assert.equal(typeof found[field], 'string', field)
  assert.equal(typeof user.is_anonymous, 'boolean')
  for (const field of ['app_metadata', 'user_metadata'])
    assert.ok(
      found[field] !== null && typeof found[field] === 'object' && !Array.isArray(found[field]),
      field,
    )
  for (const field of ['created_at', 'updated_at', ...userTimes])
    if (field in found) assert.match(String(found[field]), time, field)
  for (const identity of user.identities!) looksLikeIdentity(identity)
  if (user.factors) {
    assert.ok(user.factors.length > 0, 'factors are omitted when there are none')
    for (const factor of user.factors) looksLikeFactor(factor)
  }
}

export function looksLikeIdentity(identity: UserIdentity): void {
  const { identity_id, id, user_id, identity_data, provider, last_sign_in_at, created_at, updated_at } =
    identity
  assert.match(identity_id, uuid)
  assert.match(user_id, uuid)
  assert.equal(typeof id, 'string')
  assert.equal(typeof provider, 'string')
  if (provider === 'email') assert.equal(id, user_id, 'the provider’s id of an e-mail identity is the user')
  assert.equal(identity_data?.['sub'], id)
  assert.equal(typeof identity_data?.['email_verified'], 'boolean')
  assert.equal(typeof identity_data?.['phone_verified'], 'boolean')
  for (const each of [last_sign_in_at, created_at, updated_at]) assert.match(each!, time)
  const known = [
    'identity_id',
    'id',
    'user_id',
    'identity_data',
    'provider',
    'last_sign_in_at',
    'created_at',
    'updated_at',
    'email',
  ]
  assert.deepEqual(
    Object.keys(identity).filter(field => !known.includes(field)),
    [],
  )
}

export function looksLikeFactor(factor: Factor): void {
  assert.match(factor.id, uuid)
  assert.match(factor.created_at, time)
  assert.match(factor.updated_at, time)
  assert.ok(['verified', 'unverified'].includes(factor.status))
  assert.ok(['totp', 'phone', 'webauthn'].includes(factor.factor_type))
}

const sessionFields = ['access_token', 'expires_at', 'expires_in', 'refresh_token', 'token_type', 'user']
const sessionExtras = ['provider_token', 'provider_refresh_token', 'weak_password']

/** A session from the server, which lasts an hour by default. */
export function looksLikeSession(
  session: Session | null | undefined,
  lastsSeconds = 3600,
): asserts session is Session {
  assert.ok(session)
  assert.deepEqual(
    Object.keys(session)
      .filter(field => !sessionExtras.includes(field))
      .sort(),
    sessionFields,
  )
  assert.equal(session.token_type, 'bearer')
  assert.equal(session.expires_in, lastsSeconds)
  assert.ok(Number.isInteger(session.expires_at))
  assert.equal(typeof session.refresh_token, 'string')
  assert.ok(session.refresh_token.length >= 12, 'a refresh token that cannot be guessed')
  looksLikeUser(session.user)
  const claims = claimsOf(session)
  assert.equal(claims['exp'], session.expires_at)
  assert.equal(claims['sub'], session.user.id)
}

export interface Claims {
  iss: string
  sub: string
  aud: string
  exp: number
  iat: number
  email: string
  phone: string
  app_metadata: Record<string, unknown>
  user_metadata: Record<string, unknown>
  role: string
  aal: string
  amr: { method: string; timestamp: number }[]
  session_id: string
  is_anonymous: boolean
}

/** The claims of the access token, unverified. */
export function claimsOf({ access_token }: { access_token: string }): Claims {
  return JSON.parse(Buffer.from(access_token.split('.')[1]!, 'base64url').toString())
}

export const methodsOf = (session: { access_token: string }) =>
  claimsOf(session).amr.map(({ method }) => method)

interface Answer {
  data?: unknown
  error: AuthError | null
}

/** Checks for an error with this status and code, a message, and no data. */
export function refused(answer: Answer, status: number, code: string): AuthError {
  const { error } = answer
  assert.ok(error, `expected an error with ${code}, got ${JSON.stringify(answer.data)}`)
  assert.deepEqual({ status: error.status, code: error.code }, { status, code }, error.message)
  assert.ok(error.message.length > 0)
  assert.ok(isNothing(answer.data), `data besides the error: ${JSON.stringify(answer.data)}`)
  return error
}

function isNothing(data: unknown): boolean {
  if (data === null || data === undefined) return true
  return Object.values(data).every(value => value === null || (Array.isArray(value) && value.length === 0))
}

/** Checks for the client's own error for a missing or ended session. */
export function sessionMissing({ error }: Answer): void {
  assert.equal(error?.name, 'AuthSessionMissingError')
}

/** Returns the data of a call that must succeed. */
export function dataOf<A extends Answer>(answer: A): NonNullable<Extract<A, { error: null }>['data']> {
  assert.equal(answer.error, null)
  assert.ok(answer.data)
  return answer.data
}
