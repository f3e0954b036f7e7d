// The upgrade of the platform and its projects to the installed release.
import type { Static } from 'typebox'
import type { Routes } from './route.ts'
import { Id, Nullable, Timestamp } from './shapes.ts'
import { Type } from './type.ts'

const Bytes = Type.Integer({ minimum: 0 })

export const Images = Type.Object({
  plinth: Type.String(),
  node: Type.String(),
  postgres: Type.String(),
})
export type Images = Static<typeof Images>

const Migrations = Type.Array(Type.String())

export const UpgradePlan = Type.Object({
  target_version: Type.String(),
  current_version: Nullable(
    Type.String({ description: 'The release that has run last; null if it did not record that.' }),
  ),
  images: { ...Images, description: 'The versions that the target consists of.' },
  platform_migrations: { ...Migrations, description: 'Pending migrations of the control database.' },
  control_snapshot: Nullable(
    Type.Object({ database_bytes: Bytes }, { description: 'The backup that is made of it; null if none.' }),
  ),
  projects: Type.Array(
    Type.Object({
      project_id: Id,
      name: Type.String(),
      migrations: { ...Migrations, description: 'Pending migrations, and functions that are applied again.' },
      snapshot: Nullable(
        Type.Object(
          { kind: Type.Literal('upgrade'), database_bytes: Bytes },
          {
            description:
              'The backup that is made of it; null if none, because an upgrade is continued that has one or has no need of it.',
          },
        ),
      ),
      error: Nullable(
        Type.String({
          description:
            'Why its migrations cannot be read, or why they failed in the upgrade that is continued.',
        }),
      ),
    }),
    { description: 'All active and suspended projects; none if nothing is pending.' },
  ),
})
export type UpgradePlan = Static<typeof UpgradePlan>

export const UpgradeManifest = Type.Object({
  id: Nullable(Id),
  status: Type.Enum(['running', 'done', 'failed'] as const, {
    description:
      '`failed` if it ended without all projects. It becomes `done` when retries have upgraded the others.',
  }),
  started_at: { ...Timestamp, description: 'Before the first backup.' },
  finished_at: Nullable(Timestamp),
  version: Type.String(),
  prior_version: Nullable(Type.String()),
  prior_images: Nullable(Images),
  snapshots: Type.Record(Type.String(), Id, { description: 'The backup of each project, by project.' }),
  snapshot_bytes: Type.Record(Type.String(), Bytes, {
    description: 'Bytes of those of these backups that still exist, before compression, by project.',
  }),
  control_backup_id: Nullable({ ...Id, description: 'The backup of the control database.' }),
  done: Type.Array(Id, { description: 'Projects that are up to date.' }),
  failed: Type.Array(Type.Object({ project_id: Id, error: Type.String() })),
  pending: Type.Array(Id, { description: 'Projects that are not upgraded yet.' }),
})
export type UpgradeManifest = Static<typeof UpgradeManifest>

export const UpgradeProgress = Type.Object({
  step: Type.String({ description: 'What is being done, such as `backup` or `migration`.' }),
  project_id: Nullable(Id),
  done: Type.Integer({ minimum: 0, description: 'Projects that have passed this step.' }),
  total: Type.Integer({ minimum: 0 }),
  bytes: { ...Bytes, description: 'Bytes that were read for the backup that is being made.' },
})
export type UpgradeProgress = Static<typeof UpgradeProgress>

export const UpgradeAnswer = Type.Object({
  executed: Type.Boolean(),
  plan: UpgradePlan,
  manifest: Nullable(UpgradeManifest),
})
export type UpgradeAnswer = Static<typeof UpgradeAnswer>

export const upgradeApi = {
  run: {
    plane: 'management',
    method: 'POST',
    path: '/admin/platform/upgrade',
    scope: 'admin',
    audit: 'platform.upgrade_executed',
    auditedByHandler: true,
    raw: true,
    summary: 'Plan the upgrade to the installed release, or execute it: back up all projects, then migrate',
    query: Type.Object({
      target: Type.Optional(
        Type.String({ maxLength: 100, description: 'A version; default the installed one.' }),
      ),
      execute: Type.Optional(Type.Boolean({ description: 'Default false: nothing is changed.' })),
    }),
    reply: UpgradeAnswer,
  },
  read: {
    plane: 'management',
    method: 'GET',
    path: '/admin/platform/upgrade',
    scope: 'admin',
    summary: 'Read the last upgrade, and the progress of one that this node executes',
    reply: Type.Object({ manifest: Nullable(UpgradeManifest), progress: Nullable(UpgradeProgress) }),
  },
} as const satisfies Routes
