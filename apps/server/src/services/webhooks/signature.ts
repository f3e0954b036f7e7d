// Signs deliveries in two ways: X-Webhook-Signature, and the headers of Standard Webhooks, which many libraries verify.
// While two secrets are valid, each signature is made with both.
import { createHmac, createSecretKey, type KeyObject, randomBytes } from 'node:crypto'
import { version } from '#src/kernel/version.ts'

const prefix = 'whsec_'

export const newSecret = () => prefix + randomBytes(32).toString('base64')

interface Keys {
  /** The whole text of the secret. */
  whole: KeyObject
  /** The decoded part after the prefix. */
  decoded: KeyObject
}

export type Sign = (deliveryId: string, body: string) => Record<string, string>

const hmac = (key: KeyObject, text: string, encoding: 'hex' | 'base64') =>
  createHmac('sha256', key).update(text).digest(encoding)

/** The current secret comes first. */
export function createSign(secrets: readonly string[]): Sign {
  const keys = secrets.map(
    (secret): Keys => ({
      whole: createSecretKey(secret, 'utf8'),
      decoded: createSecretKey(secret.slice(prefix.length), 'base64'),
    }),
  )
  return (deliveryId, body) => {
    const timestamp = String(Math.floor(Date.now() / 1000))
    const messageId = `msg_${deliveryId.replaceAll('-', '')}`
    const signed = `${timestamp}.${body}`
    return {
      'content-type': 'application/json',
      'user-agent': `Plinth-Webhooks/${version}`,
      'x-webhook-id': crypto.randomUUID(),
      'x-webhook-timestamp': timestamp,
      'x-webhook-signature': keys.map(({ whole }) => `v1=${hmac(whole, signed, 'hex')}`).join(','),
      'webhook-id': messageId,
      'webhook-timestamp': timestamp,
      'webhook-signature': keys
        .map(({ decoded }) => `v1,${hmac(decoded, `${messageId}.${signed}`, 'base64')}`)
        .join(' '),
    }
  }
}
