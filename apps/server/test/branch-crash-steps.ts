// The steps at which the platform or Postgres is killed while a branch is created, reset or deleted. The task is stopped at its
// step by a lock or by a waiting function of the tenant.
import assert from 'node:assert/strict'
import type { CrashParent } from './crash-parent.ts'
import type { Lock } from './crash-project.ts'

type MakeLock = (parent: CrashParent) => Promise<Lock>

interface Step {
  lock: MakeLock
  /** Would hold the task too early, so it is taken when the task waits for the first lock. */
  next?: MakeLock
  /** The databases of the branch at this step, without its name. */
  databases: string[]
  hasRoles?: boolean
}

const inControl =
  (statement: string): MakeLock =>
  parent =>
    parent.lock(parent.stage.control, statement)
const onDatabase =
  (nameOf: (parent: CrashParent) => string): MakeLock =>
  parent =>
    parent.lock(parent.stage.control, `comment on database ${nameOf(parent)} is 'held'`)
const inParent: MakeLock = parent =>
  parent.lock(parent.ref, 'lock table public.things in access exclusive mode')
const rows: MakeLock = parent => parent.holdRows()

// These catalogs are shared by the server.
const roles = inControl('lock table pg_catalog.pg_authid in share mode')
const drops = inControl('lock table pg_catalog.pg_shdescription in share mode')
/** Rows of services are read when the database was copied. */
const copied = inControl('lock table saved_queries in access exclusive mode')
const inCopy: MakeLock = parent =>
  parent.lock(parent.branchRef, 'lock table public.things in access share mode')
const rights: MakeLock = parent =>
  parent.lock(parent.stage.control, `alter database ${parent.branchRef} connection limit 30`)
const end = inControl('lock table branches in share mode')

/** The database is copied as a whole. */
export const wholeSteps = {
  'the task begins': { lock: roles, databases: [], hasRoles: false },
  'the database is copied': { lock: onDatabase(({ ref }) => ref), databases: [] },
  'the database was copied': { lock: copied, databases: [''] },
  'owners and rights are adopted': { lock: copied, next: inCopy, databases: [''] },
  'logins get their rights': { lock: copied, next: rights, databases: [''] },
  'the end is recorded': { lock: copied, next: end, databases: [''] },
} satisfies Record<string, Step>

/** Another session is connected to the parent, so the database is copied object by object. */
export const objectSteps = {
  'the parent is read': { lock: inParent, databases: [] },
  'the database is created': { lock: onDatabase(() => 'template0'), databases: [] },
  'rows come in': { lock: rows, databases: [''] },
  'logins get their rights': { lock: rows, next: rights, databases: [''] },
  'the end is recorded': { lock: rows, next: end, databases: [''] },
} satisfies Record<string, Step>

/** Object by object, too. */
export const resetSteps = {
  'the copy is filled': { lock: rows, databases: ['', '_reset'] },
  'the databases are exchanged': {
    lock: onDatabase(({ branchRef }) => branchRef),
    databases: ['', '_reset'],
  },
  'the end is recorded': { lock: end, databases: ['', '_reset'] },
  'the replaced database is dropped': { lock: end, next: drops, databases: ['', '_replaced'] },
} satisfies Record<string, Step>

export const deletionSteps = {
  'logins are disabled': { lock: roles, databases: [''] },
  'the database is dropped': { lock: drops, databases: [''] },
  'the end is recorded': { lock: end, databases: [], hasRoles: false },
} satisfies Record<string, Step>

const fourRoles = ['_api', '_auth', '_owner', '_svc']

/** Begins the task, and kills when it waits at the step. */
async function crashAt(parent: CrashParent, step: Step, begin: () => Promise<unknown>): Promise<void> {
  const held = [await step.lock(parent)]
  try {
    await begin()
    await held[0]!.untilAwaited()
    if (step.next) {
      held.push(await step.next(parent))
      await held[0]!.release()
      await held[1]!.untilAwaited()
    }
    const expected = [...step.databases, ...(step.hasRoles === false ? [] : fourRoles)].toSorted()
    assert.deepEqual(await parent.namesOf(parent.branchRef), expected, 'the step is met')
    await parent.stage.kill()
  } finally {
    for (const lock of held) await lock.release()
  }
  await parent.stage.revive()
}

/** Afterwards the branch is complete. */
export async function crashCreation(parent: CrashParent, name: string, step: Step, isWhole: boolean) {
  const other = isWhole ? undefined : await parent.connect(parent.ref)
  await crashAt(parent, step, () => parent.createBranch(name))
  await parent.assertComplete()
  await other?.end()
}

/** Afterwards the branch has the state of its parent, and nothing of before. */
export async function crashReset(parent: CrashParent, step: Step): Promise<void> {
  const other = await parent.connect(parent.ref)
  const { copied_at: before } = await parent.readBranch()
  await crashAt(parent, step, () => parent.ask('POST', `/branches/${parent.branch.slug}/reset`))
  await parent.assertComplete()
  assert.notEqual((await parent.readBranch()).copied_at, before)
  await other.end()
}

/** The request may fail. Afterwards nothing of the branch is left. */
export async function crashDeletion(parent: CrashParent, step: Step): Promise<void> {
  const path = `/projects/${parent.id}/branches/${parent.branch.slug}`
  let answer: Promise<unknown> | undefined
  await crashAt(parent, step, async () => {
    answer = parent.stage.manage('DELETE', path).catch(() => undefined)
  })
  await answer
  await parent.assertRemoved()
}
