// One-time codes: six digits for the mail, and a link token derived from them. The database stores an HMAC of the link
// token, because a plain hash of six digits could be found by brute force.
import { createHash, randomInt } from 'node:crypto'
import { type DeriveKey, hmac } from '#src/kernel/crypto/keys.ts'

export interface OneTimeCode {
  /** Typed by the user. */
  code: string
  /** Part of the link. */
  linkToken: string
}

const digits = 6
const pkcePrefix = 'pkce_'

const linkTokenOf = (address: string, code: string) =>
  createHash('sha224')
    .update(address + code)
    .digest('hex')

/** With `isPkce`, following the link returns an auth code instead of a session. */
export function newOneTimeCode(address: string, isPkce: boolean): OneTimeCode {
  const code = String(randomInt(10 ** digits)).padStart(digits, '0')
  return { code, linkToken: (isPkce ? pkcePrefix : '') + linkTokenOf(address, code) }
}

const codeSyntax = new RegExp(`^\\d{${digits}}$`)

/**
 * The link tokens that belong to a typed code. Other texts have none: address and code are hashed without a separator,
 * so characters could move from one to the other.
 */
export function linkTokensOf(address: string, code: string): string[] {
  if (!codeSyntax.test(code)) return []
  const token = linkTokenOf(address, code)
  return [token, pkcePrefix + token]
}

export const isPkceToken = (linkToken: string) => linkToken.startsWith(pkcePrefix)

export type HashOneTime = (projectId: string, token: string) => string

/** Also hashes the auth codes of flows. */
export function oneTimeHash(deriveKey: DeriveKey): HashOneTime {
  const key = deriveKey('one-time token')
  return (projectId, token) => hmac(key, `${projectId}:${token}`).toString('base64url')
}
