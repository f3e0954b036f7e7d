// Encrypts a file in frames of 64 KiB, so that any part can be decrypted without the rest. The key is derived for this
// project and this file. The index of the frame, and whether it is the last one, are authenticated. So a changed bit, a
// moved frame, a truncated file and a file swapped with another are detected.
import {
  createCipheriv,
  createDecipheriv,
  createSecretKey,
  hkdfSync,
  type KeyObject,
  randomBytes,
} from 'node:crypto'

export const frameBytes = 65_536
const nonceBytes = 12
const tagBytes = 16
/** Bytes that a stored frame has in addition to its content. */
export const overheadBytes = nonceBytes + tagBytes
const algorithm = 'aes-256-gcm'

/** A tail is the end of an unfinished upload: fewer bytes than a frame, stored encrypted until the upload continues. */
export type FrameKind = 'inner' | 'last' | 'tail'
const kinds: Record<FrameKind, number> = { inner: 0, last: 1, tail: 2 }

/** The stored bytes differ from those that were written. */
export class DamagedFile extends Error {
  constructor(what: string, cause?: unknown) {
    super(what, { cause })
    this.name = 'DamagedFile'
  }
}

export interface FrameCipher {
  /** Nonce, ciphertext, tag. The nonce is random, because the same frame may be encrypted again with other bytes. */
  seal(index: number, kind: FrameKind, plain: readonly Buffer[]): Buffer[]
  open(index: number, kind: FrameKind, stored: Buffer): Buffer
}

export function frameCipher(dataKey: Buffer | KeyObject, version: string): FrameCipher {
  // With a Buffer, createCipheriv would create a key object per frame, which takes half as long as encrypting it.
  const key = createSecretKey(Buffer.from(hkdfSync('sha256', dataKey, version, 'plinth file', 32)))
  const aad = Buffer.alloc(9)
  const aadOf = (index: number, kind: FrameKind) => {
    aad.writeBigUInt64BE(BigInt(index))
    aad[8] = kinds[kind]
    return aad
  }
  return {
    seal(index, kind, plain) {
      const nonce = randomBytes(nonceBytes)
      const cipher = createCipheriv(algorithm, key, nonce).setAAD(aadOf(index, kind))
      const sealed = [nonce]
      for (const chunk of plain) sealed.push(cipher.update(chunk))
      cipher.final()
      sealed.push(cipher.getAuthTag())
      return sealed
    },
    open(index, kind, stored) {
      try {
        const end = stored.length - tagBytes
        const decipher = createDecipheriv(algorithm, key, stored.subarray(0, nonceBytes))
          .setAAD(aadOf(index, kind))
          .setAuthTag(stored.subarray(end))
        const plain = decipher.update(stored.subarray(nonceBytes, end))
        decipher.final()
        return plain
      } catch (error) {
        throw new DamagedFile(`frame ${index} does not open`, error)
      }
    },
  }
}
