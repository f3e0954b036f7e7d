import type { ErrorMeaning } from './error-meaning.ts'

export const pitrErrors = {
  pitr_unavailable: {
    status: 409,
    meaning: 'Recovery to a time is off, or the database is not the embedded one; use backups.',
  },
  pitr_archive_behind: {
    status: 503,
    meaning: 'Recovery to a time: the archive has not received the last changes yet; try again.',
  },
  target_in_future: { status: 422, meaning: 'Recovery to a time: the time is in the future.' },
  target_outside_window: {
    status: 422,
    meaning:
      'Recovery to a time: the time is not in the window of the project; `window` has the times that are.',
  },
  wal_gap: {
    status: 422,
    meaning:
      'Recovery to a time: the changes of this time were lost, or the instance was recovered to another time then; `window` has the nearest times.',
  },
} as const satisfies Record<string, ErrorMeaning>
