// An authenticator app, and users with a verified factor.
import { createHmac } from 'node:crypto'
import { dataOf } from './auth-objects.ts'
import type { AuthProject } from './auth-setup.ts'
import type { Auth } from './auth-shapes.ts'
import { newUser, type SignedInUser } from './auth-users.ts'

export interface Enrolled {
  id: string
  secret: string
}

export async function enroll(auth: Auth, friendlyName = 'Phone'): Promise<Enrolled> {
  const { id, totp } = dataOf(await auth.mfa.enroll({ factorType: 'totp', friendlyName }))
  return { id, secret: totp.secret }
}

export interface UserWithFactor extends SignedInUser {
  factorId: string
  secret: string
}

/** A user at aal2 with a verified factor, whose current code is used. */
export async function userWithFactor(project: AuthProject): Promise<UserWithFactor> {
  const newAddress = await newUser(project)
  const { id, secret } = await enroll(newAddress.auth)
  const session = dataOf(await newAddress.auth.mfa.challengeAndVerify({ factorId: id, code: codeOf(secret) }))
  return { ...newAddress, session: session as SignedInUser['session'], factorId: id, secret }
}

/** The current code, or the one `stepsAhead` times 30 seconds later. */
export function codeOf(secret: string, stepsAhead = 0): string {
  const counter = Buffer.alloc(8)
  counter.writeBigUInt64BE(BigInt(Math.floor(Date.now() / 30_000) + stepsAhead))
  const digest = createHmac('sha1', fromBase32(secret)).update(counter).digest()
  const value = digest.readUInt32BE(digest.at(-1)! & 15) & 0x7fffffff
  return String(value % 1_000_000).padStart(6, '0')
}

function fromBase32(text: string): Buffer {
  const alphabet = 'ABCDEFGHIJKLMNOPQRSTUVWXYZ234567'
  const bits = [...text.replaceAll('=', '')]
    .map(letter => alphabet.indexOf(letter).toString(2).padStart(5, '0'))
    .join('')
  return Buffer.from((bits.match(/.{8}/g) ?? []).map(byte => Number.parseInt(byte, 2)))
}
