// Verifies an ID token: signed by the configured issuer, for one of the project's client ids, not expired, and with the
// expected nonce.
import { createHash } from 'node:crypto'
import { isSame } from '#src/kernel/crypto/keys.ts'
import type { Claims } from './claims.ts'
import type { ConfiguredProvider } from './configuration.ts'
import type { Issuer } from './issuers.ts'

export class BadIdToken extends Error {}

interface Expected {
  /** The token must have this nonce. Undefined means that it must have none. */
  nonce: string | undefined
  /** Compared with at_hash, if the token has one. */
  accessToken?: string | undefined
}

const maxTokenLength = 16_384
const algorithms = [
  'RS256',
  'RS384',
  'RS512',
  'PS256',
  'PS384',
  'PS512',
  'ES256',
  'ES384',
  'ES512',
  'EdDSA',
  'Ed25519',
]
const tenantId = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/

/** Throws if the text is no ID token. Called before the provider is, so that nonsense causes no requests. */
export function checkForm(token: string): void {
  if (token.length > maxTokenLength) throw new BadIdToken('it is too long')
  const [header, payload, signature, ...rest] = token.split('.')
  if (!signature || rest.length > 0 || !/^[\w-]+$/.test(signature))
    throw new BadIdToken('it is not a signed JWT')
  if (!algorithms.includes(decoded(header)['alg'] as string))
    throw new BadIdToken('it is not signed with an asymmetric algorithm')
  const { iss, sub, exp, iat } = decoded(payload)
  if (
    typeof iss !== 'string' ||
    typeof sub !== 'string' ||
    typeof exp !== 'number' ||
    typeof iat !== 'number'
  )
    throw new BadIdToken('it lacks one of the claims iss, sub, exp and iat')
}

function decoded(part: string | undefined): Readonly<Record<string, unknown>> {
  try {
    const value: unknown = JSON.parse(Buffer.from(part ?? '', 'base64url').toString('utf8'))
    if (typeof value === 'object' && value !== null && !Array.isArray(value))
      return value as Record<string, unknown>
  } catch {}
  throw new BadIdToken('it is not a signed JWT')
}

export async function verifyIdToken(
  token: string,
  { clientIds, provider, issuer: configuredIssuer }: ConfiguredProvider,
  issuer: Issuer,
  { nonce, accessToken }: Expected,
): Promise<Claims> {
  if (token.length > maxTokenLength) throw new BadIdToken('it is too long')
  const { errors, jwtVerify } = await import('jose')
  const { payload, protectedHeader } = await jwtVerify(token, issuer.keys, {
    algorithms,
    audience: [...clientIds],
    requiredClaims: ['sub', 'exp', 'iat'],
    clockTolerance: 10,
  }).catch(error => {
    throw error instanceof errors.JOSEError ? new BadIdToken(reasonOf(error), { cause: error }) : error
  })
  const { iss, aud } = payload
  const names = [issuerFor(issuer, payload['tid'])]
  if (provider.olderIssuer !== undefined && configuredIssuer === provider.issuer)
    names.push(provider.olderIssuer)
  if (iss === undefined || !names.includes(iss)) throw new BadIdToken('another issuer made it')
  if (Array.isArray(aud) && !aud.every(each => clientIds.includes(each)))
    throw new BadIdToken('it is for others, too')
  if (!matchesNonce(payload['nonce'], nonce)) throw new BadIdToken('the nonce does not fit')
  if (accessToken !== undefined && !matchesAccessToken(payload['at_hash'], accessToken, protectedHeader.alg))
    throw new BadIdToken('the access token does not belong to it')
  return payload
}

function reasonOf({ code, claim }: Error & { code: string; claim?: string }): string {
  if (code === 'ERR_JWT_EXPIRED') return 'it has expired'
  return code === 'ERR_JWT_CLAIM_VALIDATION_FAILED'
    ? `its claim "${claim}" does not fit`
    : 'it is not signed by the provider'
}

const issuerFor = ({ name }: Issuer, tid: unknown) =>
  typeof tid === 'string' && tenantId.test(tid) ? name.replace('{tenantid}', tid) : name

function matchesNonce(inToken: unknown, expected: string | undefined): boolean {
  if (inToken === undefined || expected === undefined) return inToken === expected
  return typeof inToken === 'string' && isSame(inToken, expected)
}

/**
 * The nonce claim for a native application. It sends the hash to the provider and the nonce itself to us, so that a
 * stolen token alone is not enough.
 */
export const hashedNonce = (nonce: string) => createHash('sha256').update(nonce).digest('hex')

function matchesAccessToken(hash: unknown, accessToken: string, algorithm: string): boolean {
  if (hash === undefined) return true
  const bits = /\d{3}$/.exec(algorithm)?.[0] ?? '512'
  const digest = createHash(`sha${bits}`).update(accessToken).digest()
  return hash === digest.subarray(0, digest.length / 2).toString('base64url')
}
