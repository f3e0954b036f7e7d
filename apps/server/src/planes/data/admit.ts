// Authenticates a data-plane request: from a key or user token to a Caller. An unknown project, an unknown key and the key
// of another project get the same 401.
import type { DataRoute, Role } from '@plinth/contract/route.ts'
import { type Claims, es256KeyId, looksLikeJwt, verifyJwt, verifySignature } from '#src/kernel/crypto/jwt.ts'
import { claimsProblem, jwtExpired } from '#src/kernel/crypto/jwt-claims.ts'
import { Refusal } from '#src/kernel/errors.ts'
import type { RequestHead } from '#src/kernel/http/request.ts'
import type { Caller } from '#src/tenancy/databases.ts'
import type { Tenant } from '#src/tenancy/directory.ts'
import { jwtKeysOf, noSigningKeys } from '#src/tenancy/tenant-signing-keys.ts'
import { type Denial, Unauthorized, unknownKey } from './unauthorized.ts'

const isUuid = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/
const rememberedTokens = 1000

/** The project id in a data-plane path of either shape, or undefined. */
export function projectIn({ params, path }: RequestHead): string | undefined {
  const named = params['project'] ?? path.split('/', 4).find(segment => isUuid.test(segment.toLowerCase()))
  if (named === undefined || isUuid.test(named)) return named
  const id = named.toLowerCase()
  return isUuid.test(id) ? id : undefined
}

export function callerFrom(
  tenant: Tenant | undefined,
  route: DataRoute,
  headers: RequestHead['headers'],
): Caller {
  if (isOpen(route, headers)) {
    if (!tenant) throw unknownKey()
    return served({ tenant, role: 'anon', claims: anonClaims, userId: '', sessionId: '' })
  }
  const key = headers['apikey']
  const bearer = bearerOf(headers.authorization)
  const caller = identify(tenant ?? nobody, typeof key === 'string' ? key : undefined, bearer)
  if ('kind' in caller) throw new Unauthorized(caller)
  if (route.allow !== 'open' && !route.allow.includes(caller.role))
    throw new Refusal(
      'role_not_allowed',
      `This route is for ${route.allow.join(' or ')}, not for ${caller.role}`,
    )
  return served(caller)
}

/** The route needs no credential, or allows none and none was sent. */
export const isOpen = (
  { allow, mayBeOpen }: DataRoute,
  { apikey, authorization }: RequestHead['headers'],
): boolean => allow === 'open' || (mayBeOpen === true && apikey === undefined && authorization === undefined)

/** The caller of a key or token, and its expiry. */
export interface Credential {
  readonly caller: Caller
  readonly expiresAtMs: number
}

/** Authenticates a single key or user token, as sockets and channels send it. */
export function callerOfCredential(tenant: Tenant, credential: string): Credential | undefined {
  const byKey = callerOfProjectKey(tenant, credential)
  if (byKey) return { caller: byKey, expiresAtMs: Number.POSITIVE_INFINITY }
  const caller = callerOfToken(tenant, credential)
  return caller && knownOf(tenant).tokens.get(credential)
}

/** The reason why a credential is invalid. Only for callers who are already admitted to the project. */
export function whyRefused(
  tenant: Tenant,
  credential: string,
): 'malformed' | 'signature' | 'expired' | 'claims' {
  if (!looksLikeJwt(credential)) return 'malformed'
  const denial = denialOfToken(tenant, credential)
  if (denial.kind !== 'claims') return 'signature'
  return denial.message === jwtExpired ? 'expired' : 'claims'
}

/**
 * Whether a token names a signing key that this node does not know. Another node may have made it since the last poll of
 * changes.
 */
export function namesUnknownKey(tenant: Tenant, credential: string): boolean {
  const kid = es256KeyId(credential)
  return kid !== undefined && tenant.signingKeys.publicKey(kid) === undefined
}

/** The same for the token of a request. Only with a valid key beside it, because such requests wait. */
export function bearsUnknownKey(tenant: Tenant, { apikey, authorization }: RequestHead['headers']): boolean {
  const isAdmitted = typeof apikey === 'string' && callerOfKey(tenant, apikey) !== undefined
  return isAdmitted && namesUnknownKey(tenant, bearerOf(authorization) ?? '')
}

/** The caller of a socket upgrade. Browsers cannot set headers there, so keys and tokens may be in the query. */
export function callerOfSocket(
  tenant: Tenant | undefined,
  query: URLSearchParams,
  headers: RequestHead['headers'],
): Credential & { readonly text: string } {
  const text = credentialOfSocket(query, headers)
  const found = callerOfCredential(tenant ?? nobody, text)
  if (!found) throw new Unauthorized(denialOfSocket(tenant ?? nobody, text))
  served(found.caller)
  return { ...found, text }
}

/**
 * Whether the token of a socket upgrade names an unknown signing key. Such an upgrade waits even without a valid key, since
 * the token may be the only credential, and even without a project, so that the time of the answer does not show which
 * projects exist.
 */
export const opensWithUnknownKey = (
  tenant: Tenant | undefined,
  query: URLSearchParams,
  headers: RequestHead['headers'],
): boolean => namesUnknownKey(tenant ?? nobody, credentialOfSocket(query, headers))

/** If both a token and a key are sent, the token decides. */
export function credentialOfSocket(query: URLSearchParams, headers: RequestHead['headers']): string {
  const given = [
    bearerOf(headers.authorization),
    query.get('token'),
    query.get('apikey'),
    headers['apikey'],
    headers['x-api-key'],
  ].filter(each => typeof each === 'string')
  return given.find(looksLikeJwt) ?? given[0] ?? ''
}

/** The single credential of a socket is a key or a token, so an undecodable one is an unknown key. */
function denialOfSocket(tenant: Tenant, text: string): Denial {
  if (text === '') return { kind: 'no credential' }
  const denial = denialOfToken(tenant, text)
  return denial.kind === 'claims' ? denial : { kind: 'unknown key' }
}

function served(caller: Caller): Caller {
  if (caller.tenant.status === 'suspended')
    throw new Refusal('project_suspended', 'This project is suspended', {
      hint: 'An administrator can resume it.',
    })
  return caller
}

/** Used for an unknown project, so that its check takes the same time. */
const nobody: Tenant = Object.freeze({
  id: '',
  ref: '',
  name: '',
  status: 'active',
  anonKey: '',
  serviceRoleKey: '',
  jwtSecret: crypto.randomUUID() + crypto.randomUUID(),
  signingKeys: noSigningKeys,
  quotas: {},
  exposedSchemas: [],
  settings: {},
})

const bearerScheme = /^bearer +(\S+)$/i

export function bearerOf(header: string | undefined): string | undefined {
  if (header === undefined) return
  // Any other value in the header is an invalid credential.
  return bearerScheme.exec(header)?.[1] ?? ''
}

/** A valid Bearer decides and an invalid one is rejected. A user's token needs a valid key beside it. */
function identify(tenant: Tenant, apikey: string | undefined, bearer: string | undefined): Caller | Denial {
  const byBearer = bearer === undefined ? undefined : callerOfProjectKey(tenant, bearer)
  if (byBearer) return byBearer
  const byKey = apikey === undefined ? undefined : callerOfKey(tenant, apikey)
  if (apikey !== undefined && !byKey) return { kind: 'unknown key' }
  if (bearer === undefined) return byKey ?? { kind: 'no credential' }
  // Without a key beside it, a text that is no JWT is meant as a key.
  if (!byKey && !looksLikeJwt(bearer)) return { kind: 'unknown key' }
  const byToken = callerOfToken(tenant, bearer)
  if (!byToken) return denialOfToken(tenant, bearer)
  return byKey ? byToken : { kind: 'token without key' }
}

const keyShape = /^platform_(?:anon|service_role)_/

/** Why a token is invalid. Only its claims reveal something, and the project has signed them. */
function denialOfToken(tenant: Tenant, token: string): Denial {
  if (keyShape.test(token)) return { kind: 'unknown key' }
  if (token === '')
    return {
      kind: 'undecodable',
      message: 'Empty JWT is sent in Authorization header',
      details: 'The header must be: Authorization: Bearer <token>',
    }
  const parts = token.split('.').length
  if (parts !== 3) return { kind: 'undecodable', message: `Expected 3 parts in JWT; got ${parts}` }
  const verified = verifySignature(token, jwtKeysOf(tenant))
  if (!verified)
    return {
      kind: 'undecodable',
      message: 'No suitable key or wrong key type',
      details: 'None of the keys was able to decode the JWT',
    }
  const { claims } = verified
  // A cached token may have expired between the two checks.
  return { kind: 'claims', message: claimsProblem(claims, Date.now()) ?? callerProblem(claims) ?? jwtExpired }
}

/** `apikey` contains a project key, or the equivalent JWT of older client set-ups. */
function callerOfKey(tenant: Tenant, key: string): Caller | undefined {
  const caller = callerOfProjectKey(tenant, key)
  if (caller || !looksLikeJwt(key)) return caller
  const byToken = callerOfToken(tenant, key)
  return byToken?.role === 'authenticated' ? undefined : byToken
}

const anonClaims = '{"role":"anon"}'
const serviceClaims = '{"role":"service_role"}'

/** Verified credentials of a project. A changed project is a new object with an empty cache. */
interface Known {
  /** Looked up by a keyed hash, so that the timing reveals nothing about a prefix of the key. */
  readonly keys: ReadonlyMap<string, Caller>
  readonly tokens: Map<string, { caller: Caller; expiresAtMs: number }>
}
const known = new WeakMap<Tenant, Known>()

function knownOf(tenant: Tenant): Known {
  const found = known.get(tenant)
  if (found) return found
  const keys = new Map<string, Caller>([
    [tenant.anonKey, { tenant, role: 'anon', claims: anonClaims, userId: '', sessionId: '' }],
    [
      tenant.serviceRoleKey,
      { tenant, role: 'service_role', claims: serviceClaims, userId: '', sessionId: '' },
    ],
  ])
  keys.delete('')
  const made = { keys, tokens: new Map() }
  known.set(tenant, made)
  return made
}

const callerOfProjectKey = (tenant: Tenant, key: string): Caller | undefined => knownOf(tenant).keys.get(key)

/** The signature is verified once per token, the expiry at every request. */
function callerOfToken(tenant: Tenant, token: string): Caller | undefined {
  const { tokens } = knownOf(tenant)
  const seen = tokens.get(token)
  if (seen) {
    if (seen.expiresAtMs > Date.now()) return seen.caller
    tokens.delete(token)
    return
  }
  const verified = verifyJwt(token, jwtKeysOf(tenant))
  if (!verified) return
  const { role, sub, exp, session_id: sessionId } = verified.claims
  if (!isRole(role) || callerProblem(verified.claims) !== undefined) return
  const caller: Caller = {
    tenant,
    role,
    claims: verified.json,
    userId: typeof sub === 'string' ? sub : '',
    sessionId: typeof sessionId === 'string' ? sessionId : '',
  }
  if (tokens.size >= rememberedTokens) tokens.delete(tokens.keys().next().value!)
  tokens.set(token, { caller, expiresAtMs: typeof exp === 'number' ? exp * 1000 : Number.POSITIVE_INFINITY })
  return caller
}

/** What makes the claims of a valid token unusable for a caller, or undefined. */
function callerProblem({ role, sub }: Claims): string | undefined {
  if (!isRole(role)) return "The JWT 'role' claim must be anon, authenticated or service_role"
  // Postgres text cannot contain NUL.
  if (typeof sub === 'string' && sub.includes('\0')) return "The JWT 'sub' claim must not contain a NUL"
  return
}

const isRole = (role: unknown): role is Role =>
  role === 'anon' || role === 'authenticated' || role === 'service_role'
