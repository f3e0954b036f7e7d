// Recovery of a project to a time, from base backups and the write-ahead log of the embedded database.
import type { Static } from 'typebox'
import { BackupProgress } from './backups.ts'
import type { Routes } from './route.ts'
import { Id, Nullable, PageQuery, page, Timestamp } from './shapes.ts'
import { Type } from './type.ts'

export const pitrStatuses = [
  'pending',
  'preparing',
  'prepared',
  'cutting_over',
  'done',
  'failed',
  'expired',
] as const
export type PitrStatus = (typeof pitrStatuses)[number]

const Bytes = Type.Integer({ minimum: 0 })

export const PitrWindow = Type.Object({
  from: Timestamp,
  to: { ...Timestamp, description: 'Every time before it can be recovered.' },
})
export type PitrWindow = Static<typeof PitrWindow>

export const PitrBaseBackup = Type.Object({
  id: Id,
  finished_at: Timestamp,
  bytes: { ...Bytes, description: 'Bytes of all projects, before compression.' },
})
export type PitrBaseBackup = Static<typeof PitrBaseBackup>

export const restorePointKinds = ['upgrade', 'restore', 'reset'] as const

export const RestorePoint = Type.Object({
  kind: Type.Enum(restorePointKinds),
  at: { ...Timestamp, description: 'Just before it happened.' },
})
export type RestorePoint = Static<typeof RestorePoint>

export const RestorePoints = Type.Object({
  enabled: Type.Boolean(),
  reason: Type.Optional(Type.String({ description: 'Why it is not enabled.' })),
  window: Type.Optional(
    Nullable({ ...PitrWindow, description: 'The latest times that can be recovered without a gap.' }),
  ),
  windows: Type.Optional(
    Type.Array(PitrWindow, { description: 'All of them. Times between two cannot be recovered.' }),
  ),
  base_backups: Type.Optional(Type.Array(PitrBaseBackup)),
  points: Type.Optional(
    Type.Array(RestorePoint, { description: 'Times before the state of the project was replaced.' }),
  ),
})
export type RestorePoints = Static<typeof RestorePoints>

export const PitrPreview = Type.Object({
  target_time: Timestamp,
  window: PitrWindow,
  base_backup: PitrBaseBackup,
  wal: Type.Object({ from_lsn: Type.String(), to_lsn: Type.String(), segments: Bytes, bytes: Bytes }),
  data_loss: Type.Object({
    seconds: Type.Number({ minimum: 0, description: 'From the time until now.' }),
    wal_bytes: { ...Bytes, description: 'WAL of all projects since then, at most.' },
  }),
  estimated_seconds: Type.Number({ minimum: 0 }),
  warnings: Type.Array(Type.String()),
})
export type PitrPreview = Static<typeof PitrPreview>

export const PitrJob = Type.Object({
  id: Id,
  status: Type.Enum(pitrStatuses),
  target_time: Timestamp,
  created_at: Timestamp,
  prepared_at: Nullable({ ...Timestamp, description: 'When the copy was recovered and verified.' }),
  finished_at: Nullable(Timestamp),
  bytes: Nullable({
    ...Bytes,
    description:
      'Bytes of the database and of the files at that time, before compression; null until the copy is prepared.',
  }),
  expires_at: Nullable({ ...Timestamp, description: 'Until then a prepared copy waits for the cutover.' }),
  restore_id: Nullable({ ...Id, description: 'After the cutover: the restore by which it can be undone.' }),
  error: Nullable(Type.String({ description: 'Why it has failed. The project is unchanged then.' })),
  warnings: Type.Array(Type.String()),
  progress: Nullable(BackupProgress),
})
export type PitrJob = Static<typeof PitrJob>

const byProject = Type.Object({ id: Id })
const TargetTime = Type.String({
  maxLength: 40,
  description: 'a time with an offset, such as 2030-01-31T10:00:00.123456Z',
})

export const pitrApi = {
  restorePoints: {
    plane: 'management',
    method: 'GET',
    path: '/projects/{id}/pitr/restore-points',
    scope: 'read',
    summary: 'Read to which times a project can be recovered',
    params: byProject,
    reply: RestorePoints,
  },
  preview: {
    plane: 'management',
    method: 'GET',
    path: '/projects/{id}/pitr/restore/preview',
    scope: 'read',
    summary: 'Show what a recovery to a time would use, take and lose; changes nothing',
    params: byProject,
    query: Type.Object({ target_time: TargetTime }),
    reply: PitrPreview,
  },
  restore: {
    plane: 'management',
    method: 'POST',
    path: '/projects/{id}/pitr/restore',
    scope: 'admin',
    audit: 'pitr.restore_started',
    summary: 'Recover a project to a time, aside; the operator cuts over on the host: plinth pitr cutover',
    params: byProject,
    body: Type.Object({ target_time: TargetTime }, { additionalProperties: false }),
    status: 202,
    reply: Type.Object({ job: Type.Object({ id: Id, status: Type.Enum(pitrStatuses) }) }),
  },
  jobs: {
    plane: 'management',
    method: 'GET',
    path: '/projects/{id}/pitr/jobs',
    scope: 'admin',
    summary: 'List the recoveries of a project to a time, the newest first',
    params: byProject,
    query: PageQuery,
    reply: page('jobs', PitrJob),
  },
} as const satisfies Routes
