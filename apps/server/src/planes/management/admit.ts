// From `Authorization: Bearer` to an Actor: the admin token, a platform token, or a session.
import type { PlatformRole } from '@plinth/contract/platform.ts'
import type { Scope } from '@plinth/contract/route.ts'
import type { MemberRole } from '@plinth/contract/team.ts'
import { looksLikeJwt, signJwt, verifySignature } from '#src/kernel/crypto/jwt.ts'
import { claimsProblem } from '#src/kernel/crypto/jwt-claims.ts'
import { type DeriveKey, hmac, isSame } from '#src/kernel/crypto/keys.ts'
import { unauthorized } from '#src/kernel/errors.ts'
import type { Database } from '#src/kernel/postgres/database.ts'
import { sql } from '#src/kernel/postgres/sql.ts'
import type { Actor } from './actor.ts'

export const tokenPrefix = 'platform_pat_'
const sessionSeconds = 12 * 60 * 60
const issuer = 'plinth'

export interface Credentials {
  /** `apikey` is the header with which a project's key would be sent. It only changes the error. */
  identify(authorization: string | undefined, apikey?: string | string[]): Promise<Actor>
  /** Whether a text is a credential of this plane, possibly an expired one. */
  isManagementToken(text: string): boolean
  /** The stored part of a platform token. */
  hashOf(token: string): Buffer
  issueSession(
    user: { id: string; sessionVersion: number },
    nowMs?: number,
  ): { token: string; expiresAt: string }
}

export function createCredentials(
  control: Database,
  deriveKey: DeriveKey,
  adminToken: string | undefined,
): Credentials {
  const tokenKey = deriveKey('platform token')
  const sessionKey = deriveKey('platform session')
  const hashOf = (token: string) => hmac(tokenKey, token)

  async function actorOfToken(token: string): Promise<Actor | undefined> {
    const row = await findActiveToken(control, hashOf(token))
    if (!row) return
    if (row.is_stale) await noteTokenUse(control, row.id)
    return { kind: 'token', id: row.id, name: row.name, scope: row.scope }
  }

  async function actorOfSession(token: string): Promise<Actor> {
    const claims = verifySignature(token, sessionKey)?.claims
    if (!claims) throw unauthorized(reasons.ofProject)
    if (claimsProblem(claims, Date.now()) !== undefined) throw unauthorized(reasons.sessionEnded)
    if (claims['iss'] !== issuer || typeof claims['sub'] !== 'string' || typeof claims['ver'] !== 'number')
      throw unauthorized(reasons.unknown)
    const row = await findSessionUser(control, claims['sub'], claims['ver'])
    if (!row) throw unauthorized(reasons.sessionEnded)
    const memberships = new Map(Object.entries(row.memberships))
    return { kind: 'user', id: row.id, email: row.email, role: row.role, memberships }
  }

  const isAdminToken = (text: string) => adminToken !== undefined && isSame(text, adminToken)

  return {
    hashOf,
    isManagementToken: text =>
      text.startsWith(tokenPrefix) || isAdminToken(text) || verifySignature(text, sessionKey) !== undefined,
    async identify(authorization, apikey) {
      const token = /^bearer\s+(\S+)$/i.exec(authorization ?? '')?.[1]
      if (token === undefined) throw unauthorized(apikey === undefined ? reasons.none : reasons.apikey)
      if (isAdminToken(token)) return { kind: 'admin_token' }
      if (token.startsWith(tokenPrefix)) {
        const actor = await actorOfToken(token)
        if (!actor) throw unauthorized(reasons.token)
        return actor
      }
      if (looksLikeJwt(token)) return actorOfSession(token)
      throw unauthorized(projectKey.test(token) ? reasons.ofProject : reasons.unknown)
    },
    issueSession({ id, sessionVersion }, nowMs = Date.now()) {
      const iat = Math.floor(nowMs / 1000)
      const exp = iat + sessionSeconds
      return {
        token: signJwt({ iss: issuer, sub: id, ver: sessionVersion, iat, exp }, sessionKey),
        expiresAt: new Date(exp * 1000).toISOString(),
      }
    },
  }
}

const projectKey = /^platform_(?:anon|service_role)_/
const accepted = 'the admin token, a platform token or a session'
/** Why a credential is not accepted. The log and the answer never contain the credential itself. */
const reasons = {
  none: `No credential was sent: use the header Authorization: Bearer with ${accepted}`,
  apikey: `The management API does not read the header apikey: use Authorization: Bearer with ${accepted}`,
  ofProject: `The management API accepts no keys and no user tokens of projects: use ${accepted}`,
  token: 'This platform token is unknown, revoked or expired: create a new one',
  sessionEnded: 'This session has ended: sign in again',
  unknown: `Unknown credential: use ${accepted}`,
} as const

const findActiveToken = (control: Database, hash: Buffer) =>
  control.row<{ id: string; name: string; scope: Scope; is_stale: boolean }>(sql`
    select id, name, scope, coalesce(last_used_at < now() - interval '1 minute', true) as is_stale
      from tokens
     where hash = ${hash} and revoked_at is null and (expires_at is null or expires_at > now())`)

const noteTokenUse = (control: Database, id: string) =>
  control.run(sql`update tokens set last_used_at = now() where id = ${id}`)

const findSessionUser = (control: Database, id: string, version: number) =>
  control.row<{ id: string; email: string; role: PlatformRole; memberships: Record<string, MemberRole> }>(sql`
    select u.id, u.email, u.role,
           coalesce(jsonb_object_agg(m.project_id, m.role) filter (where m.project_id is not null), '{}') as memberships
      from users u left join members m on m.user_id = u.id
     where u.id = ${id} and u.is_active and u.session_version = ${version}
     group by u.id`)
