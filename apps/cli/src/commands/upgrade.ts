// Shows what an upgrade to the installed release would do, and executes it.
import { setTimeout as sleep } from 'node:timers/promises'
import { ReplyError } from '@plinth/contract/client.ts'
import type {
  UpgradeAnswer,
  UpgradeManifest,
  UpgradePlan,
  UpgradeProgress,
} from '@plinth/contract/upgrade.ts'
import { openLine } from '../backups/wait.ts'
import type { Answer, Context } from '../context.ts'
import { Failure } from '../failure.ts'
import { connect, type Platform } from '../platform.ts'
import { bytes, clean, fields, type Paint, table } from '../print.ts'
import { elapsed } from '../storage/progress.ts'
import { isTemporary } from '../temporary-failure.ts'

const pollMs = 500
/** After a lost connection: answers without progress, until the upgrade counts as ended without a result. */
const maxIdlePolls = 60

export async function upgrade(context: Context): Promise<Answer> {
  const { values, switches } = context.given
  if (switches.has('dry-run') && switches.has('yes'))
    throw new Failure(
      'flags_conflict',
      '--dry-run and --yes exclude each other.',
      'Use --yes to execute the upgrade, or none of them to see the plan.',
    )
  const platform = connect(context)
  const target = values['target']
  if (switches.has('yes')) return execute(context, platform, target)
  const planned = await platform.upgrade.run({ query: { ...(target !== undefined && { target }) } })
  const { plan } = planned
  return {
    data: planned,
    text: paint => planText(paint, plan),
    hints: [
      isPending(plan)
        ? 'Nothing was changed. plinth upgrade --yes executes the plan.'
        : 'Everything is up to date.',
    ],
  }
}

const isPending = ({ platform_migrations, projects }: UpgradePlan) =>
  platform_migrations.length + projects.length > 0

async function execute(context: Context, platform: Platform, target: string | undefined): Promise<Answer> {
  const startedAt = performance.now()
  const before = (await platform.upgrade.read()).manifest
  const query = { execute: true, ...(target !== undefined && { target }) }
  let hasEnded = false
  const running: Promise<Result> = platform.upgrade
    .run({ query })
    .catch(error => afterFailure(platform, error, before))
    .finally(() => {
      hasEnded = true
    })
  await Promise.all([running, showProgress(context, platform, () => hasEnded)])
  const answer = await running
  const seconds = (performance.now() - startedAt) / 1000
  const { manifest } = answer
  const isUpgraded =
    manifest === null ||
    (manifest.status !== 'failed' && manifest.failed.length === 0 && manifest.pending.length === 0)
  return {
    data: answer,
    isFailure: !isUpgraded || answer.error !== undefined,
    text: paint => manifestText(paint, answer, seconds),
    hints: [
      ...(answer.error ? [`${clean(answer.error.message)}.`] : []),
      ...(isUpgraded
        ? []
        : [
            'Projects that were not upgraded keep their state and answer 503. Correct the cause and run it again.',
          ]),
    ],
  }
}

/** The error is that of an upgrade that was executed but is not complete. After a lost connection there is no plan. */
type Result = Pick<UpgradeAnswer, 'manifest'> &
  Partial<Pick<UpgradeAnswer, 'plan'>> & { error?: { message: string } }

/** An upgrade goes on if the connection is lost, for example to a proxy with a short timeout. */
async function afterFailure(
  platform: Platform,
  error: unknown,
  before: UpgradeManifest | null,
): Promise<Result> {
  if (error instanceof ReplyError && error.code === 'upgrade_incomplete') return error.body as Result
  if (!isConnectionLost(error)) throw error
  for (let idle = 0; idle < maxIdlePolls; idle++) {
    await sleep(pollMs)
    const { manifest, progress } = await platform.upgrade.read().catch(ignoreTemporary)
    if (progress !== null) idle = 0
    else if (manifest !== null && manifest.status !== 'running' && isOther(manifest, before))
      return { manifest }
  }
  throw error
}

/** An upgrade that is continued keeps its id. */
const isOther = (manifest: UpgradeManifest, before: UpgradeManifest | null) =>
  manifest.id !== before?.id || manifest.finished_at !== before.finished_at

/** 502 and 504 are answers of a proxy. */
const isConnectionLost = (error: unknown) =>
  error instanceof ReplyError ? error.status === 502 || error.status === 504 : isTemporary(error)

const unknown = { manifest: null, progress: null }

function ignoreTemporary(error: unknown): typeof unknown {
  if (!isTemporary(error)) throw error
  return unknown
}

async function showProgress(context: Context, platform: Platform, hasEnded: () => boolean): Promise<void> {
  const line = openLine(context)
  const startedAt = performance.now()
  while (!hasEnded()) {
    const { progress } = await platform.upgrade.read().catch(() => unknown)
    if (progress !== null) line.draw(progressText(progress, (performance.now() - startedAt) / 1000))
    await sleep(pollMs)
  }
  line.clear()
}

export const progressText = (
  { step, project_id, done, total, bytes: read }: UpgradeProgress,
  seconds: number,
): string =>
  [
    `Upgrade: ${clean(step)}`,
    ...(project_id === null ? [] : [`${done + 1} of ${total}`]),
    ...(read > 0 ? [bytes(read)] : []),
    elapsed(seconds),
  ].join('  ')

function planText(paint: Paint, plan: UpgradePlan): string {
  const { images, platform_migrations: migrations } = plan
  const parts = [
    fields(paint, [
      ['target', plan.target_version],
      ['last release', plan.current_version ?? 'unknown'],
      ['node', images.node],
      ['postgres', images.postgres],
      ['control database', controlText(plan)],
      ['migrations of it', migrations.length === 0 ? 'none' : migrations.join(', ')],
    ]),
  ]
  if (plan.projects.length > 0)
    parts.push(
      table(
        paint,
        ['PROJECT', 'NAME', 'BACKUP', 'MIGRATIONS', 'ERROR'],
        plan.projects.map(({ project_id, name, snapshot, migrations: pending, error }) => [
          project_id,
          name,
          snapshot && bytes(snapshot.database_bytes),
          pending.join(', '),
          error,
        ]),
      ),
    )
  return parts.join('\n\n')
}

function controlText(plan: UpgradePlan): string {
  if (plan.control_snapshot) return bytes(plan.control_snapshot.database_bytes)
  return isPending(plan) ? 'already backed up' : 'up to date'
}

function manifestText(paint: Paint, { manifest, plan }: Result, seconds: number): string {
  if (!manifest || manifest.id === null) return 'Everything is up to date. Nothing was changed.'
  const { snapshots, snapshot_bytes: sizes, done, failed, pending } = manifest
  const row = (id: string, status: string) => [
    id,
    status,
    snapshots[id] ?? null,
    sizes[id] === undefined ? null : bytes(sizes[id]),
  ]
  const rows = [
    ...done.map(id => row(id, 'done')),
    ...failed.map(({ project_id: id, error }) => row(id, `failed: ${error}`)),
    ...pending.map(id => row(id, 'pending')),
  ]
  return [
    fields(paint, [
      ['upgrade', manifest.id],
      ['release', manifest.version],
      ['release before', manifest.prior_version ?? 'unknown'],
      ['control backup', manifest.control_backup_id],
      ...(plan?.control_snapshot
        ? [['control database', bytes(plan.control_snapshot.database_bytes)] as const]
        : []),
      ['took', elapsed(seconds)],
    ]),
    ...(rows.length > 0 ? [table(paint, ['PROJECT', 'STATUS', 'BACKUP', 'SIZE'], rows)] : []),
  ].join('\n\n')
}
