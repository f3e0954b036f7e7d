// SCRAM-SHA-256 (RFC 5802, RFC 7677) as Postgres implements it: the client's side of the exchange, and the stored
// verifier. Statements contain the verifier instead of the clear-text password.
import { createHash, createHmac, pbkdf2, randomBytes, timingSafeEqual } from 'node:crypto'
import { promisify } from 'node:util'

const derive = promisify(pbkdf2)
const hmac = (key: Buffer, text: string) => createHmac('sha256', key).update(text).digest()
const sha256 = (bytes: Buffer) => createHash('sha256').update(bytes).digest()
const iterations = 4096

/** With the same salt, a password always has the same verifier. */
export async function scramVerifier(password: string, salt: Buffer): Promise<string> {
  const salted = await derive(password.normalize('NFKC'), salt, iterations, 32, 'sha256')
  const storedKey = sha256(hmac(salted, 'Client Key')).toString('base64')
  const serverKey = hmac(salted, 'Server Key').toString('base64')
  return `SCRAM-SHA-256$${iterations}:${salt.toString('base64')}$${storedKey}:${serverKey}`
}

export interface ScramExchange {
  readonly first: string
  /** The client's final message for the server's challenge. */
  respond(serverFirst: string): Promise<string>
  /** Whether the server proved that it knows the verifier too. */
  isGenuine(serverFinal: string): boolean
}

export function scramExchange(password: string): ScramExchange {
  const nonce = randomBytes(18).toString('base64')
  const bare = `n=,r=${nonce}`
  let signature: Buffer | undefined
  return {
    first: `n,,${bare}`,
    async respond(serverFirst) {
      const { r = '', s = '', i = '' } = attributes(serverFirst)
      const rounds = Number(i)
      if (!r.startsWith(nonce) || r === nonce || !s || !(rounds >= 4096 && rounds <= 1_000_000))
        throw new Error('the database server sent a malformed SCRAM challenge')
      const salted = await derive(password.normalize('NFKC'), Buffer.from(s, 'base64'), rounds, 32, 'sha256')
      const withoutProof = `c=biws,r=${r}`
      const message = `${bare},${serverFirst},${withoutProof}`
      const clientKey = hmac(salted, 'Client Key')
      const mask = hmac(sha256(clientKey), message)
      signature = hmac(hmac(salted, 'Server Key'), message)
      return `${withoutProof},p=${Buffer.from(clientKey.map((byte, at) => byte ^ mask[at]!)).toString('base64')}`
    },
    isGenuine(serverFinal) {
      const given = Buffer.from(attributes(serverFinal)['v'] ?? '', 'base64')
      return signature !== undefined && given.length === signature.length && timingSafeEqual(given, signature)
    },
  }
}

const attributes = (message: string): Record<string, string> =>
  Object.fromEntries(message.split(',').map(part => [part.slice(0, 1), part.slice(2)]))
