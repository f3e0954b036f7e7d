// Six digits for a mail, and the longer text that stands for them in a link. What is stored is a keyed hash of that:
// six digits alone could be found by trying.
import { createHash, randomInt } from 'node:crypto'
import { type DeriveKey, hmac } from '#src/kernel/crypto/keys.ts'

export interface OneTimeCode {
  /** What a person types. */
  code: string
  /** What a link carries. */
  linkToken: string
}

const digits = 6
const pkceMark = 'pkce_'

const linkTokenOf = (address: string, code: string) =>
  createHash('sha224')
    .update(address + code)
    .digest('hex')

/** With `isPkce`, whoever follows the link gets a code for the client that asked, not a session. */
export function newOneTimeCode(address: string, isPkce: boolean): OneTimeCode {
  const code = String(randomInt(10 ** digits)).padStart(digits, '0')
  return { code, linkToken: (isPkce ? pkceMark : '') + linkTokenOf(address, code) }
}

const typed = new RegExp(`^\\d{${digits}}$`)

/** All link tokens that a typed code may stand for: none for what is no code, since what is hashed has no separator. */
export function linkTokensOf(address: string, code: string): string[] {
  if (!typed.test(code)) return []
  const token = linkTokenOf(address, code)
  return [token, pkceMark + token]
}

export const isPkceToken = (linkToken: string) => linkToken.startsWith(pkceMark)

export type HashOneTime = (projectId: string, token: string) => string

/** Also for the codes of flows: whatever is handed out once and compared later. */
export function oneTimeHash(deriveKey: DeriveKey): HashOneTime {
  const key = deriveKey('one-time token')
  return (projectId, token) => hmac(key, `${projectId}:${token}`).toString('base64url')
}
