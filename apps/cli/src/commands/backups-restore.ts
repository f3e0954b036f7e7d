// Restores backups, lists restores and undoes them.
import type { Restore } from '@plinth/contract/backups.ts'
import { backupIn, findBackup, findRestore, type ProjectOf } from '../backups/find.ts'
import { waitFor } from '../backups/wait.ts'
import type { Answer, Context } from '../context.ts'
import { explain } from '../explain.ts'
import { Failure } from '../failure.ts'
import { everyPage } from '../page.ts'
import { bytes, clean, fields, minute, type Paint, table } from '../print.ts'
import { openProject } from '../project.ts'
import { elapsed } from '../storage/progress.ts'
import { checkedId } from '../webhooks/given.ts'
import { sentence, tookOf } from './backups.ts'

export async function restore(context: Context): Promise<Answer> {
  const { given } = context
  const backupId = backupIn(given.operands)
  const name = given.values['as-new']
  if (name !== undefined) return restoreAsNew(context, backupId, name)
  const isConfirmed = isConfirmedBefore(
    context,
    `Restoring ${backupId} replaces the present state of the project.`,
  )
  const project = await openProject(context)
  const started = await beginRestore(context, project, backupId, isConfirmed).catch(error => {
    const { code, message } = explain(error, context)
    if (code !== 'project_not_found') throw error
    throw new Failure(
      code,
      message,
      `If the project is deleted, restore its backup as a new one: plinth backup restore ${backupId} --project ${project.id} --as-new <name>`,
      error,
    )
  })
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

async function beginRestore(
  context: Context,
  project: ProjectOf,
  backupId: string,
  isConfirmed: boolean,
): Promise<Restore> {
  if (!isConfirmed) {
    const { created_at: time, bytes: size } = await findBackup(project, backupId)
    const effect = `gets the state of ${minute(time)} (${bytes(size)}). What has changed since then is kept for 24 hours, and as a backup.`
    await confirm(context, project, effect, ['Restore it?', 'Nothing was restored.'])
  }
  const params = { id: project.id, backup_id: backupId }
  return (await project.platform.backups.restore({ params, body: null })).restore
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

/** By --yes. Otherwise a terminal is asked, so without one this is the end, before any request. */
function isConfirmedBefore({ given, screen }: Context, effect: string): boolean {
  const isConfirmed = given.switches.has('yes')
  if (!isConfirmed && !screen.isInteractive)
    throw new Failure(
      'confirmation_missing',
      `${effect} It needs a confirmation, and there is no terminal to ask for it.`,
      'Run it again with --yes.',
    )
  return isConfirmed
}

async function confirm(
  context: Context,
  { platform, id }: ProjectOf,
  effect: string,
  [question, refusal]: readonly [string, string],
): Promise<void> {
  const { ask } = await import('../prompt.ts')
  const { name, slug } = await platform.projects.read({ params: { id } })
  context.screen.hint(`${clean(name)} (${slug}) ${effect}`)
  const typed = await ask(context, `${question} [y/N] `)
  if (!/^y(es)?$/i.test(typed.trim()))
    throw new Failure('confirmation_mismatch', refusal, 'Answer y, or run it with --yes.')
}

const begun = (started: Restore): Answer => ({
  data: started,
  text: paint => restoreText(paint, started),
  hints: ['plinth backup restores shows the progress.'],
})

export async function undo(context: Context): Promise<Answer> {
  const { given } = context
  const restoreId = checkedId(given.operands['restore']!, 'restore', 'plinth backup restores shows the ids.')
  const isConfirmed = isConfirmedBefore(
    context,
    `Undoing the restore ${restoreId} discards what has changed in the project since then, and can be done only once.`,
  )
  const project = await openProject(context)
  if (!isConfirmed) {
    const { created_at: begunAt, finished_at: endedAt } = await findRestore(project, restoreId)
    const effect = `gets the state before the restore of ${minute(endedAt ?? begunAt)}. What has changed since then is discarded; to keep it, run plinth backup create first. A restore can be undone only once.`
    await confirm(context, project, effect, ['Undo it?', 'Nothing was changed.'])
  }
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
              stateBefore(each),
            ]),
          ),
  }
}

const sizeOf = ({ bytes: count }: Restore) => (count === null ? null : bytes(count))

const stateOf = ({ status, progress }: Restore): string =>
  progress === null ? status : `${status}, ${progress.step} ${bytes(progress.bytes)}`

/** A restore as a new project has none. One that has failed has removed the new project. */
const stateBefore = (each: Restore): string =>
  each.before_backup_id ??
  (each.status === 'failed' ? 'no project was made' : `new project ${each.new_project_id}`)

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
