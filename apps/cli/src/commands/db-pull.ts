// Brings down what a project has and this directory has not: migrations that were applied from elsewhere, and what
// was made in the database without one.
import { existsSync, mkdirSync, writeFileSync } from 'node:fs'
import { dirname, join, relative } from 'node:path'
import type { Answer, Context } from '../context.ts'
import { Failure } from '../failure.ts'
import { type MigrationFolder, nextVersion, readMigrationFolder, writeMigration } from '../migration-files.ts'
import { connect, type Platform } from '../platform.ts'
import { projectId } from '../project.ts'
import { everyRecord } from './db.ts'

export async function pull(context: Context): Promise<Answer> {
  const folder = readMigrationFolder(context.cwd, context.given.values['path'])
  const withData = context.given.switches.has('data')
  const seed = join(dirname(folder.path), 'seed.sql')
  if (withData) await confirmData(context, seed)
  const platform = connect(context)
  const id = await projectId(context, platform)
  const written = await pullRecorded(context, platform, id, folder)
  const made = await pullTheRest(platform, id, folder)
  const data = withData ? await pullData(context, platform, id, seed) : null
  const files = [...written, ...(made ? [made] : [])].map(file => `${folder.shown}/${file}`)
  return {
    data: { path: folder.shown, files, seed: data },
    text: () =>
      [...files, ...(data ? [data] : [])].map(file => `Wrote ${file}`).join('\n') ||
      `Nothing to pull: ${folder.shown} has everything.`,
    hints: made
      ? [`${made} holds what was made without a migration; it counts as applied on the project.`]
      : [],
  }
}

/** Migrations that were applied, and are not here. */
async function pullRecorded(
  { screen }: Context,
  platform: Platform,
  id: string,
  folder: MigrationFolder,
): Promise<string[]> {
  const local = new Set(folder.files.map(({ version }) => version))
  const missing = (await everyRecord(platform, id, true)).filter(({ version }) => !local.has(version))
  return missing.flatMap(({ version, name, statements }) => {
    if (statements) return writeMigration(folder, { version, name, sql: scriptOf(statements) })
    screen.warn(`${version} was recorded by another tool without its statements; it cannot be pulled.`)
    return []
  })
}

/** Cut into the same statements again, it is the same migration. */
const scriptOf = (statements: readonly string[]) => statements.map(each => `${each};\n`).join('\n')

/** What no migration accounts for becomes one; recorded first, so that no file is here that a push would run. */
async function pullTheRest(platform: Platform, id: string, folder: MigrationFolder): Promise<string | null> {
  const { sql } = await platform.db.schema({ params: { id }, query: { beyond_migrations: true } })
  if (sql === '') return null
  const recorded = await everyRecord(platform, id, false)
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

async function confirmData({ cwd, given, screen }: Context, seed: string): Promise<void> {
  if (given.switches.has('yes')) return
  const shown = relative(cwd, seed)
  const why = `--data writes every row of the project into ${shown}${existsSync(seed) ? ', replacing what is there' : ''}.`
  if (!screen.isInteractive)
    throw new Failure('confirmation_missing', why, 'Run it again with --yes if that is meant.')
  const { ask } = await import('../prompt.ts')
  screen.hint(why)
  const typed = await ask('Go on? [y/N] ')
  if (!/^y(es)?$/i.test(typed.trim())) throw new Failure('confirmation_mismatch', 'Nothing was pulled.')
}
