// JWTs with HS256 and ES256. The header selects one of the given keys, and every key has one algorithm: a secret is never
// used for ES256, nor a public key for HS256.
import { createHmac, type KeyObject, timingSafeEqual } from 'node:crypto'
import { isSignedEs256, signEs256 } from './es256.ts'
import { claimsProblem } from './jwt-claims.ts'

export type Claims = Readonly<Record<string, unknown>>
export interface VerifiedJwt {
  claims: Claims
  /** The payload as the issuer wrote it. */
  json: string
}

/** The secret of HS256 tokens, and the public keys of ES256 tokens by their `kid`. */
export interface JwtKeys {
  readonly secret: string
  publicKey(kid: string): KeyObject | undefined
}

export interface Es256Signer {
  readonly kid: string
  readonly privateKey: KeyObject
}

const maxBytes = 16_384
const encode = (value: unknown) => Buffer.from(JSON.stringify(value)).toString('base64url')
const header = encode({ alg: 'HS256', typ: 'JWT' })
const sign = (input: string, secret: string | Buffer) => createHmac('sha256', secret).update(input).digest()

export function signJwt(claims: Claims, secret: string | Buffer): string {
  const input = `${header}.${encode(claims)}`
  return `${input}.${sign(input, secret).toString('base64url')}`
}

export function signJwtEs256(claims: Claims, { kid, privateKey }: Es256Signer): string {
  const input = `${encode({ alg: 'ES256', kid, typ: 'JWT' })}.${encode(claims)}`
  return `${input}.${signEs256(input, privateKey).toString('base64url')}`
}

export const looksLikeJwt = (token: string) => token.startsWith('ey') && token.split('.', 4).length === 3

/** The key id of an ES256 token, before any verification. */
export function es256KeyId(token: string): string | undefined {
  if (token.length > maxBytes || !looksLikeJwt(token)) return
  const header = parseObject(decode(token.slice(0, token.indexOf('.'))))
  const kid = header?.['alg'] === 'ES256' ? header['kid'] : undefined
  return typeof kid === 'string' ? kid : undefined
}

/** The claims of a valid token signed with one of these keys. Undefined if the token is invalid for any reason. */
export function verifyJwt(
  token: string,
  keys: string | Buffer | JwtKeys,
  nowMs = Date.now(),
): VerifiedJwt | undefined {
  const verified = verifySignature(token, keys)
  return verified && claimsProblem(verified.claims, nowMs) === undefined ? verified : undefined
}

/** The claims of a token signed with one of these keys, also if they are invalid now; see `claimsProblem`. */
export function verifySignature(token: string, keys: string | Buffer | JwtKeys): VerifiedJwt | undefined {
  if (token.length > maxBytes) return
  const [head, payload, signature, ...rest] = token.split('.')
  if (!head || !payload || !signature || rest.length > 0) return
  if (!isSigned(`${head}.${payload}`, Buffer.from(signature, 'base64url'), parseObject(decode(head)), keys))
    return
  const json = decode(payload)
  const claims = parseObject(json)
  return claims && { claims, json }
}

function isSigned(
  input: string,
  signature: Buffer,
  header: Claims | undefined,
  keys: string | Buffer | JwtKeys,
): boolean {
  const { secret, publicKey } = typeof keys === 'string' || Buffer.isBuffer(keys) ? onlySecret(keys) : keys
  switch (header?.['alg']) {
    case 'HS256': {
      const expected = sign(input, secret)
      return signature.length === expected.length && timingSafeEqual(signature, expected)
    }
    case 'ES256': {
      const { kid } = header
      const key = typeof kid === 'string' ? publicKey(kid) : undefined
      return key !== undefined && isSignedEs256(input, signature, key)
    }
    default:
      return false
  }
}

const onlySecret = (secret: string | Buffer) => ({ secret, publicKey: () => undefined })

const decode = (part: string) => Buffer.from(part, 'base64url').toString('utf8')

function parseObject(json: string): Claims | undefined {
  try {
    const value: unknown = JSON.parse(json)
    return typeof value === 'object' && value !== null && !Array.isArray(value)
      ? (value as Claims)
      : undefined
  } catch {
    return
  }
}
