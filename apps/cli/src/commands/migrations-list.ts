import type { Answer, Context } from '../context.ts'
import { editedFiles, migrationsOf, readMigrationFolder } from '../migrations/folder.ts'
import { recordedMigrations } from '../migrations/records.ts'
import { minute, table } from '../print.ts'
import { openProject } from '../project.ts'

/** Every migration of the project and of the folder. */
export async function list(context: Context): Promise<Answer> {
  const folder = readMigrationFolder(context.cwd, context.given.values['path'])
  const { platform, id } = await openProject(context)
  const recorded = await recordedMigrations(platform, id, false)
  const changed =
    folder.files.length > 0
      ? (await platform.db.plan({ params: { id }, body: { migrations: migrationsOf(folder) } })).changed
      : []
  if (changed.length > 0) context.screen.warn(editedFiles(folder, changed))
  const byVersion = new Map(recorded.map(each => [each.version, each]))
  const local = new Map(folder.files.map(each => [each.version, each]))
  const migrations = [...new Set([...byVersion.keys(), ...local.keys()])].sort(asNumbers).map(version => ({
    version,
    name: byVersion.get(version)?.name || (local.get(version)?.name ?? ''),
    applied_at: byVersion.get(version)?.applied_at ?? null,
    is_applied: byVersion.has(version),
    is_local: local.has(version),
    is_changed: changed.some(each => each.version === version),
  }))
  return {
    data: { migrations, total: migrations.length },
    hints: migrations.length === 0 ? [`No migrations yet: write ${folder.shown}/<version>_<name>.sql.`] : [],
    text: paint =>
      migrations.length === 0
        ? ''
        : table(
            paint,
            ['VERSION', 'NAME', 'APPLIED', 'HERE'],
            migrations.map(each => [
              each.version,
              each.name,
              each.is_applied ? (each.applied_at === null ? 'yes' : minute(each.applied_at)) : 'no',
              each.is_changed ? 'changed' : each.is_local ? 'yes' : 'no',
            ]),
          ),
  }
}

const asNumbers = (a: string, b: string) =>
  /^\d+$/.test(a) && /^\d+$/.test(b) ? Number(BigInt(a) - BigInt(b)) || (a < b ? -1 : 1) : a < b ? -1 : 1
