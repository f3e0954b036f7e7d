import type { Answer, Context } from '../context.ts'
import { Failure } from '../failure.ts'
import { migrationsOf, readMigrationFolder } from '../migrations/folder.ts'
import type { Platform } from '../platform.ts'
import { clean } from '../print.ts'
import { openProject } from '../project.ts'

export async function reset(context: Context): Promise<Answer> {
  const folder = readMigrationFolder(context.cwd, context.given.values['path'])
  const { platform, id } = await openProject(context)
  const body = context.given.switches.has('empty')
    ? { confirm: id }
    : folder.files.length > 0
      ? { confirm: id, migrations: migrationsOf(folder) }
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
      `Resetting ${name} drops all its tables and rows. It needs a confirmation, and there is no terminal to ask for it.`,
      'Run it again with --yes.',
    )
  const { tables, total } = await platform.schema.listTables({ params: { id }, query: { limit: 100 } })
  const rows = tables.reduce((sum, each) => sum + Math.max(0, each.row_estimate ?? 0), 0)
  screen.hint(
    `${clean(name)} (${slug}): ${total} tables and views of public with about ${rows} rows, and everything in its other schemas, will be deleted permanently.`,
  )
  const { ask } = await import('../prompt.ts')
  const typed = await ask(context, `Type ${slug} to reset it: `)
  if (typed.trim() !== slug)
    throw new Failure('confirmation_mismatch', `"${typed}" is not ${slug}. Nothing was dropped.`)
}
