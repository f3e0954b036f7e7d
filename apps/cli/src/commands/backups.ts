// Makes, lists and verifies backups.
import type { Backup } from '@plinth/contract/backups.ts'
import { backupIn, findBackup } from '../backups/find.ts'
import { waitFor } from '../backups/wait.ts'
import type { Answer, Context } from '../context.ts'
import { Failure } from '../failure.ts'
import { everyPage } from '../page.ts'
import { connect } from '../platform.ts'
import { bytes, fields, minute, type Paint, table } from '../print.ts'
import { openProject } from '../project.ts'
import { elapsed } from '../storage/progress.ts'

export async function create(context: Context): Promise<Answer> {
  const project = await openProject(context)
  const started = await project.platform.backups.create({ params: { id: project.id } })
  if (context.given.switches.has('no-wait')) return begun(started)
  const { ended } = await waitFor(context, 'Backup', () => findBackup(project, started.id))
  if (ended.status !== 'done')
    throw new Failure(
      'backup_failed',
      `The backup ${ended.id} has failed: ${sentence(ended.error)}`,
      'Correct the cause and run it again. plinth health shows the state of the platform.',
    )
  return {
    data: ended,
    text: paint => backupText(paint, ended),
    hints:
      ended.verified_at === null && ended.verify_error === null
        ? [`plinth backup verify ${ended.id} restores it aside and compares it.`]
        : problems([ended]),
  }
}

const begun = (backup: Backup): Answer => ({
  data: backup,
  text: paint => backupText(paint, backup),
  hints: ['plinth backup list shows the progress.'],
})

export async function verify(context: Context): Promise<Answer> {
  const backupId = backupIn(context.given.operands)
  const project = await openProject(context)
  const params = { id: project.id, backup_id: backupId }
  const before = await findBackup(project, backupId)
  const started = await project.platform.backups.verify({ params })
  if (context.given.switches.has('no-wait')) return begun(started)
  const { ended, seconds } = await waitFor(context, 'Verification', () => findBackup(project, backupId))
  if (ended.verify_error !== null)
    throw new Failure(
      'backup_not_verified',
      `The backup ${backupId} cannot be verified: ${sentence(ended.verify_error)}`,
      'Make a new backup now: plinth backup create',
    )
  if (ended.verified_at === before.verified_at)
    throw new Failure(
      'verification_stopped',
      'The verification gave way to another task of the project.',
      'Run it again when that task has ended. plinth backup list shows the progress.',
    )
  return {
    data: ended,
    text: () =>
      `Verified ${backupId}: ${bytes(ended.bytes)} in ${elapsed(seconds)}. The restored copy is the same.`,
  }
}

export const sentence = (reason: string | null): string => `${(reason ?? 'unknown').replace(/\.$/, '')}.`

export async function list(context: Context): Promise<Answer> {
  if (context.given.switches.has('deleted')) return listDeleted(context)
  const { platform, id } = await openProject(context)
  const backups = await everyPage(page =>
    platform.backups
      .list({ params: { id }, query: page })
      .then(({ backups: items, total }) => ({ items, total })),
  )
  return {
    data: { backups, total: backups.length },
    hints: backups.length === 0 ? ['No backups yet: plinth backup create makes one.'] : problems(backups),
    text: paint => (backups.length === 0 ? '' : listText(paint, backups)),
  }
}

async function listDeleted(context: Context): Promise<Answer> {
  const platform = connect(context)
  const projects = await everyPage(query =>
    platform.backups.listDeleted({ query }).then(({ projects: items, total }) => ({ items, total })),
  )
  return {
    data: { projects, total: projects.length },
    hints:
      projects.length === 0
        ? ['No deleted project has backups.']
        : ['plinth backup restore <backup> --project <id> --as-new <name> restores one.'],
    text: paint =>
      projects.length === 0
        ? ''
        : table(
            paint,
            ['ID', 'SLUG', 'DELETED', 'BACKUPS', 'NEWEST BACKUP', 'KEPT UNTIL'],
            projects.map(each => [
              each.id,
              each.slug,
              minute(each.deleted_at),
              String(each.backups),
              each.newest_backup_id,
              minute(each.kept_until),
            ]),
          ),
  }
}

const listText = (paint: Paint, backups: readonly Backup[]): string =>
  table(
    paint,
    ['ID', 'KIND', 'STATUS', 'CREATED', 'TOOK', 'SIZE', 'STORED', 'FILES', 'VERIFIED'],
    backups.map(each => [
      each.id,
      each.kind,
      stateOf(each),
      minute(each.created_at),
      tookOf(each),
      each.status === 'done' ? bytes(each.bytes) : null,
      each.status === 'done' ? bytes(each.stored_bytes) : null,
      each.status === 'done' ? each.files : null,
      verifiedOf(each),
    ]),
  )

/** A backup that is done can be read by a verification or a restore. */
const stateOf = ({ status, progress }: Backup): string =>
  progress === null ? status : `${status}, ${progress.step} ${bytes(progress.bytes)}`

const verifiedOf = ({ verified_at, verify_error }: Backup): string =>
  verify_error === null ? minute(verified_at) : 'failed'

/** Why backups have failed, or cannot be verified. */
const problems = (backups: readonly Backup[]): string[] =>
  backups.flatMap(({ id, error, verify_error }) => [
    ...(error === null ? [] : [`${id} has failed: ${sentence(error)}`]),
    ...(verify_error === null ? [] : [`${id} cannot be verified: ${sentence(verify_error)}`]),
  ])

interface Timed {
  created_at: string
  finished_at: string | null
}

export const tookOf = ({ created_at, finished_at }: Timed): string | null =>
  finished_at === null ? null : elapsed(Math.max(0, Date.parse(finished_at) - Date.parse(created_at)) / 1000)

function backupText(paint: Paint, backup: Backup): string {
  const isDone = backup.status === 'done'
  return fields(paint, [
    ['id', backup.id],
    ['status', stateOf(backup)],
    ['created', minute(backup.created_at)],
    ...(isDone
      ? ([
          ['took', tookOf(backup)],
          ['size', bytes(backup.bytes)],
          ['stored', `${bytes(backup.stored_bytes)} more in the store`],
          ['files', backup.files],
          ['verified', verifiedOf(backup)],
        ] as const)
      : []),
  ])
}
