// Shows to which times a project can be recovered, and recovers it aside.
import type { PitrJob, PitrPreview, RestorePoints } from '@plinth/contract/pitr.ts'
import { waitFor } from '../backups/wait.ts'
import type { Answer, Context } from '../context.ts'
import { Failure } from '../failure.ts'
import { everyPage } from '../page.ts'
import { bytes, duration, fields, minute, type Paint, table } from '../print.ts'
import { openProject } from '../project.ts'
import { elapsed } from '../storage/progress.ts'
import { sentence, tookOf } from './backups.ts'

const timeForm = /^\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d([.,]\d+)?(Z|[+-]\d\d(:?\d\d)?)$/i
const continues = 'plinth pitr jobs shows the progress.'

export async function restorePoints(context: Context): Promise<Answer> {
  const { platform, id } = await openProject(context)
  const found = await platform.pitr.restorePoints({ params: { id } })
  return {
    data: found,
    text: paint => (found.enabled ? pointsText(paint, found) : ''),
    hints: [
      ...(found.enabled ? [] : [found.reason ?? '']),
      ...(found.enabled && !found.window
        ? ['No time can be recovered yet. The first base backup is being made.']
        : []),
    ],
  }
}

/** The newest first. */
function pointsText(paint: Paint, { windows = [], base_backups = [], points = [] }: RestorePoints): string {
  const rows = [
    ...windows.map(({ from, to }) => ['window', from, to] as const),
    ...base_backups.map(each => ['base backup', each.finished_at, bytes(each.bytes)] as const),
    ...points.map(({ kind, at }) => [`before ${kind}`, at, null] as const),
  ]
  return table(paint, ['KIND', 'TIME', 'UNTIL OR SIZE'], rows)
}

export function checkedTime(target: string): string {
  if (timeForm.test(target)) return target
  throw new Failure(
    'usage_invalid_value',
    `--target-time cannot be "${target}": it must be a time with an offset.`,
    'Such as 2030-01-31T10:00:00Z or 2030-01-31T12:00:00.123456+02:00.',
  )
}

export async function restore(context: Context): Promise<Answer> {
  const { given } = context
  const target = checkedTime(given.values['target-time']!)
  const project = await openProject(context)
  const params = { id: project.id }
  if (given.switches.has('dry-run')) {
    const preview = await project.platform.pitr.preview({ params, query: { target_time: target } })
    return { data: preview, text: paint => previewText(paint, preview), hints: preview.warnings }
  }
  const { job } = await project.platform.pitr.restore({ params, body: { target_time: target } })
  const read = async (): Promise<PitrJob> => {
    const { jobs: found } = await project.platform.pitr.jobs({ params, query: { limit: 100 } })
    return found.find(({ id }) => id === job.id) ?? missing(job.id)
  }
  if (given.switches.has('no-wait')) {
    const started = await read()
    return { data: started, text: paint => jobText(paint, started), hints: [continues] }
  }
  const { ended, seconds } = await waitFor(context, 'Recovery', read, continues)
  if (ended.status !== 'prepared')
    throw new Failure(
      'pitr_failed',
      `The project is unchanged, because the recovery has failed: ${sentence(ended.error)}`,
      'Correct the cause and run it again, or choose another time: plinth pitr restore-points',
    )
  return {
    data: ended,
    text: paint =>
      `Recovered and verified${ended.bytes === null ? '' : ` ${bytes(ended.bytes)}`} in ${elapsed(seconds)}.\n${jobText(paint, ended)}`,
    hints: [
      ...ended.warnings,
      `The project is unchanged. To put the copy in its place, on the host, until ${minute(ended.expires_at)}: plinth pitr cutover ${ended.id}`,
    ],
  }
}

function missing(id: string): never {
  throw new Failure('pitr_job_missing', `The recovery ${id} was removed.`, continues)
}

const previewText = (paint: Paint, preview: PitrPreview): string =>
  fields(paint, [
    ['time', preview.target_time],
    ['window', `${preview.window.from} to ${preview.window.to}`],
    ['base backup', `${preview.base_backup.finished_at}, ${bytes(preview.base_backup.bytes)}`],
    [
      'WAL',
      `${preview.wal.from_lsn} to ${preview.wal.to_lsn}, ${preview.wal.segments} segments, ${bytes(preview.wal.bytes)}`,
    ],
    ['lost', `${duration(Math.ceil(preview.data_loss.seconds))} of changes`],
    ['takes about', duration(preview.estimated_seconds)],
  ])

export async function jobs(context: Context): Promise<Answer> {
  const { platform, id } = await openProject(context)
  const found = await everyPage(page =>
    platform.pitr.jobs({ params: { id }, query: page }).then(({ jobs: items, total }) => ({ items, total })),
  )
  return {
    data: { jobs: found, total: found.length },
    hints:
      found.length === 0
        ? ['No recoveries yet: plinth pitr restore --target-time <time>']
        : found.flatMap(({ id: job, error }) => (error === null ? [] : [`${job}: ${sentence(error)}`])),
    text: paint =>
      found.length === 0
        ? ''
        : table(
            paint,
            ['ID', 'TIME', 'STATUS', 'CREATED', 'TOOK', 'SIZE', 'CUTOVER UNTIL', 'RESTORE'],
            found.map(each => [
              each.id,
              each.target_time,
              stateOf(each),
              minute(each.created_at),
              tookOf(recoveryOf(each)),
              sizeOf(each),
              each.status === 'prepared' ? minute(each.expires_at) : null,
              each.restore_id,
            ]),
          ),
  }
}

/** Until the copy is prepared, or has failed. The wait for the cutover is no part of it. */
const recoveryOf = ({ created_at, prepared_at, finished_at }: PitrJob) => ({
  created_at,
  finished_at: prepared_at ?? finished_at,
})

const sizeOf = ({ bytes: count }: PitrJob) => (count === null ? null : bytes(count))

const stateOf = ({ status, progress }: PitrJob): string =>
  progress === null ? status : `${status}, ${progress.step} ${bytes(progress.bytes)}`

const jobText = (paint: Paint, each: PitrJob): string =>
  fields(paint, [
    ['id', each.id],
    ['status', stateOf(each)],
    ['time', each.target_time],
    ['created', minute(each.created_at)],
    ...(each.prepared_at === null
      ? []
      : ([
          ['took', tookOf(recoveryOf(each))],
          ['size', sizeOf(each)],
        ] as const)),
  ])
