import type { RecordedMigration } from '@plinth/contract/db.ts'
import { everyPage } from '../page.ts'
import type { Platform } from '../platform.ts'

/** The migrations a project has recorded as applied. */
export const recordedMigrations = (
  platform: Platform,
  id: string,
  statements: boolean,
): Promise<RecordedMigration[]> =>
  everyPage(page =>
    platform.db
      .listMigrations({ params: { id }, query: { ...page, ...(statements && { statements }) } })
      .then(({ migrations, total }) => ({ items: migrations, total })),
  )
