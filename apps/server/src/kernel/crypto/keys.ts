// All derived keys of the platform come from CONTROL_PLANE_SECRET through HKDF, with a label per purpose. So a key for
// one purpose cannot be used for another.
import { createHmac, hkdfSync, randomBytes, timingSafeEqual } from 'node:crypto'

export type DeriveKey = (purpose: string) => Buffer

export const keyring =
  (secret: string): DeriveKey =>
  purpose =>
    Buffer.from(hkdfSync('sha256', secret, 'plinth', purpose, 32))

export const hmac = (key: Buffer, text: string) => createHmac('sha256', key).update(text).digest()

/** A constant-time comparison. */
export function isSame(given: string, expected: string): boolean {
  const left = Buffer.from(given)
  const right = Buffer.from(expected)
  return left.length === right.length && timingSafeEqual(left, right)
}

/** `bytes` random bytes as base64url text. */
export const randomToken = (bytes = 32) => randomBytes(bytes).toString('base64url')
