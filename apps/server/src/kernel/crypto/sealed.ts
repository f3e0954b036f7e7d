// AES-256-GCM around a stored secret. The context (which column of which row) is authenticated, so a sealed
// value moved to another place does not open.
import { createCipheriv, createDecipheriv, randomBytes } from 'node:crypto'

const mark = 'sealed:v1:'
const nonceBytes = 12
const tagBytes = 16

export interface Sealer {
  seal(plain: string, context: string): string
  /** Opens a sealed value; a value stored before sealing existed is returned as it is. */
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
