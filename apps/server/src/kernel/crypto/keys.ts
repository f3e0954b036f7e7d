// Everything secret that the platform derives comes from CONTROL_PLANE_SECRET, one label per purpose, so
// that no derived key can stand in for another.
import { createHmac, hkdfSync, randomBytes, timingSafeEqual } from 'node:crypto'

export type DeriveKey = (purpose: string) => Buffer

export const keyring =
  (secret: string): DeriveKey =>
  purpose =>
    Buffer.from(hkdfSync('sha256', secret, 'plinth', purpose, 32))

export const hmac = (key: Buffer, text: string) => createHmac('sha256', key).update(text).digest()

/** Compares in time that does not depend on where the texts differ. */
export function isSame(given: string, expected: string): boolean {
  const left = Buffer.from(given)
  const right = Buffer.from(expected)
  return left.length === right.length && timingSafeEqual(left, right)
}

/** Text of `bytes` random bytes that needs no escaping anywhere. */
export const randomToken = (bytes = 32) => randomBytes(bytes).toString('base64url')
