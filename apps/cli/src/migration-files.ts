// The migrations of a directory: `supabase/migrations`, or `migrations`, one file `<version>_<name>.sql` each.
import { existsSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { isAbsolute, join, relative } from 'node:path'
import { Failure } from './failure.ts'

export interface MigrationFile {
  version: string
  name: string
  sql: string
  /** Its name in the folder. */
  file: string
}

export interface MigrationFolder {
  path: string
  /** As to be shown: from the working directory. */
  shown: string
  files: MigrationFile[]
  /** SQL that is no migration by its name. */
  ignored: string[]
}

const usual = ['supabase/migrations', 'migrations']
const pattern = /^(\d+)(?:_(.*))?\.sql$/

/** A folder that is not there is one without files, unless it was asked for by name. */
export function readMigrationFolder(cwd: string, asked: string | undefined): MigrationFolder {
  const path = asked
    ? place(cwd, asked)
    : join(cwd, usual.find(each => existsSync(join(cwd, each))) ?? usual[0]!)
  const shown = relative(cwd, path) || '.'
  if (!existsSync(path)) {
    if (asked)
      throw new Failure('folder_missing', `There is no folder ${asked}.`, 'Name another with --path.')
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
  refuseTwins(files, shown)
  return { path, shown, files, ignored: names.filter(name => !pattern.test(name)) }
}

const place = (cwd: string, path: string) => (isAbsolute(path) ? path : join(cwd, path))

function refuseTwins(files: readonly MigrationFile[], shown: string): void {
  for (const [version, twins] of Map.groupBy(files, each => each.version))
    if (twins.length > 1)
      throw new Failure(
        'migrations_ambiguous',
        `${twins.map(({ file }) => file).join(' and ')} in ${shown} have the same version ${version}.`,
        'Give one of them another version.',
      )
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

/** `20260131093000`, and later than every version there is. */
export function nextVersion(known: readonly string[], now = new Date()): string {
  const stamp = now.toISOString().replace(/\D/g, '').slice(0, 14)
  const newest = known.reduce((most, version) => (BigInt(version) > most ? BigInt(version) : most), 0n)
  return BigInt(stamp) > newest ? stamp : String(newest + 1n)
}
