// Finds backups and restores by their id in the lists of the platform.
import type { Backup, Restore } from '@plinth/contract/backups.ts'
import { Failure } from '../failure.ts'
import type { Platform } from '../platform.ts'
import { checkedId } from '../webhooks/given.ts'

const pageSize = 100

export interface ProjectOf {
  platform: Platform
  id: string
}

export const findBackup = ({ platform, id }: ProjectOf, backupId: string): Promise<Backup> =>
  find(
    backupId,
    query =>
      platform.backups
        .list({ params: { id }, query })
        .then(({ backups, total }) => ({ items: backups, total })),
    new Failure(
      'backup_not_found',
      `The project has no backup ${backupId}.`,
      'plinth backup list shows them.',
    ),
  )

export const findRestore = ({ platform, id }: ProjectOf, restoreId: string): Promise<Restore> =>
  find(
    restoreId,
    query =>
      platform.backups
        .restores({ params: { id }, query })
        .then(({ restores, total }) => ({ items: restores, total })),
    new Failure(
      'restore_not_found',
      `The project has no restore ${restoreId}.`,
      'plinth backup restores shows them.',
    ),
  )

/** Mostly the newest one is asked for, so the list is read only as far as needed. */
async function find<T extends { id: string }>(
  id: string,
  read: (query: { limit: number; offset: number }) => Promise<{ items: T[]; total: number }>,
  missing: Failure,
): Promise<T> {
  for (let offset = 0; ; offset += pageSize) {
    const { items, total } = await read({ limit: pageSize, offset })
    const found = items.find(each => each.id === id)
    if (found) return found
    if (offset + pageSize >= total) throw missing
  }
}

export const backupIn = (operands: Readonly<Record<string, string | undefined>>): string =>
  checkedId(operands['backup']!, 'backup', 'plinth backup list shows the ids.')
