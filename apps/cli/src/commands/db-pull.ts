// Writes files for migrations that are applied to the project but not in the folder, and one migration for
// objects that were created without one.
import { existsSync, mkdirSync, writeFileSync } from 'node:fs'
import { dirname, join, relative } from 'node:path'
import type { Answer, Context } from '../context.ts'
import { Failure } from '../failure.ts'
import {
  type MigrationFolder,
  nextVersion,
  readMigrationFolder,
  writeMigration,
} from '../migrations/folder.ts'
import { recordedMigrations } from '../migrations/records.ts'
import type { Platform } from '../platform.ts'
import { openProject } from '../project.ts'

export async function pull(context: Context): Promise<Answer> {
  const folder = readMigrationFolder(context.cwd, context.given.values['path'])
  const withData = context.given.switches.has('data')
  const seed = join(dirname(folder.path), 'seed.sql')
  if (withData) await confirmData(context, seed)
  const { platform, id } = await openProject(context)
  const written = await pullRecorded(context, platform, id, folder)
  const generated = await pullUnrecorded(platform, id, folder)
  const data = withData ? await pullData(context, platform, id, seed) : null
  const files = [...written, ...(generated ? [generated] : [])].map(file => `${folder.shown}/${file}`)
  return {
    data: { path: folder.shown, files, seed: data },
    text: () =>
      [...files, ...(data ? [data] : [])].map(file => `Wrote ${file}`).join('\n') ||
      `Nothing to pull: ${folder.shown} is complete.`,
    hints: generated
      ? [
          `${generated} contains what was created without a migration. The project has recorded it as applied.`,
        ]
      : [],
  }
}

/** Migrations that are applied but not in the folder. */
async function pullRecorded(
  { screen }: Context,
  platform: Platform,
  id: string,
  folder: MigrationFolder,
): Promise<string[]> {
  const local = new Set(folder.files.map(({ version }) => version))
  const missing = (await recordedMigrations(platform, id, true)).filter(({ version }) => !local.has(version))
  return missing.flatMap(({ version, name, statements }) => {
    if (statements) return writeMigration(folder, { version, name, sql: scriptOf(statements) })
    screen.warn(`${version} cannot be pulled: another tool recorded it without its statements.`)
    return []
  })
}

/** Splitting it gives the same statements, so the checksum is the same. */
const scriptOf = (statements: readonly string[]) => statements.map(each => `${each};\n`).join('\n')

/** Objects without a migration become one. It is recorded before the file is written, so that a push never runs it. */
async function pullUnrecorded(
  platform: Platform,
  id: string,
  folder: MigrationFolder,
): Promise<string | null> {
  const { sql } = await platform.db.schema({ params: { id }, query: { beyond_migrations: true } })
  if (sql === '') return null
  const recorded = await recordedMigrations(platform, id, false)
  const known = [...folder.files, ...recorded]
    .map(({ version }) => version)
    .filter(each => /^\d+$/.test(each))
  const migration = { version: nextVersion(known), name: 'remote_schema', sql }
  await platform.db.record({ params: { id }, body: { migrations: [migration] } })
  return writeMigration(folder, migration)
}

async function pullData(context: Context, platform: Platform, id: string, seed: string): Promise<string> {
  const { sql } = await platform.db.data({ params: { id } })
  mkdirSync(dirname(seed), { recursive: true })
  writeFileSync(seed, sql)
  return relative(context.cwd, seed)
}

async function confirmData(context: Context, seed: string): Promise<void> {
  const { cwd, given, screen } = context
  if (given.switches.has('yes')) return
  const shown = relative(cwd, seed)
  const why = `--data writes every row of the project into ${shown}${existsSync(seed) ? ', and replaces that file' : ''}.`
  if (!screen.isInteractive)
    throw new Failure('confirmation_missing', why, 'To do that, run it again with --yes.')
  const { ask } = await import('../prompt.ts')
  screen.hint(why)
  const typed = await ask(context, 'Continue? [y/N] ')
  if (!/^y(es)?$/i.test(typed.trim())) throw new Failure('confirmation_mismatch', 'Nothing was pulled.')
}
