// Proves that plain bytes are those that were written. It is a MAC and not a hash, because processors without instructions
// for SHA-256 would hash for longer than all else that the platform does to write a backup. AES-GCM authenticates bytes
// that it does not encrypt in a tenth of that time everywhere.
import {
  type CipherGCM,
  createCipheriv,
  createHash,
  createSecretKey,
  hkdfSync,
  randomBytes,
} from 'node:crypto'

/** In hexadecimal. */
export interface ContentProof {
  /** The random nonce, then the MAC with a key that is derived for the file. */
  mac?: string
  /** In place of it, in files of earlier releases. */
  sha256?: string
}

export interface MacOfContent {
  /** In parts of any length. */
  update(part: Buffer): void
  end(): string
}

export interface ContentCheck {
  update(part: Buffer): void
  /** Whether all parts together are what the proof is about. */
  end(): boolean
}

const nonceBytes = 12
const macBytes = nonceBytes + 16
const hashBytes = 32

export function macOfContent(
  dataKey: Buffer,
  version: string,
  nonce: Buffer = randomBytes(nonceBytes),
): MacOfContent {
  const key = createSecretKey(Buffer.from(hkdfSync('sha256', dataKey, version, 'plinth content', 32)))
  const cipher: CipherGCM = createCipheriv('aes-256-gcm', key, nonce)
  return {
    update: part => void cipher.setAAD(part),
    end() {
      cipher.final()
      return Buffer.concat([nonce, cipher.getAuthTag()]).toString('hex')
    },
  }
}

export function checkContent(dataKey: Buffer, version: string, { mac, sha256 }: ContentProof): ContentCheck {
  if (mac !== undefined) {
    const nonce = Buffer.from(mac, 'hex').subarray(0, nonceBytes)
    const found = macOfContent(dataKey, version, nonce)
    return { update: found.update, end: () => found.end() === mac }
  }
  const hash = createHash('sha256')
  return { update: part => void hash.update(part), end: () => hash.digest('hex') === sha256 }
}

export const isContentProof = ({ mac, sha256 }: Record<keyof ContentProof, unknown>): boolean =>
  mac === undefined ? isHexadecimal(sha256, hashBytes) : isHexadecimal(mac, macBytes)

export const proofBytes = ({ mac, sha256 = '' }: ContentProof): Buffer => Buffer.from(mac ?? sha256, 'hex')

export const proofOf = (bytes: Buffer): ContentProof =>
  bytes.length === hashBytes ? { sha256: bytes.toString('hex') } : { mac: bytes.toString('hex') }

const isHexadecimal = (value: unknown, bytes: number): boolean =>
  typeof value === 'string' && value.length === 2 * bytes && /^[0-9a-f]*$/.test(value)
