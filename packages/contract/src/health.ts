import type { Static } from 'typebox'
import type { Routes } from './route.ts'
import { Id, Nullable, Timestamp } from './shapes.ts'
import { Type } from './type.ts'

export const backupProblemKinds = ['unverifiable', 'interrupted', 'unverified'] as const

export const BackupProblem = Type.Object({
  backup_id: Id,
  project_id: Id,
  kind: Type.Enum(backupProblemKinds, {
    description:
      'It differs or is damaged; its verification was interrupted; or it was not verified within twice its interval.',
  }),
  created_at: Timestamp,
  verified_at: Nullable(Timestamp),
  verify_error: Nullable(Type.String({ description: 'Why it cannot be verified, or what differed.' })),
  differences: Type.Record(Type.String(), Type.Integer(), {
    description: 'How many there are of each kind, such as `rows`.',
  }),
})
export type BackupProblem = Static<typeof BackupProblem>

const ServiceHealth = Type.Object({
  status: Type.String({ description: 'ok, degraded or down' }),
  detail: Type.Optional(Type.String()),
  problems: Type.Optional(
    Type.Array(BackupProblem, {
      description:
        'Of `backups`, with a credential of read scope on the platform: those that cannot be verified first, then the newest.',
    }),
  ),
})
export type ServiceHealth = Static<typeof ServiceHealth>

export const Health = Type.Object({
  status: Type.String({ description: 'ok, or unavailable with HTTP 503' }),
  database: Type.String({ description: 'ok or down' }),
  version: Type.String(),
})
export type Health = Static<typeof Health>

export const ServicesHealth = Type.Object({
  status: Type.String({ description: 'ok, degraded (warnings), or unavailable with HTTP 503' }),
  warnings: Type.Array(Type.String()),
  services: Type.Record(Type.String(), ServiceHealth),
  version: Type.String(),
})
export type ServicesHealth = Static<typeof ServicesHealth>

export const healthApi = {
  health: {
    plane: 'management',
    method: 'GET',
    path: '/health',
    scope: 'none',
    atRoot: true,
    raw: true,
    summary: 'Whether the platform and its database answer',
    reply: Health,
  },
  services: {
    plane: 'management',
    method: 'GET',
    path: '/health/services',
    scope: 'none',
    fuller: 'read',
    neverRefuses: true,
    atRoot: true,
    raw: true,
    summary:
      'Read the status of every part of the platform, and with a credential which backups cannot be verified and why',
    reply: ServicesHealth,
  },
  openapi: {
    plane: 'management',
    method: 'GET',
    path: '/openapi.json',
    scope: 'none',
    raw: true,
    summary: 'OpenAPI description of this API',
    reply: Type.Record(Type.String(), Type.Unknown()),
  },
} as const satisfies Routes
