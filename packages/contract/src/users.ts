// Users and auth settings of a project in the management API.
import type { Static, TSchema } from 'typebox'
import { AuthSettings, RateLimits } from './auth-settings.ts'
import type { Routes } from './route.ts'
import { Empty, Id, Nullable, page, pageQuery, Text, Timestamp } from './shapes.ts'
import { NamedProvider, ProviderConfiguration, ProviderInput, ProviderTemplate } from './sign-in-providers.ts'
import { Type } from './type.ts'

const Json = Type.Record(Type.String(), Type.Unknown())
// Settings

type Patched<T> = { [K in keyof T]?: T[K] | null }
const patched = (properties: Record<string, TSchema>) =>
  Object.fromEntries(
    Object.entries(properties).map(([name, schema]) => [name, Type.Optional(Nullable(schema))]),
  )

export const AuthSettingsChange = Type.Unsafe<
  Patched<Omit<AuthSettings, 'rate_limits'>> & {
    rate_limits?: Patched<AuthSettings['rate_limits']> | null
  }
>(
  Type.Object(
    {
      ...patched(AuthSettings.properties),
      rate_limits: Type.Optional(
        Nullable(Type.Object(patched(RateLimits.properties), { additionalProperties: false })),
      ),
    },
    { additionalProperties: false, minProperties: 1 },
  ),
)
export type AuthSettingsChange = Static<typeof AuthSettingsChange>

export const ShownAuthSettings = Type.Object({
  ...AuthSettings.properties,
  providers: Type.Record(Type.String(), ProviderConfiguration),
})
export type ShownAuthSettings = Static<typeof ShownAuthSettings>

export const RotatedSigningKey = Type.Object({
  kid: Id,
  algorithm: Type.Literal('ES256'),
  created_at: Timestamp,
  former: Type.Array(Type.Object({ kid: Id, valid_until: Timestamp }), {
    description: 'Replaced keys. They verify until the last token they signed has expired.',
  }),
})
export type RotatedSigningKey = Static<typeof RotatedSigningKey>

// Users

export const User = Type.Object({
  id: Id,
  email: Nullable(Type.String({ description: 'Null for an anonymous user.' })),
  role: Type.String(),
  is_anonymous: Type.Boolean(),
  email_confirmed_at: Nullable(Timestamp),
  invited_at: Nullable(Timestamp),
  last_sign_in_at: Nullable(Timestamp),
  is_banned: Type.Boolean(),
  banned_until: Nullable(Timestamp),
  ban_reason: Nullable(Type.String()),
  providers: Type.Array(Type.String(), { description: 'The sign-in methods of the user.' }),
  app_metadata: Json,
  user_metadata: Json,
  created_at: Timestamp,
  updated_at: Timestamp,
})
export type User = Static<typeof User>

export const UserSession = Type.Object({
  id: Id,
  created_at: Timestamp,
  refreshed_at: Nullable(Timestamp),
  user_agent: Nullable(Type.String()),
  ip: Nullable(Type.String()),
  aal: Type.String(),
})
export type UserSession = Static<typeof UserSession>

export const UserInput = Type.Object(
  {
    email: Type.String({ minLength: 3, maxLength: 255 }),
    password: Type.Optional(Nullable(Type.String({ maxLength: 1024 }))),
    email_confirm: Type.Optional(
      Nullable(
        Type.Boolean({
          description: 'Whether the address counts as verified. Default: the setting auto_confirm.',
        }),
      ),
    ),
    user_metadata: Type.Optional(Nullable(Json)),
    app_metadata: Type.Optional(Nullable(Json)),
  },
  { additionalProperties: false },
)
export type UserInput = Static<typeof UserInput>

export const Ban = Type.Object(
  {
    reason: Type.Optional(Nullable(Text(1000))),
    expires_at: Type.Optional(Nullable(Timestamp)),
    duration: Type.Optional(
      Nullable(
        Type.String({
          maxLength: 50,
          pattern: '^(\\d+(\\.\\d+)?(ms|s|m|h))+$',
          description: 'a duration such as "24h" or "1h30m"',
        }),
      ),
    ),
  },
  { additionalProperties: false },
)
export type Ban = Static<typeof Ban>

// Import

export const importLimit = 1000

/** The schema of a record. An invalid record gets its own `error` and does not stop the import. */
export const ImportRecord = Type.Object({
  id: Type.Optional(Nullable(Id)),
  email: Type.String(),
  password_hash: Type.Optional(Nullable(Type.String({ description: 'bcrypt, cost 4 to 14, or empty.' }))),
  email_confirmed_at: Type.Optional(Nullable(Timestamp)),
  created_at: Type.Optional(Nullable(Timestamp)),
  raw_user_meta_data: Type.Optional(Nullable(Json)),
})
export type ImportRecord = Static<typeof ImportRecord>

export const ImportResult = Type.Object({
  email: Nullable(Type.String()),
  id: Nullable(Type.String()),
  status: Type.Enum(['created', 'skipped', 'error'] as const),
  reason: Type.Optional(Type.String({ description: 'Why it was not created.' })),
})
export type ImportResult = Static<typeof ImportResult>

export const ImportReply = Type.Object({
  imported: Type.Integer(),
  skipped: Type.Integer(),
  failed: Type.Integer(),
  results: Type.Array(ImportResult, { description: 'One per record, in the same order.' }),
})
export type ImportReply = Static<typeof ImportReply>

const ById = Type.Object({ id: Id })
const UserById = Type.Object({ id: Id, user_id: Id })

export const usersApi = {
  readSettings: {
    plane: 'management',
    method: 'GET',
    path: '/projects/{id}/auth',
    scope: 'read',
    summary: 'Read the auth settings of a project; secrets are masked',
    params: ById,
    reply: ShownAuthSettings,
  },
  changeSettings: {
    plane: 'management',
    method: 'PATCH',
    path: '/projects/{id}/auth',
    scope: 'admin',
    audit: 'auth.settings_updated',
    summary: 'Change the auth settings of a project; merged by key, null resets to the default',
    params: ById,
    body: AuthSettingsChange,
    reply: ShownAuthSettings,
  },
  saveProvider: {
    plane: 'management',
    method: 'PUT',
    path: '/projects/{id}/auth/providers',
    scope: 'admin',
    audit: 'auth.provider_saved',
    summary: 'Add or replace a sign-in provider; if client_secret is omitted, the stored one is kept',
    params: ById,
    body: ProviderInput,
    reply: NamedProvider,
  },
  removeProvider: {
    plane: 'management',
    method: 'DELETE',
    path: '/projects/{id}/auth/providers/{provider}',
    scope: 'admin',
    audit: 'auth.provider_removed',
    summary: 'Remove a sign-in provider',
    params: Type.Object({ id: Id, provider: Text(100) }),
    reply: Empty,
    status: 204,
  },
  rotateSigningKey: {
    plane: 'management',
    method: 'POST',
    path: '/projects/{id}/auth/signing-keys/rotate',
    scope: 'admin',
    audit: 'auth.signing_key_rotated',
    summary: 'Replace the ES256 key of access tokens; tokens of the former key stay valid until they expire',
    params: ById,
    reply: RotatedSigningKey,
  },
  listProviderTemplates: {
    plane: 'management',
    method: 'GET',
    path: '/auth/templates',
    scope: 'read',
    showsOwn: true,
    summary: 'List the providers that can be added, with their URLs and default scopes',
    query: Type.Object(pageQuery),
    reply: page('templates', ProviderTemplate),
  },
  list: {
    plane: 'management',
    method: 'GET',
    path: '/projects/{id}/users',
    scope: 'read',
    summary: 'List the users of a project, newest first; `search` is part of an e-mail address',
    params: ById,
    query: Type.Object({ ...pageQuery, search: Type.Optional(Text(255)) }),
    reply: page('users', User),
  },
  create: {
    plane: 'management',
    needsSpace: 'disk',
    method: 'POST',
    path: '/projects/{id}/users',
    scope: 'admin',
    audit: 'user.created',
    summary: 'Create a user; no mail is sent',
    params: ById,
    body: UserInput,
    reply: User,
    status: 201,
  },
  import: {
    plane: 'management',
    needsSpace: 'disk',
    method: 'POST',
    path: '/projects/{id}/users/import',
    scope: 'admin',
    audit: 'user.imported',
    summary: 'Import up to 1000 users with their ids, times and password hashes',
    params: ById,
    body: Type.Object(
      { users: Type.Array(Type.Union([ImportRecord, Type.Unknown()]), { maxItems: importLimit }) },
      { additionalProperties: false },
    ),
    bodyLimit: 8 * 1024 * 1024,
    maxValues: 200_000,
    reply: ImportReply,
  },
  read: {
    plane: 'management',
    method: 'GET',
    path: '/projects/{id}/users/{user_id}',
    scope: 'read',
    summary: 'Read one user',
    params: UserById,
    reply: User,
  },
  remove: {
    plane: 'management',
    method: 'DELETE',
    path: '/projects/{id}/users/{user_id}',
    scope: 'admin',
    audit: 'user.deleted',
    summary: 'Delete a user and all its sessions; their tokens stop working',
    params: UserById,
    reply: Empty,
    status: 204,
  },
  ban: {
    plane: 'management',
    method: 'POST',
    path: '/projects/{id}/users/{user_id}/ban',
    scope: 'admin',
    audit: 'user.banned',
    summary: 'Ban a user; without `expires_at` or `duration` the ban is permanent',
    params: UserById,
    body: Type.Union([Ban, Type.Null()]),
    reply: User,
  },
  unban: {
    plane: 'management',
    method: 'POST',
    path: '/projects/{id}/users/{user_id}/unban',
    scope: 'admin',
    audit: 'user.unbanned',
    summary: 'Lift the ban of a user',
    params: UserById,
    reply: User,
  },
  listSessions: {
    plane: 'management',
    method: 'GET',
    path: '/projects/{id}/users/{user_id}/sessions',
    scope: 'read',
    summary: 'List the sessions of a user, newest first',
    params: UserById,
    query: Type.Object(pageQuery),
    reply: page('sessions', UserSession),
  },
  revokeSessions: {
    plane: 'management',
    method: 'DELETE',
    path: '/projects/{id}/users/{user_id}/sessions',
    scope: 'admin',
    audit: 'user.sessions_revoked',
    summary: 'End all sessions of a user',
    params: UserById,
    reply: Empty,
    status: 204,
  },
  revokeSession: {
    plane: 'management',
    method: 'DELETE',
    path: '/projects/{id}/users/{user_id}/sessions/{token}',
    scope: 'admin',
    audit: 'user.session_revoked',
    summary: 'End the session with this id',
    params: Type.Object({ id: Id, user_id: Id, token: Id }),
    reply: Empty,
    status: 204,
  },
} as const satisfies Routes
