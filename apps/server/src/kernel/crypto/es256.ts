// ES256 signatures of JWTs: ECDSA with P-256 and SHA-256, in the fixed-length format of JWS.
import {
  createPrivateKey,
  createPublicKey,
  generateKeyPairSync,
  type KeyObject,
  sign,
  verify,
} from 'node:crypto'

/** The coordinates of a public key, as in a JWK. */
export interface Point {
  x: string
  y: string
}

const curve = { kty: 'EC', crv: 'P-256' } as const

/** `secret` is the parameter `d` of the JWK. */
export function newEs256Key(): { point: Point; secret: string } {
  const { x, y, d } = generateKeyPairSync('ec', { namedCurve: 'P-256' }).privateKey.export({ format: 'jwk' })
  return { point: { x: x!, y: y! }, secret: d! }
}

export const es256PublicKey = ({ x, y }: Point): KeyObject =>
  createPublicKey({ key: { ...curve, x, y }, format: 'jwk' })

export const es256PrivateKey = ({ x, y }: Point, secret: string): KeyObject =>
  createPrivateKey({ key: { ...curve, x, y, d: secret }, format: 'jwk' })

export const publicJwk = (kid: string, { x, y }: Point) => ({
  ...curve,
  x,
  y,
  kid,
  alg: 'ES256' as const,
  use: 'sig' as const,
  key_ops: ['verify'],
})

const encoding = { dsaEncoding: 'ieee-p1363' } as const
const signatureBytes = 64

export const signEs256 = (input: string, key: KeyObject): Buffer =>
  sign('sha256', Buffer.from(input), { key, ...encoding })

export const isSignedEs256 = (input: string, signature: Buffer, key: KeyObject): boolean =>
  signature.length === signatureBytes && verify('sha256', Buffer.from(input), { key, ...encoding }, signature)
