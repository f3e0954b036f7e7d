import type { ErrorMeaning } from './error-meaning.ts'

export const backupsErrors = {
  backup_not_found: { status: 404, meaning: 'The project has no backup with this id; old ones are removed.' },
  backup_quota_exceeded: {
    status: 413,
    meaning: 'The backups of the project take as much space as its quota `max_backup_size_mb` allows.',
  },
  backup_unusable: {
    status: 409,
    meaning: 'Backups: it is running or has failed, so it can be neither verified nor restored.',
  },
  insufficient_space: {
    status: 507,
    meaning:
      'Backups and branches: the disk of the embedded Postgres has less free space than a restore or a copy needs, 2.2 times the size of the database.',
  },
  restore_not_found: { status: 404, meaning: 'The project has no restore with this id.' },
  restore_not_undoable: {
    status: 409,
    meaning:
      'Backups: only the last restore of a project can be undone, within 24 hours; restore its `before_backup_id` instead.',
  },
} as const satisfies Record<string, ErrorMeaning>
