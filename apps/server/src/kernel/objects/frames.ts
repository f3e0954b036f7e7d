// The bytes of a file, sealed in frames so that any part of it can be read without the rest. The key belongs to the
// project and this one file; what is authenticated with a frame is where it stands and whether it is the last. So a
// flipped bit, a frame moved, a file cut short or put in the place of another does not open.
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
/** What a frame takes beyond what it holds. */
export const overheadBytes = nonceBytes + tagBytes
const algorithm = 'aes-256-gcm'

/** The end of an upload that has not arrived whole is kept sealed as well, and is no frame. */
export type FrameKind = 'inner' | 'last' | 'tail'
const kinds: Record<FrameKind, number> = { inner: 0, last: 1, tail: 2 }

/** What is stored is not what was written. */
export class DamagedFile extends Error {
  constructor(what: string, cause?: unknown) {
    super(what, { cause })
    this.name = 'DamagedFile'
  }
}

export interface FrameCipher {
  /** Nonce, ciphertext, tag. A nonce is never used twice: a frame may be sealed again, with other bytes. */
  seal(index: number, kind: FrameKind, plain: readonly Buffer[]): Buffer[]
  open(index: number, kind: FrameKind, stored: Buffer): Buffer
}

export function frameCipher(dataKey: Buffer | KeyObject, version: string): FrameCipher {
  // From bytes, a key object would be made for every frame, which costs half as much as the frame.
  const key = createSecretKey(Buffer.from(hkdfSync('sha256', dataKey, version, 'plinth file', 32)))
  const place = Buffer.alloc(9)
  const placeOf = (index: number, kind: FrameKind) => {
    place.writeBigUInt64BE(BigInt(index))
    place[8] = kinds[kind]
    return place
  }
  return {
    seal(index, kind, plain) {
      const nonce = randomBytes(nonceBytes)
      const cipher = createCipheriv(algorithm, key, nonce).setAAD(placeOf(index, kind))
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
          .setAAD(placeOf(index, kind))
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
