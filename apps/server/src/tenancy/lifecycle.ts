// Creating or deleting a project is one operation that completes or leaves nothing. The row is written first and
// finished last, and an advisory lock says that a node is at work on it: a row still 'creating' or 'deleting' whose lock
// is free belongs to a node that died, and recovery removes it. A deleted project whose database could not be dropped
// yet is gone for everybody; recovery drops the database later.
import { Refusal } from '#src/kernel/errors.ts'
import type { Log } from '#src/kernel/log.ts'
import type { Database, Session } from '#src/kernel/postgres/database.ts'
import { sql } from '#src/kernel/postgres/sql.ts'
import { createTurns } from '#src/kernel/turns.ts'
import type { Cluster } from './cluster.ts'
import type { Provisioner } from './provision.ts'

export interface NewProject {
  id: string
  ref: string
  name: string
  slug: string
  description: string
  settings: object
  quotas: object
  /** Sealed. */
  anon_key: string
  service_role_key: string
  jwt_secret: string
  /** The platform user who becomes its owner. */
  ownerId: string | undefined
}

export interface Lifecycle {
  /** False when the slug is taken. */
  create(project: NewProject): Promise<boolean>
  remove(id: string): Promise<void>
  /** Removes what a node that died left half-made or half-removed. */
  recover(): Promise<void>
  /** The same, without waiting for it: a removal may take seconds. */
  recoverInBackground(): void
  close(): void
}

/** What a project has elsewhere, and comes and goes with it. */
export interface Attachment {
  /** What fails here does not fail the project: it is made when it is first needed. */
  created?(projectId: string): Promise<void>
  /** The project is not gone until this has succeeded; it may be called again. */
  removed(projectId: string): Promise<void>
}

/** Each operation holds one connection for its lock and needs another: fewer at once than connections. */
const atOnce = 3
/** How long the caller of a deletion waits for the database to be dropped. */
const dropMs = 3000
/** Further attempts wait for longer, since the server may just be slow, and come less often. */
const later = { longestDropMs: 60_000, firstPauseMs: 1000, longestPauseMs: 30_000 }
/** How often a node looks for what others have left. */
const lookMs = 60_000

export function createLifecycle(
  control: Database,
  cluster: Cluster,
  provisioner: Provisioner,
  log: Log,
  attachments: readonly Attachment[] = [],
): Lifecycle {
  const turn = createTurns(atOnce)

  const closing = new AbortController()

  /** Runs the work while holding the project's lock; undefined when another node holds it. */
  const holdingLock = <T>(id: string, work: () => Promise<T>): Promise<T | undefined> =>
    control.transaction(async session => {
      const lock = await session.row<{ taken: boolean }>(
        sql`select pg_try_advisory_xact_lock(hashtextextended(${id}, 0)) as taken`,
      )
      return lock?.taken ? work() : undefined
    })
  const whileLocked = <T>(id: string, work: () => Promise<T>) => turn(() => holdingLock(id, work))

  const drop = (ref: string, patienceMs = dropMs) => provisioner.drop(ref, patienceMs, closing.signal)

  async function undo({ id, ref }: Pick<NewProject, 'id' | 'ref'>): Promise<void> {
    if (!(await drop(ref))) throw new Error('a database session that cannot be interrupted is in the way')
    await deleteRow(control, id)
  }

  /** What cannot be undone now, because the database has just gone away, is undone when it is back. */
  let recovering: NodeJS.Timeout | undefined
  let isClosed = false
  function recoverSoon(): void {
    clearTimeout(recovering)
    if (isClosed) return
    recovering = setTimeout(() => void recover().catch(recoverSoon), 1000).unref()
  }

  async function takeDown(id: string, ref: string): Promise<void> {
    const isDropped = await drop(ref)
    for (const attachment of attachments) await attachment.removed(id)
    await markDeleted(control, id, !isDropped)
    if (isDropped) return
    log.warn({ project: id }, 'the database of a deleted project cannot be dropped yet; trying again')
    dropLeftoversSoon()
  }

  let dropping: NodeJS.Timeout | undefined
  let isDropping = false
  let attempts = 0
  function dropLeftoversSoon(): void {
    clearTimeout(dropping)
    if (isClosed) return
    const pauseMs = Math.min(later.longestPauseMs, later.firstPauseMs * 2 ** attempts)
    dropping = setTimeout(() => void dropLeftovers(), pauseMs).unref()
  }

  async function dropLeftovers(): Promise<void> {
    if (isDropping || isClosed) return
    isDropping = true
    try {
      const left = await listLeftovers(control)
      const patienceMs = Math.min(later.longestDropMs, dropMs * 2 ** attempts)
      let areDropped = true
      for (const { id, ref } of left)
        areDropped = ((await holdingLock(id, () => dropLeftover(id, ref, patienceMs))) ?? true) && areDropped
      attempts = areDropped ? 0 : attempts + 1
      if (!areDropped) dropLeftoversSoon()
    } catch (error) {
      if (!isClosed) log.warn({ err: error }, 'databases of deleted projects could not be dropped yet')
      attempts++
      dropLeftoversSoon()
    } finally {
      isDropping = false
    }
  }

  async function dropLeftover(id: string, ref: string, patienceMs: number): Promise<boolean> {
    if (!(await drop(ref, patienceMs))) return false
    await noteDropped(control, id)
    log.info({ project: id }, 'dropped the database of a deleted project')
    return true
  }

  const looking = setInterval(() => {
    void recover().catch(recoverSoon)
    void dropLeftovers()
  }, lookMs).unref()

  async function attach(id: string): Promise<void> {
    for (const attachment of attachments)
      await attachment
        .created?.(id)
        .catch(error =>
          log.warn({ err: error, project: id }, 'what belongs to a new project will be made on first use'),
        )
  }

  async function recover(): Promise<void> {
    for (const { id, ref } of await listUnfinished(control)) {
      if (isClosed) return
      await whileLocked(id, async () => {
        // It may have been finished between the look and the lock.
        const status = (await listUnfinished(control)).find(each => each.id === id)?.status
        if (status === undefined) return
        if (status === 'creating') await undo({ id, ref })
        else await takeDown(id, ref)
        log.warn({ project: id, status }, 'removed a project that was left unfinished')
      }).catch(error => {
        // One that resists must not keep the others, or the platform, from being there.
        log.error({ err: error, project: id }, 'a project left unfinished cannot be removed yet')
        recoverSoon()
      })
    }
  }

  return {
    async create(project) {
      const created = await whileLocked(project.id, async () => {
        try {
          if (!(await insertCreating(control, project, cluster.projectVersion))) return false
          await provisioner.create(project.ref)
          await control.transaction(session => markActive(session, project))
          await attach(project.id)
          return true
        } catch (error) {
          await undo(project).catch(recoverSoon)
          throw error
        }
      })
      return created === true
    },

    async remove(id) {
      // Marked under the lock: a mark without one means left behind, and recovery sees to it, here or elsewhere.
      const removed = await whileLocked(id, async () => {
        const ref = await markDeleting(control, id)
        if (ref === undefined) return 'absent'
        await takeDown(id, ref)
        return 'removed'
      }).catch(error => {
        recoverSoon()
        throw error
      })
      if (removed === 'absent') throw new Refusal('project_not_found', 'No project has this id')
      if (!removed) throw new Refusal('project_busy', 'This project is being created or deleted already')
    },

    recover,
    recoverInBackground() {
      void recover().catch(recoverSoon)
      void dropLeftovers()
    },
    close() {
      isClosed = true
      closing.abort()
      clearTimeout(recovering)
      clearTimeout(dropping)
      clearInterval(looking)
    },
  }
}

async function insertCreating(control: Database, project: NewProject, version: string): Promise<boolean> {
  const { id, ref, name, slug, description, settings, quotas, anon_key, service_role_key, jwt_secret } =
    project
  const inserted = await control.run(sql`
    insert into projects (id, ref, name, slug, description, status, settings, quotas, anon_key, service_role_key, jwt_secret, schema_version)
    values (${id}, ${ref}, ${name}, ${slug}, ${description}, 'creating', ${JSON.stringify(settings)}, ${JSON.stringify(quotas)},
            ${anon_key}, ${service_role_key}, ${jwt_secret}, ${version})
    on conflict (slug) where status <> 'deleted' do nothing`)
  return inserted === 1
}

async function markActive(session: Session, { id, ownerId }: NewProject): Promise<void> {
  await session.run(sql`update projects set status = 'active', updated_at = now() where id = ${id}`)
  if (ownerId)
    await session.run(sql`
      insert into members (project_id, user_id, role) select ${id}, id, 'owner' from users where id = ${ownerId}`)
}

/** The project's ref; undefined when there is none to delete. */
async function markDeleting(control: Database, id: string): Promise<string | undefined> {
  const row = await control.row<{ ref: string }>(sql`
    update projects set status = 'deleting', updated_at = now()
     where id = ${id} and status in ('active', 'suspended', 'deleting') returning ref`)
  return row?.ref
}

/** The row stays as a record; the credentials in it go. */
const markDeleted = (control: Database, id: string, hasLeftovers: boolean) =>
  control.run(sql`
    update projects set status = 'deleted', deleted_at = now(), updated_at = now(), settings = '{}',
           anon_key = '', service_role_key = '', jwt_secret = '', has_leftovers = ${hasLeftovers}
     where id = ${id}`)

const listLeftovers = (control: Database) =>
  control.rows<{ id: string; ref: string }>(sql`select id, ref from projects where has_leftovers order by id`)

const noteDropped = (control: Database, id: string) =>
  control.run(sql`update projects set has_leftovers = false where id = ${id}`)

const deleteRow = (control: Database, id: string) => control.run(sql`delete from projects where id = ${id}`)

const listUnfinished = (control: Database) =>
  control.rows<{ id: string; ref: string; status: 'creating' | 'deleting' }>(
    sql`select id, ref, status from projects where status in ('creating', 'deleting')`,
  )
