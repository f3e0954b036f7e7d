// Encrypts stored secrets with AES-256-GCM. The context (which column of which row) is authenticated, so a sealed value
// that was moved to another column or row does not open.
import { createCipheriv, createDecipheriv, randomBytes } from 'node:crypto'

const mark = 'sealed:v1:'
const nonceBytes = 12
const tagBytes = 16

export interface Sealer {
  seal(plain: string, context: string): string
  /** Decrypts a sealed value. A value without the prefix is returned unchanged: older versions stored plain text. */
  open(stored: string, context: string): string
}

export const isSealed = (stored: string) => stored.startsWith(mark)

export function sealer(key: Buffer): Sealer {
  return {
    seal(plain, context) {
      const nonce = randomBytes(nonceBytes)
      const cipher = createCipheriv('aes-256-gcm', key, nonce).setAAD(Buffer.from(context))
      const body = Buffer.concat([cipher.update(plain, 'utf8'), cipher.final()])
      return mark + Buffer.concat([nonce, body, cipher.getAuthTag()]).toString('base64url')
    },
    open(stored, context) {
      if (!isSealed(stored)) return stored
      const bytes = Buffer.from(stored.slice(mark.length), 'base64url')
      const decipher = createDecipheriv('aes-256-gcm', key, bytes.subarray(0, nonceBytes))
        .setAAD(Buffer.from(context))
        .setAuthTag(bytes.subarray(-tagBytes))
      const body = bytes.subarray(nonceBytes, -tagBytes)
      return Buffer.concat([decipher.update(body), decipher.final()]).toString('utf8')
    },
  }
}
