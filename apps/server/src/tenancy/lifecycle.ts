// A project comes into being, or goes, as one operation that completes or leaves nothing. The row is written
// first and finished last, and an advisory lock says that somebody is at work on it: a row still 'creating'
// or 'deleting' whose lock is free belongs to a platform that died, and is removed at the next start.
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
  /** Removes what a platform that died left half-made or half-removed. */
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

export function createLifecycle(
  control: Database,
  cluster: Cluster,
  provisioner: Provisioner,
  log: Log,
  attachments: readonly Attachment[] = [],
): Lifecycle {
  const turn = createTurns(atOnce)

  /** Runs the work while holding the project's lock; undefined when somebody else holds it. */
  const whileLocked = <T>(id: string, work: () => Promise<T>): Promise<T | undefined> =>
    turn(() =>
      control.transaction(async session => {
        const lock = await session.row<{ taken: boolean }>(
          sql`select pg_try_advisory_xact_lock(hashtextextended(${id}, 0)) as taken`,
        )
        return lock?.taken ? work() : undefined
      }),
    )

  async function undo({ id, ref }: Pick<NewProject, 'id' | 'ref'>): Promise<void> {
    await provisioner.drop(ref)
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
    await provisioner.drop(ref)
    for (const attachment of attachments) await attachment.removed(id)
    await markDeleted(control, id)
  }

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
    recoverInBackground: () => void recover().catch(recoverSoon),
    close() {
      isClosed = true
      clearTimeout(recovering)
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
const markDeleted = (control: Database, id: string) =>
  control.run(sql`
    update projects set status = 'deleted', deleted_at = now(), updated_at = now(), settings = '{}',
           anon_key = '', service_role_key = '', jwt_secret = ''
     where id = ${id}`)

const deleteRow = (control: Database, id: string) => control.run(sql`delete from projects where id = ${id}`)

const listUnfinished = (control: Database) =>
  control.rows<{ id: string; ref: string; status: 'creating' | 'deleting' }>(
    sql`select id, ref, status from projects where status in ('creating', 'deleting')`,
  )
