// An authenticator, and somebody who has one.
import { createHmac } from 'node:crypto'
import { granted } from './auth-objects.ts'
import { type Member, member } from './auth-people.ts'
import type { Auth } from './auth-shapes.ts'
import type { AuthProject } from './auth-stage.ts'

export interface Enrolled {
  id: string
  secret: string
}

export async function enroll(auth: Auth, friendlyName = 'Phone'): Promise<Enrolled> {
  const { id, totp } = granted(await auth.mfa.enroll({ factorType: 'totp', friendlyName }))
  return { id, secret: totp.secret }
}

export interface Guarded extends Member {
  factorId: string
  secret: string
}

/** Somebody at aal2 with a verified factor; its code of this moment is used up. */
export async function guarded(project: AuthProject): Promise<Guarded> {
  const someone = await member(project)
  const { id, secret } = await enroll(someone.auth)
  const session = granted(await someone.auth.mfa.challengeAndVerify({ factorId: id, code: codeOf(secret) }))
  return { ...someone, session: session as Member['session'], factorId: id, secret }
}

/** The code an authenticator shows now, or `stepsAhead` times 30 seconds later. */
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
