import type { Static } from 'typebox'
import type { Routes } from './route.ts'
import { Empty, Id, Nullable, PageQuery, page, Timestamp } from './shapes.ts'
import { Type } from './type.ts'

export const PlatformRole = Type.Union([
  Type.Literal('super_admin'),
  Type.Literal('project_admin'),
  Type.Literal('developer'),
  Type.Literal('viewer'),
])
export type PlatformRole = Static<typeof PlatformRole>

export const TokenScope = Type.Union([Type.Literal('admin'), Type.Literal('deploy'), Type.Literal('read')])

const token = {
  id: Id,
  name: Type.String(),
  scope: TokenScope,
  created_at: Timestamp,
  expires_at: Nullable(Timestamp),
  last_used_at: Nullable(Timestamp),
  revoked_at: Nullable(Timestamp),
}
const PlatformToken = Type.Object(token)
export type PlatformToken = Static<typeof PlatformToken>

export const platformApi = {
  login: {
    plane: 'management',
    method: 'POST',
    path: '/platform/login',
    scope: 'none',
    audit: 'platform.login',
    summary: 'Exchange e-mail and password for a session of 12 hours',
    body: Type.Object(
      { email: Type.String({ maxLength: 320 }), password: Type.String({ maxLength: 1024 }) },
      { additionalProperties: false },
    ),
    reply: Type.Object({
      token: Type.String({ description: 'Send it as `Authorization: Bearer`.' }),
      expires_at: Timestamp,
      user: Type.Object({ id: Id, email: Type.String(), role: PlatformRole }),
    }),
  },
  mintToken: {
    plane: 'management',
    method: 'POST',
    path: '/platform/tokens',
    scope: 'admin',
    audit: 'platform.token_minted',
    summary: 'Create a platform token; only this answer contains its text',
    body: Type.Object(
      {
        name: Type.String({ minLength: 1, maxLength: 100 }),
        scope: TokenScope,
        expires_at: Type.Optional(
          Nullable(
            Type.String({
              format: 'date-time',
              description: 'If absent or null, the token does not expire.',
            }),
          ),
        ),
      },
      { additionalProperties: false },
    ),
    reply: Type.Object({ ...token, token: Type.String() }),
    status: 201,
  },
  listTokens: {
    plane: 'management',
    method: 'GET',
    path: '/platform/tokens',
    scope: 'admin',
    summary: 'List platform tokens: only metadata, without text or hash',
    query: PageQuery,
    reply: page('tokens', PlatformToken),
  },
  revokeToken: {
    plane: 'management',
    method: 'DELETE',
    path: '/platform/tokens/{token_id}',
    scope: 'admin',
    audit: 'platform.token_revoked',
    summary: 'Revoke a platform token; it stops working at once',
    params: Type.Object({ token_id: Id }),
    reply: Empty,
    status: 204,
  },
} as const satisfies Routes
