// Backups of projects, their schedule and their verification.
import type { Static } from 'typebox'
import { ProjectName, ProjectSlug } from './projects.ts'
import type { Routes } from './route.ts'
import { Id, Nullable, PageQuery, page, Timestamp } from './shapes.ts'
import { Type } from './type.ts'

export const backupKinds = ['manual', 'scheduled', 'upgrade', 'before_restore'] as const
export type BackupKind = (typeof backupKinds)[number]
export const backupStatuses = ['running', 'done', 'failed'] as const
export type BackupStatus = (typeof backupStatuses)[number]

export const minutes = { shortest: 15, longest: 525_600 }

const Bytes = Type.Integer({ minimum: 0 })

export const BackupProgress = Type.Object({
  step: Type.String({ description: 'What is being done, such as `rows` or `files`.' }),
  bytes: { ...Bytes, description: 'Bytes that were read in this step.' },
})
export type BackupProgress = Static<typeof BackupProgress>

export const Backup = Type.Object({
  id: Id,
  status: Type.Enum(backupStatuses),
  kind: Type.Enum(backupKinds),
  created_at: Timestamp,
  finished_at: Nullable(Timestamp),
  bytes: { ...Bytes, description: 'Bytes of the database and of the files, before compression.' },
  stored_bytes: {
    ...Bytes,
    description: 'Bytes that this backup has added to the store, compressed and encrypted.',
  },
  files: { ...Bytes, description: 'Files of the project.' },
  schema_version: Type.String(),
  verified_at: Nullable(Timestamp),
  verify_error: Nullable(Type.String({ description: 'Why it cannot be verified, or what differed.' })),
  error: Nullable(Type.String({ description: 'Why it has failed.' })),
  progress: Nullable(BackupProgress),
})
export type Backup = Static<typeof Backup>

const Minutes = Type.Integer({ minimum: minutes.shortest, maximum: minutes.longest })
const Days = Type.Integer({ minimum: 1, maximum: 36_500 })
const Kept = Type.Integer({ minimum: 1, maximum: 1000 })

const settingsFields = {
  enabled: Type.Boolean({ description: 'Whether backups are made at intervals.' }),
  interval_minutes: { ...Minutes, description: 'The time between two backups.' },
  retain_days: Nullable({ ...Days, description: 'Older backups are removed.' }),
  retain_count: Nullable({ ...Kept, description: 'Backups to keep.' }),
  verify_enabled: Type.Boolean({ description: 'Whether backups are verified at intervals.' }),
  verify_interval_minutes: { ...Minutes, description: 'The time between two verifications of a backup.' },
}

export const BackupSettings = Type.Object(settingsFields)
export type BackupSettings = Static<typeof BackupSettings>

export const restoreStatuses = ['running', 'done', 'failed', 'undone'] as const

export const Restore = Type.Object({
  id: Id,
  status: Type.Enum(restoreStatuses),
  project_id: { ...Id, description: 'The project of the backup.' },
  new_project_id: Nullable({ ...Id, description: 'The project that is made from the backup.' }),
  backup_id: Id,
  before_backup_id: Nullable({
    ...Id,
    description: 'The backup of the state before, which is made first; null for a new project.',
  }),
  created_at: Timestamp,
  finished_at: Nullable(Timestamp),
  bytes: Nullable({
    ...Bytes,
    description:
      'Bytes of the state that is restored, before compression. Null of restores that an earlier release has recorded and whose backup was removed.',
  }),
  undo_until: Nullable({ ...Timestamp, description: 'Until then the restore can be undone.' }),
  error: Nullable(
    Type.String({ description: 'Why it has failed; of one that is done, what has failed after it.' }),
  ),
  progress: Nullable(BackupProgress),
})
export type Restore = Static<typeof Restore>

/** The only answer that contains the secrets of a new project. */
export const MadeProject = Type.Object({
  id: Id,
  name: Type.String(),
  slug: Type.String(),
  status: Type.Literal('creating'),
  api_url: Type.String(),
  anon_key: Type.String(),
  service_role_key: Type.String(),
  jwt_secret: Type.String(),
})
export type MadeProject = Static<typeof MadeProject>

export const DeletedProject = Type.Object({
  id: Id,
  name: Type.String(),
  slug: Type.String(),
  deleted_at: Timestamp,
  backups: Type.Integer({ description: 'Its backups that are still kept.' }),
  newest_backup_id: Id,
  kept_until: { ...Timestamp, description: 'After this time all of them are removed.' },
})
export type DeletedProject = Static<typeof DeletedProject>

const NewProject = Type.Object(
  { name: ProjectName, slug: Type.Optional(ProjectSlug) },
  { additionalProperties: false },
)
export type NewProject = Static<typeof NewProject>

const byProject = Type.Object({ id: Id })
const byBackup = Type.Object({ id: Id, backup_id: Id })

export const backupsApi = {
  list: {
    plane: 'management',
    method: 'GET',
    path: '/projects/{id}/backups',
    scope: 'read',
    summary: 'List the backups of a project, the newest first',
    params: byProject,
    query: PageQuery,
    reply: page('backups', Backup),
  },
  create: {
    plane: 'management',
    method: 'POST',
    path: '/projects/{id}/backups',
    scope: 'admin',
    audit: 'backups.created',
    summary: 'Start a backup of the whole project; the list shows its progress',
    params: byProject,
    status: 202,
    reply: Backup,
  },
  settings: {
    plane: 'management',
    method: 'GET',
    path: '/projects/{id}/backups/settings',
    scope: 'read',
    summary: 'Read when backups are made, verified and removed',
    params: byProject,
    reply: BackupSettings,
  },
  configure: {
    plane: 'management',
    method: 'PUT',
    path: '/projects/{id}/backups/settings',
    scope: 'admin',
    audit: 'backups.configured',
    summary: 'Set when backups are made, verified and removed; missing fields keep their values',
    params: byProject,
    body: Type.Object(
      {
        enabled: Type.Optional(settingsFields.enabled),
        interval_minutes: Type.Optional(settingsFields.interval_minutes),
        retain_days: Type.Optional(settingsFields.retain_days),
        retain_count: Type.Optional(settingsFields.retain_count),
        verify_enabled: Type.Optional(settingsFields.verify_enabled),
        verify_interval_minutes: Type.Optional(settingsFields.verify_interval_minutes),
      },
      { additionalProperties: false },
    ),
    reply: BackupSettings,
  },
  verify: {
    plane: 'management',
    method: 'POST',
    path: '/projects/{id}/backups/{backup_id}/verify',
    scope: 'admin',
    audit: 'backups.verification_started',
    summary: 'Restore a backup aside and compare it; the list shows the result',
    params: byBackup,
    status: 202,
    reply: Backup,
  },
  restore: {
    plane: 'management',
    method: 'POST',
    path: '/projects/{id}/backups/{backup_id}/restore',
    scope: 'admin',
    audit: 'backups.restore_started',
    summary: 'Restore a backup in the place of the project or as a new project, after it was verified aside',
    params: byBackup,
    body: Type.Union([
      Type.Object(
        {
          new_project: Type.Optional({
            ...NewProject,
            description: 'Makes a new project instead. The project of the backup may be a deleted one.',
          }),
        },
        { additionalProperties: false },
      ),
      Type.Null(),
    ]),
    status: 202,
    reply: Type.Object({ restore: Restore, project: Type.Optional(MadeProject) }),
  },
  listDeleted: {
    plane: 'management',
    method: 'GET',
    path: '/admin/deleted-projects',
    scope: 'admin',
    summary: 'List deleted projects whose backups are kept and can be restored as new projects',
    query: PageQuery,
    reply: page('projects', DeletedProject),
  },
  restores: {
    plane: 'management',
    method: 'GET',
    path: '/projects/{id}/restores',
    scope: 'admin',
    summary: 'List the restores of a project, the newest first',
    params: byProject,
    query: PageQuery,
    reply: page('restores', Restore),
  },
  undo: {
    plane: 'management',
    method: 'POST',
    path: '/projects/{id}/restores/{restore_id}/undo',
    scope: 'admin',
    audit: 'backups.undo_started',
    summary: 'Put the state before a restore back, within 24 hours',
    params: Type.Object({ id: Id, restore_id: Id }),
    status: 202,
    reply: Type.Object({ restore: Restore }),
  },
} as const satisfies Routes
