// Applies the migrations of a folder to a project, or shows which ones it would apply.
import { ReplyError } from '@plinth/contract/client.ts'
import type { Plan, Pushed } from '@plinth/contract/db.ts'
import type { Answer, Context } from '../context.ts'
import { Failure } from '../failure.ts'
import { editedFiles, type MigrationFolder, migrationsOf, readMigrationFolder } from '../migrations/folder.ts'
import { type Paint, table } from '../print.ts'
import { openProject } from '../project.ts'

export const push = (context: Context) =>
  context.given.switches.has('apply') ? apply(context) : showPlan(context)

export async function apply(context: Context): Promise<Answer> {
  const folder = folderToPush(context)
  const { platform, id } = await openProject(context)
  const request = { params: { id }, body: { migrations: migrationsOf(folder) } }
  const pushed = await platform.db.push(request).catch(async error => {
    if (!(error instanceof ReplyError) || error.code !== 'migration_changed') throw error
    // The error has the versions only in its text. The plan lists them, so the message can name the files.
    throwIfEdited(folder, await platform.db.plan(request), error)
    throw error
  })
  for (const { version, out_of_order } of pushed.applied)
    if (out_of_order) context.screen.warn(`${version} was applied after newer migrations.`)
  return {
    data: { path: folder.shown, applied: pushed.applied, skipped: pushed.skipped },
    text: paint => appliedText(paint, pushed),
  }
}

async function showPlan(context: Context): Promise<Answer> {
  const folder = folderToPush(context)
  const { platform, id } = await openProject(context)
  const plan = await platform.db.plan({ params: { id }, body: { migrations: migrationsOf(folder) } })
  throwIfEdited(folder, plan)
  if (plan.missing.length > 0) {
    const versions = plan.missing.map(({ version }) => version).join(', ')
    context.screen.warn(`Applied, but not in this folder: ${versions}. plinth db pull writes them.`)
  }
  return {
    data: { path: folder.shown, ...plan },
    text: paint => planText(paint, plan),
    hints: plan.pending.length > 0 ? ['Nothing was changed. plinth db push --apply applies them.'] : [],
  }
}

function folderToPush({ cwd, given, screen }: Context): MigrationFolder {
  const folder = readMigrationFolder(cwd, given.values['path'])
  for (const file of folder.ignored)
    screen.warn(
      `${folder.shown}/${file} is not applied: its name does not begin with a version (<digits>_<name>.sql).`,
    )
  if (folder.files.length > 0) return folder
  throw new Failure(
    'migrations_missing',
    `There are no migrations in ${folder.shown}.`,
    'Write one, such as supabase/migrations/20260131093000_first.sql, or name the folder with --path.',
  )
}

function throwIfEdited(folder: MigrationFolder, { changed }: Plan, cause?: unknown): void {
  if (changed.length === 0) return
  throw new Failure(
    'migration_changed',
    `${editedFiles(folder, changed)} Nothing was applied.`,
    'Restore the file and write the change as a new migration. If the database is local and its rows may be lost, plinth db reset applies the files as they are now.',
    cause,
  )
}

function appliedText(paint: Paint, { applied, skipped }: Pushed): string {
  if (applied.length === 0) return nothingToApply(skipped.length)
  return table(
    paint,
    ['APPLIED', 'NAME', 'STATEMENTS', 'MS'],
    applied.map(each => [each.version, each.name, each.statements, each.duration_ms]),
  )
}

function planText(paint: Paint, { pending, skipped }: Plan): string {
  if (pending.length === 0) return nothingToApply(skipped.length)
  const note = ({ out_of_order, has_transaction }: Plan['pending'][number]) =>
    [out_of_order && 'older than the newest applied', !has_transaction && 'without a transaction']
      .filter(Boolean)
      .join(', ')
  return table(
    paint,
    ['TO APPLY', 'NAME', 'STATEMENTS', 'NOTE'],
    pending.map(each => [each.version, each.name, each.statements, note(each)]),
  )
}

const nothingToApply = (count: number) => `Nothing to apply: all ${count} migrations are applied already.`
