// Migrations of this directory and the schema of a project: one follows the other.
import type { Applied, Plan, RecordedMigration } from '@plinth/contract/db.ts'
import type { Answer, Context } from '../context.ts'
import { Failure } from '../failure.ts'
import { type MigrationFolder, readMigrationFolder } from '../migration-files.ts'
import { everyPage } from '../page.ts'
import { connect, type Platform } from '../platform.ts'
import { clean, minute, type Paint, table } from '../print.ts'
import { projectId } from '../project.ts'

export async function push(context: Context): Promise<Answer> {
  return context.given.switches.has('apply') ? apply(context) : showPlan(context)
}

export async function apply(context: Context): Promise<Answer> {
  const folder = folderWithFiles(context)
  const platform = connect(context)
  const id = await projectId(context, platform)
  const { applied, skipped } = await platform.db.push({ params: { id }, body: { migrations: sent(folder) } })
  for (const { version, out_of_order } of applied)
    if (out_of_order) context.screen.warn(`${version} was applied after newer ones.`)
  return {
    data: { path: folder.shown, applied, skipped },
    text: paint =>
      applied.length === 0
        ? `Nothing to apply: all ${skipped.length} are applied already.`
        : table(paint, ['APPLIED', 'NAME', 'STATEMENTS', 'MS'], applied.map(appliedRow)),
  }
}

const appliedRow = ({ version, name, statements, duration_ms }: Applied) => [
  version,
  name,
  statements,
  duration_ms,
]

async function showPlan(context: Context): Promise<Answer> {
  const folder = folderWithFiles(context)
  const platform = connect(context)
  const id = await projectId(context, platform)
  const plan = await platform.db.plan({ params: { id }, body: { migrations: sent(folder) } })
  for (const line of remarks(plan)) context.screen.warn(line)
  return {
    data: { path: folder.shown, ...plan },
    text: paint => planText(paint, plan),
    hints: plan.pending.length > 0 ? ['Nothing was changed. plinth db push --apply applies them.'] : [],
  }
}

function planText(paint: Paint, { pending, skipped }: Plan): string {
  if (pending.length === 0) return `Nothing to apply: all ${skipped.length} are applied already.`
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

function remarks({ changed, missing }: Plan): string[] {
  const names = (list: Plan['changed']) => list.map(({ version }) => version).join(', ')
  return [
    ...(changed.length > 0
      ? [`Changed since it was applied: ${names(changed)}. A push is refused until the file is as it was.`]
      : []),
    ...(missing.length > 0 ? [`Applied, but not in this folder: ${names(missing)} (plinth db pull).`] : []),
  ]
}

/** Every migration of either side. */
export async function list(context: Context): Promise<Answer> {
  const folder = readMigrationFolder(context.cwd, context.given.values['path'])
  const platform = connect(context)
  const id = await projectId(context, platform)
  const recorded = await everyRecord(platform, id, false)
  const plan =
    folder.files.length > 0
      ? await platform.db.plan({ params: { id }, body: { migrations: sent(folder) } })
      : undefined
  const byVersion = new Map(recorded.map(each => [each.version, each]))
  const local = new Map(folder.files.map(each => [each.version, each]))
  const migrations = [...new Set([...byVersion.keys(), ...local.keys()])].sort(asNumbers).map(version => ({
    version,
    name: byVersion.get(version)?.name || (local.get(version)?.name ?? ''),
    applied_at: byVersion.get(version)?.applied_at ?? null,
    is_applied: byVersion.has(version),
    is_local: local.has(version),
    is_changed: plan?.changed.some(each => each.version === version) ?? false,
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

export const everyRecord = (
  platform: Platform,
  id: string,
  statements: boolean,
): Promise<RecordedMigration[]> =>
  everyPage(page =>
    platform.db
      .listMigrations({ params: { id }, query: { ...page, ...(statements && { statements }) } })
      .then(({ migrations, total }) => ({ items: migrations, total })),
  )

export async function reset(context: Context): Promise<Answer> {
  const folder = readMigrationFolder(context.cwd, context.given.values['path'])
  const platform = connect(context)
  const id = await projectId(context, platform)
  const body = context.given.switches.has('empty')
    ? { confirm: id }
    : folder.files.length > 0
      ? { confirm: id, migrations: sent(folder) }
      : { confirm: id, reapply: true }
  await confirmReset(context, platform, id)
  const done = await platform.db.reset({ params: { id }, body })
  const { tables, views, functions } = done.dropped
  return {
    data: done,
    text: () =>
      `Dropped ${tables.length} tables, ${views.length} views and ${functions.length} functions; applied ${done.applied.length} migrations.`,
  }
}

async function confirmReset(context: Context, platform: Platform, id: string): Promise<void> {
  const { given, screen } = context
  if (given.switches.has('yes')) return
  const { name, slug } = await platform.projects.read({ params: { id } })
  if (!screen.isInteractive)
    throw new Failure(
      'confirmation_missing',
      `Resetting ${name} drops all its tables and rows, and nobody can be asked here.`,
      'Run it again with --yes.',
    )
  const { tables, total } = await platform.schema.listTables({ params: { id }, query: { limit: 100 } })
  const rows = tables.reduce((sum, each) => sum + Math.max(0, each.row_estimate ?? 0), 0)
  screen.hint(
    `${clean(name)} (${slug}): ${total} tables and views of public with about ${rows} rows, and everything in its other schemas, go for good.`,
  )
  const { ask } = await import('../prompt.ts')
  const typed = await ask(`Type ${slug} to reset it: `)
  if (typed.trim() !== slug)
    throw new Failure('confirmation_mismatch', `"${typed}" is not ${slug}. Nothing was dropped.`)
}

const sent = ({ files }: MigrationFolder) => files.map(({ version, name, sql }) => ({ version, name, sql }))

function folderWithFiles({ cwd, given, screen }: Context): MigrationFolder {
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
