// Restores backups, lists restores and undoes them.
import type { Backup, Restore } from '@plinth/contract/backups.ts'
import { backupIn, findBackup, findRestore, type ProjectOf } from '../backups/find.ts'
import { waitFor } from '../backups/wait.ts'
import type { Answer, Context } from '../context.ts'
import { Failure } from '../failure.ts'
import { everyPage } from '../page.ts'
import { bytes, clean, fields, minute, type Paint, table } from '../print.ts'
import { openProject } from '../project.ts'
import { elapsed } from '../storage/progress.ts'
import { checkedId } from '../webhooks/given.ts'
import { sentence, tookOf } from './backups.ts'

export async function restore(context: Context): Promise<Answer> {
  const { given, screen } = context
  const backupId = backupIn(given.operands)
  const name = given.values['as-new']
  if (name !== undefined) return restoreAsNew(context, backupId, name)
  const isConfirmed = given.switches.has('yes')
  if (!isConfirmed && !screen.isInteractive)
    throw new Failure(
      'confirmation_missing',
      `Restoring ${backupId} replaces the present state of the project. It needs a confirmation, and there is no terminal to ask for it.`,
      'Run it again with --yes.',
    )
  const project = await openProject(context)
  if (!isConfirmed) await confirm(context, project, await findBackup(project, backupId))
  const params = { id: project.id, backup_id: backupId }
  const { restore: started } = await project.platform.backups.restore({ params, body: null })
  if (given.switches.has('no-wait')) return begun(started)
  const { ended } = await waitFor(context, 'Restore', () => findRestore(project, started.id))
  if (ended.status === 'failed')
    throw new Failure(
      'restore_failed',
      `The project is unchanged, because the restore has failed: ${sentence(ended.error)}`,
      'Correct the cause and run it again, or restore another backup: plinth backup list',
    )
  return {
    data: ended,
    text: paint => restoreText(paint, ended),
    hints: [
      ...incomplete(ended),
      `To put the state before back, until ${minute(ended.undo_until)}: plinth backup undo ${ended.id}`,
    ],
  }
}

async function restoreAsNew(context: Context, backupId: string, name: string): Promise<Answer> {
  const project = await openProject(context)
  const params = { id: project.id, backup_id: backupId }
  const { restore: started, project: made } = await project.platform.backups.restore({
    params,
    body: { new_project: { name } },
  })
  const data = { ...made!, restore: started }
  const text = (paint: Paint, ended?: Restore) =>
    fields(paint, [
      ['id', made!.id],
      ['slug', made!.slug],
      ['url', made!.api_url],
      ['anon key', made!.anon_key],
      ['service_role key', made!.service_role_key],
      ['jwt secret', made!.jwt_secret],
      ...(ended
        ? ([
            ['took', tookOf(ended)],
            ['size', sizeOf(ended)],
          ] as const)
        : []),
    ])
  const secrets = 'The service_role key and the JWT secret are shown only now.'
  if (context.given.switches.has('no-wait'))
    return {
      data,
      text: paint => text(paint),
      hints: [secrets, 'plinth backup restores shows the progress.'],
    }
  const { ended } = await waitFor(context, 'Restore', () => findRestore(project, started.id))
  if (ended.status === 'failed')
    throw new Failure(
      'restore_failed',
      `No project was made, because the restore has failed: ${sentence(ended.error)}`,
      'Correct the cause and run it again, or restore another backup: plinth backup list',
    )
  return {
    data: { ...data, status: 'active', restore: ended },
    text: paint => text(paint, ended),
    hints: [...incomplete(ended), secrets, 'Its scheduled jobs and webhooks are switched off.'],
  }
}

async function confirm(context: Context, { platform, id }: ProjectOf, backup: Backup): Promise<void> {
  const { ask } = await import('../prompt.ts')
  const { name, slug } = await platform.projects.read({ params: { id } })
  context.screen.hint(
    `${clean(name)} (${slug}) gets the state of ${minute(backup.created_at)} (${bytes(backup.bytes)}). What has changed since then is kept for 24 hours, and as a backup.`,
  )
  const typed = await ask(context, 'Restore it? [y/N] ')
  if (!/^y(es)?$/i.test(typed.trim()))
    throw new Failure('confirmation_mismatch', 'Nothing was restored.', 'Answer y, or run it with --yes.')
}

const begun = (started: Restore): Answer => ({
  data: started,
  text: paint => restoreText(paint, started),
  hints: ['plinth backup restores shows the progress.'],
})

export async function undo(context: Context): Promise<Answer> {
  const { given } = context
  const restoreId = checkedId(given.operands['restore']!, 'restore', 'plinth backup restores shows the ids.')
  const project = await openProject(context)
  const params = { id: project.id, restore_id: restoreId }
  const { restore: started } = await project.platform.backups.undo({ params })
  if (given.switches.has('no-wait')) return begun(started)
  const { ended, seconds } = await waitFor(context, 'Undo', () => findRestore(project, restoreId))
  if (ended.status !== 'undone')
    throw new Failure(
      'undo_failed',
      `The project is unchanged, because the undo has failed: ${sentence(ended.error)}`,
      'Correct the cause and run it again.',
    )
  return {
    data: ended,
    text: () => `Undone in ${elapsed(seconds)}. The project has the state before the restore again.`,
    hints: incomplete(ended),
  }
}

/** What has failed after the end of a restore or undo. */
const incomplete = ({ error }: Restore) => (error === null ? [] : [sentence(error)])

export async function list(context: Context): Promise<Answer> {
  const { platform, id } = await openProject(context)
  const restores = await everyPage(page =>
    platform.backups
      .restores({ params: { id }, query: page })
      .then(({ restores: items, total }) => ({ items, total })),
  )
  return {
    data: { restores, total: restores.length },
    hints:
      restores.length === 0
        ? ['No restores yet: plinth backup restore <backup> restores a backup.']
        : restores.flatMap(each =>
            each.error === null ? [] : [`${each.id} has failed: ${sentence(each.error)}`],
          ),
    text: paint =>
      restores.length === 0
        ? ''
        : table(
            paint,
            ['ID', 'BACKUP', 'STATUS', 'CREATED', 'TOOK', 'SIZE', 'UNDO UNTIL', 'STATE BEFORE'],
            restores.map(each => [
              each.id,
              each.backup_id,
              stateOf(each),
              minute(each.created_at),
              tookOf(each),
              sizeOf(each),
              minute(each.undo_until),
              each.before_backup_id ?? `new project ${each.new_project_id}`,
            ]),
          ),
  }
}

const sizeOf = ({ bytes: count }: Restore) => (count === null ? null : bytes(count))

const stateOf = ({ status, progress }: Restore): string =>
  progress === null ? status : `${status}, ${progress.step} ${bytes(progress.bytes)}`

const restoreText = (paint: Paint, each: Restore): string =>
  fields(paint, [
    ['id', each.id],
    ['status', stateOf(each)],
    ['backup', each.backup_id],
    ['backup of the state before', each.before_backup_id ?? ''],
    ['created', minute(each.created_at)],
    ['took', tookOf(each)],
    ['size', sizeOf(each)],
    ['undo until', minute(each.undo_until)],
  ])
