// JWTs with HS256 only. The header's `alg` is compared with it and never selects an algorithm.
import { createHmac, timingSafeEqual } from 'node:crypto'
import { claimsProblem } from './jwt-claims.ts'

export type Claims = Readonly<Record<string, unknown>>
export interface VerifiedJwt {
  claims: Claims
  /** The payload as the issuer wrote it. */
  json: string
}

const maxBytes = 16_384
const encode = (value: unknown) => Buffer.from(JSON.stringify(value)).toString('base64url')
const header = encode({ alg: 'HS256', typ: 'JWT' })
const sign = (input: string, secret: string | Buffer) => createHmac('sha256', secret).update(input).digest()

export function signJwt(claims: Claims, secret: string | Buffer): string {
  const input = `${header}.${encode(claims)}`
  return `${input}.${sign(input, secret).toString('base64url')}`
}

export const looksLikeJwt = (token: string) => token.startsWith('ey') && token.split('.', 4).length === 3

/** The claims of a valid token signed with this secret. Undefined if the token is invalid for any reason. */
export function verifyJwt(
  token: string,
  secret: string | Buffer,
  nowMs = Date.now(),
): VerifiedJwt | undefined {
  const verified = verifySignature(token, secret)
  return verified && claimsProblem(verified.claims, nowMs) === undefined ? verified : undefined
}

/** The claims of a token signed with this secret, also if they are invalid now; see `claimsProblem`. */
export function verifySignature(token: string, secret: string | Buffer): VerifiedJwt | undefined {
  if (token.length > maxBytes) return
  const [head, payload, signature, ...rest] = token.split('.')
  if (!head || !payload || !signature || rest.length > 0) return
  const given = Buffer.from(signature, 'base64url')
  const expected = sign(`${head}.${payload}`, secret)
  if (given.length !== expected.length || !timingSafeEqual(given, expected)) return
  if (parseObject(decode(head))?.['alg'] !== 'HS256') return
  const json = decode(payload)
  const claims = parseObject(json)
  return claims && { claims, json }
}

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
