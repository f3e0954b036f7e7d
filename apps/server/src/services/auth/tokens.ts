// Access tokens are JWTs, signed with the project's secret or its ES256 key. A refresh token is the session id and a
// counter with an HMAC. The database stores only the counter, so a copy of it holds no usable token. The server can
// compute the current token again for a client that lost the answer to its refresh.
import { timingSafeEqual } from 'node:crypto'
import type { AuthSettings } from '@plinth/contract/auth-settings.ts'
import { signJwt, signJwtEs256 } from '#src/kernel/crypto/jwt.ts'
import { type DeriveKey, hmac } from '#src/kernel/crypto/keys.ts'
import type { Tenant } from '#src/tenancy/directory.ts'
import type { SigningKeys } from '#src/tenancy/signing-keys.ts'
import type { ActiveKey } from '#src/tenancy/tenant-signing-keys.ts'

export interface AmrEntry {
  method: string
  timestamp: number
}

/** The fields of a user object that become claims of the access token. */
export interface TokenUser {
  id: string
  aud: string
  role: string
  email: string
  phone: string
  app_metadata: object
  user_metadata: object
  is_anonymous: boolean
}

export interface SessionState {
  id: string
  aal: string
  amr: readonly AmrEntry[]
  counter: number
}

export interface IssuedTokens {
  access_token: string
  token_type: 'bearer'
  expires_in: number
  expires_at: number
  refresh_token: string
}

export interface Tokens {
  issue(tenant: Tenant, user: TokenUser, session: SessionState, settings: AuthSettings): Promise<IssuedTokens>
  /** Makes the ES256 key of a project whose setting has just changed, or retires it. */
  prepare(tenant: Tenant, settings: AuthSettings): Promise<void>
  /** The session id and counter of a refresh token. Undefined for a token with a wrong HMAC. */
  readRefreshToken(tenant: Tenant, token: string): { sessionId: string; counter: number } | undefined
}

const idBytes = 16
const counterBytes = 6
const tagBytes = 12
const tokenBytes = idBytes + counterBytes + tagBytes

export function createTokens(
  deriveKey: DeriveKey,
  baseUrl: () => string,
  signingKeys: Pick<SigningKeys, 'ensure' | 'retire'>,
): Tokens {
  const refreshKey = deriveKey('refresh token')
  const tagOf = (tenant: Tenant, payload: Buffer) =>
    hmac(refreshKey, `${tenant.id}:${payload.toString('hex')}`).subarray(0, tagBytes)

  function refreshToken(tenant: Tenant, { id, counter }: SessionState): string {
    const payload = Buffer.alloc(idBytes + counterBytes)
    payload.write(id.replaceAll('-', ''), 'hex')
    payload.writeUIntBE(counter, idBytes, counterBytes)
    return Buffer.concat([payload, tagOf(tenant, payload)]).toString('base64url')
  }

  /** The key that signs, undefined for HS256. The setting can change on any node, so the keys follow it here. */
  async function es256Key(tenant: Tenant, settings: AuthSettings): Promise<ActiveKey | undefined> {
    const active = tenant.signingKeys.active()
    if (settings.jwt_algorithm === 'HS256') {
      if (active) await signingKeys.retire(tenant)
      return
    }
    const seconds = settings.session_duration_seconds
    return active && active.tokenSeconds >= seconds ? active : signingKeys.ensure(tenant, seconds)
  }

  return {
    async issue(tenant, user, session, settings) {
      const key = await es256Key(tenant, settings)
      const now = Math.floor(Date.now() / 1000)
      const expiresIn = settings.session_duration_seconds
      const claims = {
        iss: `${baseUrl()}/v1/${tenant.id}/auth/v1`,
        sub: user.id,
        aud: user.aud,
        exp: now + expiresIn,
        iat: now,
        email: user.email,
        phone: user.phone,
        app_metadata: user.app_metadata,
        user_metadata: user.user_metadata,
        role: user.role,
        aal: session.aal,
        amr: session.amr,
        session_id: session.id,
        is_anonymous: user.is_anonymous,
      }
      return {
        access_token: key ? signJwtEs256(claims, key) : signJwt(claims, tenant.jwtSecret),
        token_type: 'bearer',
        expires_in: expiresIn,
        expires_at: now + expiresIn,
        refresh_token: refreshToken(tenant, session),
      }
    },

    async prepare(tenant, settings) {
      await es256Key(tenant, settings)
    },

    readRefreshToken(tenant, token) {
      const bytes = Buffer.from(token, 'base64url')
      if (bytes.length !== tokenBytes || bytes.toString('base64url') !== token) return
      const payload = bytes.subarray(0, idBytes + counterBytes)
      if (!timingSafeEqual(bytes.subarray(payload.length), tagOf(tenant, payload))) return
      const hex = payload.toString('hex', 0, idBytes)
      return {
        sessionId: hex.replace(/^(.{8})(.{4})(.{4})(.{4})/, '$1-$2-$3-$4-'),
        counter: payload.readUIntBE(idBytes, counterBytes),
      }
    },
  }
}
