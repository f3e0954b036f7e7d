// The steps of tasks of backups at which the platform or Postgres is killed. Each task is stopped at its step, killed there, and
// must succeed afterwards. A platform runs two tasks at once, so one crash meets two of them.
import assert from 'node:assert/strict'
import { restoredOf, verifyOf } from '#src/tenancy/provision.ts'
import type { CrashProject, Kind, Lock } from './crash-project.ts'

/** Stops the task at the step. Returns what must be let go after the crash. */
type Reach = (project: CrashProject, begin: () => Promise<void>) => Promise<Lock>
type MakeLock = (project: CrashProject) => Promise<Lock>

interface Step {
  reach: Reach
  /** Another project has to reach its step first: it may need the same lock, or this task waits only for seconds. */
  isLast: boolean
}

const inControl =
  (statement: string): MakeLock =>
  project =>
    project.lock(project.stage.control, statement)
const inProject =
  (statement: string): MakeLock =>
  project =>
    project.lock(project.ref, statement)
const rowsComeIn: MakeLock = project => project.holdFunction('rows')
const projectRow: MakeLock = project =>
  project.lock(project.stage.control, `select from projects where id = '${project.id}' for no key update`)
const exchange: MakeLock = project =>
  project.lock(project.stage.control, `comment on database ${project.ref} is 'held'`)

const reaching =
  (make: MakeLock): Reach =>
  async (project, begin) => {
    const lock = await make(project)
    await begin()
    await lock.untilAwaited()
    return lock
  }

/** The second lock would hold the task too early, so it is taken when the task waits for the first one. */
const reachingAfter =
  (first: MakeLock, second: MakeLock): Reach =>
  async (project, begin) => {
    const early = await reaching(first)(project, begin)
    const late = await second(project)
    await early.release()
    await late.untilAwaited()
    return late
  }

const at = (make: MakeLock): Step => ({ reach: reaching(make), isLast: false })
const after = (first: MakeLock, second: MakeLock): Step => ({
  reach: reachingAfter(first, second),
  isLast: false,
})
const last = (step: Step): Step => ({ ...step, isLast: true })
/** A lock of a table of the control database holds the tasks of all projects. */
const atTable = (statement: string): Step => last(at(inControl(statement)))
const afterAtTable = (first: MakeLock, statement: string): Step => last(after(first, inControl(statement)))

const slowTable = inProject('lock table public.slow in access exclusive mode')
const statistics = (copyOf: (ref: string) => string): MakeLock => {
  return project => project.lock(copyOf(project.ref), 'lock table pg_catalog.pg_statistic in share mode')
}

const steps = {
  'backup: files are copied': atTable('lock table backup_files in exclusive mode'),
  'backup: rows of services are read': atTable('lock table saved_queries in access exclusive mode'),
  'backup: rows are read': last(at(slowTable)),
  'backup: the end is recorded': afterAtTable(slowTable, 'lock table backups in share mode'),
  'verification: the copy is created': at(projectRow),
  'verification: rows come in': at(rowsComeIn),
  'verification: an index is created': at(project => project.holdFunction('index')),
  'verification: the copy is analysed': after(rowsComeIn, statistics(verifyOf)),
  'verification: the end is recorded': afterAtTable(rowsComeIn, 'lock table backups in share mode'),
  'restore: the state before is backed up': last(at(slowTable)),
  'restore: rows come in': at(rowsComeIn),
  'restore: the copy is analysed': after(rowsComeIn, statistics(restoredOf)),
  'restore: the copy is migrated': after(rowsComeIn, projectRow),
  'restore: rows of services are replaced': atTable('lock table saved_queries in share mode'),
  'restore: the databases are exchanged': last(at(exchange)),
  'restore: the end is recorded': afterAtTable(exchange, 'lock table audit in share mode'),
  'undo: the kept state is migrated': at(projectRow),
  'undo: rows of services are replaced': atTable('lock table saved_queries in share mode'),
  'undo: the databases are exchanged': last(at(exchange)),
  'undo: the replaced state is dropped': after(exchange, project => project.queueForTask()),
  'new_project: rows come in': last(at(project => project.holdFunction('rows', 'public'))),
  'new_project: rows of services are stored': atTable('lock table saved_queries in share mode'),
  'undo: the end is recorded': afterAtTable(exchange, 'lock table audit in share mode'),
} satisfies Record<`${Kind}: ${string}`, Step>

export type StepName = keyof typeof steps
export const stepNames = Object.keys(steps) as StepName[]

/**
 * The steps of the first and the second project at each crash. An undo takes back the last restore of its project, whose task
 * was killed too.
 */
export const rounds: readonly (readonly [StepName, StepName?])[] = [
  ['backup: files are copied', 'verification: rows come in'],
  ['restore: the state before is backed up', 'verification: the copy is created'],
  ['undo: rows of services are replaced', 'restore: rows come in'],
  ['backup: rows of services are read', 'undo: the kept state is migrated'],
  ['restore: the databases are exchanged', 'verification: an index is created'],
  ['undo: the replaced state is dropped', 'restore: rows of services are replaced'],
  ['restore: the copy is analysed', 'undo: the databases are exchanged'],
  ['undo: the end is recorded', 'restore: the copy is migrated'],
  ['verification: the copy is analysed', 'backup: the end is recorded'],
  ['verification: the end is recorded'],
  ['restore: the end is recorded'],
  ['backup: rows are read'],
  ['new_project: rows come in'],
  ['new_project: rows of services are stored'],
]

const kindOf = (step: StepName) => step.split(':')[0] as Kind

/** Begins the task of the step and holds it there. */
export const holdAt = (project: CrashProject, step: StepName, restoreId?: string): Promise<Lock> =>
  steps[step].reach(project, () => project.begin(kindOf(step), restoreId))

interface Crashing {
  project: CrashProject
  step: StepName
  /** Of an undo. */
  restoreId: string | undefined
  laterRows: number
}

async function prepare(project: CrashProject, step: StepName): Promise<Crashing> {
  if (kindOf(step) === 'undo') {
    const { id, status } = await project.lastRestore()
    assert.deepEqual([status, await project.laterRows()], ['done', 0])
    return { project, step, restoreId: id, laterRows: project.rowsBeforeRestore }
  }
  await project.sql(`insert into things select coalesce(max(id), 0) + 1, 'later' from things`)
  const laterRows = await project.laterRows()
  if (kindOf(step) !== 'restore') return { project, step, restoreId: undefined, laterRows }
  project.rowsBeforeRestore = laterRows
  return { project, step, restoreId: undefined, laterRows: 0 }
}

/** Kills when every project has reached its step. Afterwards all tasks succeed by themselves, and nothing is left. */
export async function crashAt(projects: readonly CrashProject[], round: readonly (StepName | undefined)[]) {
  const crashing: Crashing[] = []
  for (const [index, step] of round.entries())
    if (step !== undefined) crashing.push(await prepare(projects[index]!, step))
  const locks: Lock[] = []
  const inOrder = crashing.toSorted(
    (one, other) => Number(steps[one.step].isLast) - Number(steps[other.step].isLast),
  )
  for (const { project, step, restoreId } of inOrder) locks.push(await holdAt(project, step, restoreId))
  const { stage } = projects[0]!
  await stage.kill()
  for (const lock of locks) await lock.release()
  await stage.revive()
  for (const each of crashing) await assertSucceeded(each)
}

async function assertSucceeded({ project, step, laterRows }: Crashing): Promise<void> {
  const kind = kindOf(step)
  await project.untilIdle()
  if (kind === 'backup') {
    const [newest] = (await project.ask('GET', '/backups?limit=1')).backups
    assert.deepEqual([newest.status, newest.error], ['done', null])
  }
  if (kind === 'verification') {
    const { verified_at: verifiedAt, verify_error: error } = await project.backup(project.backupId)
    assert.deepEqual([error, verifiedAt !== null], [null, true])
  }
  if (kind === 'restore' || kind === 'undo') {
    const { status, error, before_backup_id: before } = await project.lastRestore()
    assert.deepEqual([status, error], [kind === 'undo' ? 'undone' : 'done', null])
    assert.equal((await project.backup(before!)).status, 'done')
  }
  if (kind === 'new_project') await project.assertMade()
  assert.equal(await project.laterRows(), laterRows, 'no row is lost')
  await project.assertClean()
}
