// Tokens of signed URLs. The key is derived from the project's secret, so that a user's JWT is never valid as such a token,
// and such a token never as a user's JWT. The token contains the object and the purpose.

import { looksLikeJwt, signJwt, verifySignature } from '#src/kernel/crypto/jwt.ts'
import { hmac } from '#src/kernel/crypto/keys.ts'
import type { Tenant } from '#src/tenancy/directory.ts'
import { storageRefusal } from './refusals.ts'

export interface DownloadGrant {
  scope: 'download'
  url: string
  transformations?: string
  format?: string
  exp: number
}
export interface UploadGrant {
  scope: 'upload'
  url: string
  owner: string | null
  upsert: boolean
  exp: number
}
type Grant = DownloadGrant | UploadGrant

const keyOf = ({ jwtSecret }: Tenant) => hmac(Buffer.from(jwtSecret), 'signed URLs of storage')

export function signGrant(
  tenant: Tenant,
  grant: Omit<DownloadGrant, 'exp'> | Omit<UploadGrant, 'exp'>,
  seconds: number,
) {
  const iat = Math.floor(Date.now() / 1000)
  return signJwt({ ...grant, iat, exp: iat + seconds }, keyOf(tenant))
}

/** Returns the grant if the token is for this object and purpose. */
export function readGrant<S extends Grant['scope']>(
  tenant: Tenant,
  token: string | undefined,
  scope: S,
  url: string,
): Extract<Grant, { scope: S }> {
  if (token === undefined || token === '')
    throw storageRefusal('InvalidJWT', 'The URL has no token; sign it with POST object/sign')
  // Check the expiry last, so that the error reveals nothing about a token for another object.
  const verified = looksLikeJwt(token) ? verifySignature(token, keyOf(tenant)) : undefined
  if (!verified) throw storageRefusal('InvalidJWT', 'The token is malformed, or not signed by this project')
  const grant = verified.claims as unknown as Grant
  if (grant.scope !== scope || grant.url !== url)
    throw storageRefusal('InvalidSignature', 'The token is for another object or another purpose')
  if (!(typeof grant.exp === 'number' && grant.exp > Date.now() / 1000))
    throw storageRefusal('ExpiredToken', '"exp" claim timestamp check failed: the signed URL has expired')
  return grant as Extract<Grant, { scope: S }>
}
