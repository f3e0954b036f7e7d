import type { Static } from 'typebox'
import { PlatformRole } from './platform.ts'
import type { Routes } from './route.ts'
import { Empty, Id, Nullable, PageQuery, page, pageQuery, Timestamp } from './shapes.ts'
import { Type } from './type.ts'

const PlatformUser = Type.Object({
  id: Id,
  email: Type.String(),
  name: Type.String(),
  role: PlatformRole,
  is_active: Type.Boolean(),
  created_at: Timestamp,
  updated_at: Timestamp,
  last_login_at: Nullable(Timestamp),
})
export type PlatformUser = Static<typeof PlatformUser>

const Email = Type.String({ format: 'email', maxLength: 320 })
const Password = Type.String({ minLength: 12, maxLength: 1024, description: 'At least 12 characters.' })
const UserById = Type.Object({ user_id: Id })

const AuditEntry = Type.Object({
  id: Type.String(),
  at: Timestamp,
  actor: Type.Object({
    kind: Type.String({ description: 'admin_token, token, user, or system' }),
    id: Nullable(Type.String()),
    label: Type.String({ description: 'E-mail of a user, name of a token.' }),
  }),
  action: Type.String(),
  target: Nullable(Type.String()),
  details: Nullable(Type.String({ description: 'Why it failed, what it found, or its result.' })),
  project_id: Nullable(Type.String()),
  ip: Nullable(Type.String()),
  request_id: Nullable(Type.String()),
})
export type AuditEntry = Static<typeof AuditEntry>

const auditFilter = {
  action: Type.Optional(Type.String({ maxLength: 100 })),
  project_id: Type.Optional(Id),
  from: Type.Optional(Timestamp),
  to: Type.Optional(Timestamp),
}

export const adminApi = {
  stats: {
    plane: 'management',
    method: 'GET',
    path: '/admin/stats',
    scope: 'admin',
    summary: 'Count projects, platform users, tokens and audit entries',
    reply: Type.Object({
      projects: Type.Integer(),
      active_projects: Type.Integer(),
      suspended_projects: Type.Integer(),
      platform_users: Type.Integer(),
      active_tokens: Type.Integer(),
      audit_entries: Type.Integer(),
    }),
  },
  listAudit: {
    plane: 'management',
    method: 'GET',
    path: '/admin/audit',
    scope: 'admin',
    summary: 'List audit entries, newest first',
    query: Type.Object({ ...pageQuery, ...auditFilter }),
    reply: page('entries', AuditEntry),
  },
  exportAudit: {
    plane: 'management',
    method: 'GET',
    path: '/admin/audit/export',
    scope: 'admin',
    audit: 'audit.exported',
    summary: 'Export all matching audit entries, oldest first, as a JSON array or as CSV',
    query: Type.Object({
      ...auditFilter,
      format: Type.Optional(Type.Union([Type.Literal('json'), Type.Literal('csv')])),
    }),
    reply: Type.Array(AuditEntry),
    raw: true,
  },
  pruneAudit: {
    plane: 'management',
    method: 'POST',
    path: '/admin/audit/prune',
    scope: 'admin',
    audit: 'audit.pruned',
    summary: 'Delete audit entries and archived auth events older than the given number of days',
    query: Type.Object({
      days: Type.Optional(
        Type.Integer({ minimum: 1, maximum: 36500, description: 'Default: PLATFORM_AUDIT_RETENTION_DAYS.' }),
      ),
    }),
    reply: Type.Object({
      deleted: Type.Integer(),
      deleted_auth_events: Type.Integer(),
      days: Type.Integer(),
    }),
  },
  encryptSettingsSecrets: {
    plane: 'management',
    method: 'POST',
    path: '/admin/encrypt-settings-secrets',
    scope: 'admin',
    audit: 'platform.settings_secrets_encrypted',
    summary: 'Encrypt secrets that are stored in plain text; safe to repeat',
    reply: Type.Object({ projects_scanned: Type.Integer(), values_encrypted: Type.Integer() }),
  },
  listUsers: {
    plane: 'management',
    method: 'GET',
    path: '/admin/users',
    scope: 'admin',
    summary: 'List platform users',
    query: PageQuery,
    reply: page('users', PlatformUser),
  },
  createUser: {
    plane: 'management',
    method: 'POST',
    path: '/admin/users',
    scope: 'admin',
    audit: 'platform.user_created',
    summary: 'Create a platform user',
    body: Type.Object(
      {
        email: Email,
        password: Password,
        role: PlatformRole,
        name: Type.Optional(Type.String({ maxLength: 200 })),
      },
      { additionalProperties: false },
    ),
    reply: PlatformUser,
    status: 201,
  },
  updateUser: {
    plane: 'management',
    method: 'PATCH',
    path: '/admin/users/{user_id}',
    scope: 'admin',
    audit: 'platform.user_updated',
    summary: 'Change a platform user; a new password ends the user’s sessions',
    params: UserById,
    body: Type.Object(
      {
        email: Type.Optional(Email),
        password: Type.Optional(Password),
        role: Type.Optional(PlatformRole),
        name: Type.Optional(Type.String({ maxLength: 200 })),
        is_active: Type.Optional(Type.Boolean()),
      },
      { additionalProperties: false, minProperties: 1 },
    ),
    reply: PlatformUser,
  },
  deleteUser: {
    plane: 'management',
    method: 'DELETE',
    path: '/admin/users/{user_id}',
    scope: 'admin',
    audit: 'platform.user_deleted',
    summary: 'Delete a platform user',
    params: UserById,
    reply: Empty,
    status: 204,
  },
} as const satisfies Routes
