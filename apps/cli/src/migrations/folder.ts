// The migration files of a directory: `<version>_<name>.sql` in `supabase/migrations` or `migrations`.
import { existsSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { isAbsolute, join, relative } from 'node:path'
import { Failure } from '../failure.ts'

export interface MigrationFile {
  version: string
  name: string
  sql: string
  /** Its name in the folder. */
  file: string
}

export interface MigrationFolder {
  path: string
  /** Relative to the working directory. */
  shown: string
  files: MigrationFile[]
  /** SQL files without a version in their name. */
  ignored: string[]
}

const defaultFolders = ['supabase/migrations', 'migrations']
const pattern = /^(\d+)(?:_(.*))?\.sql$/

/** A missing folder has no files, unless --path names it. */
export function readMigrationFolder(cwd: string, requested: string | undefined): MigrationFolder {
  const path = requested
    ? absolute(cwd, requested)
    : join(cwd, defaultFolders.find(each => existsSync(join(cwd, each))) ?? defaultFolders[0]!)
  const shown = relative(cwd, path) || '.'
  if (!existsSync(path)) {
    if (requested)
      throw new Failure('folder_missing', `There is no folder ${requested}.`, 'Name another with --path.')
    return { path, shown, files: [], ignored: [] }
  }
  const names = readdirSync(path, { withFileTypes: true })
    .filter(entry => entry.isFile() && entry.name.endsWith('.sql'))
    .map(entry => entry.name)
    .sort()
  const files = names.flatMap(file => {
    const [, version, name = ''] = pattern.exec(file) ?? []
    return version ? [{ version, name, file, sql: readFileSync(join(path, file), 'utf8') }] : []
  })
  rejectDuplicates(files, shown)
  return { path, shown, files, ignored: names.filter(name => !pattern.test(name)) }
}

const absolute = (cwd: string, path: string) => (isAbsolute(path) ? path : join(cwd, path))

function rejectDuplicates(files: readonly MigrationFile[], shown: string): void {
  for (const [version, duplicates] of Map.groupBy(files, each => each.version))
    if (duplicates.length > 1)
      throw new Failure(
        'migrations_ambiguous',
        `${duplicates.map(({ file }) => file).join(' and ')} in ${shown} have the same version ${version}.`,
        'Give one of them another version.',
      )
}

/** As the platform takes them. */
export const migrationsOf = ({ files }: MigrationFolder): { version: string; name: string; sql: string }[] =>
  files.map(({ version, name, sql }) => ({ version, name, sql }))

/** A sentence that names the files of these versions. */
export function editedFiles(
  { shown, files }: MigrationFolder,
  changed: readonly { version: string }[],
): string {
  const versions = new Set(changed.map(({ version }) => version))
  const names = files.filter(({ version }) => versions.has(version)).map(({ file }) => `${shown}/${file}`)
  const [were, they] = names.length === 1 ? ['was', 'it was'] : ['were', 'they were']
  return `${names.join(' and ')} ${were} edited after ${they} applied to the project.`
}

/** Returns the name of the file. */
export function writeMigration(
  folder: MigrationFolder,
  { version, name, sql }: { version: string; name: string; sql: string },
): string {
  mkdirSync(folder.path, { recursive: true })
  const file = name === '' ? `${version}.sql` : `${version}_${name.replace(/[^\p{L}\p{N}_-]+/gu, '_')}.sql`
  writeFileSync(join(folder.path, file), sql, { flag: 'wx' })
  return file
}

/** Such as `20260131093000`, and later than every known version. */
export function nextVersion(known: readonly string[], now = new Date()): string {
  const stamp = now.toISOString().replace(/\D/g, '').slice(0, 14)
  const newest = known.reduce((most, version) => (BigInt(version) > most ? BigInt(version) : most), 0n)
  return BigInt(stamp) > newest ? stamp : String(newest + 1n)
}
