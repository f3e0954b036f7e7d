// Branches, and the tasks that create and reset them.
import type { Branch, BranchMethod } from '@plinth/contract/branches.ts'
import type { Database, Session } from '#src/kernel/postgres/database.ts'
import { sql } from '#src/kernel/postgres/sql.ts'
import type { Paging } from '#src/planes/management/paging.ts'
import { replacedOf, resetOf } from '#src/tenancy/provision.ts'

export type BranchRow = Omit<Branch, 'api_url' | 'size_bytes'> & { ref: string }

/** Not a task of which only files are to be removed. */
const isBusy = sql`(not t.is_cancelled or t.progress is not null)`
const shown = sql`
  b.project_id as id, b.name, b.slug, b.parent_id, b.status, b.schema_only, b.method, b.error, b.created_at, b.copied_at,
  b.expires_at, p.ref,
  (select coalesce(t.progress, '{"step": "waiting", "bytes": 0}'::jsonb) from branch_tasks t
    where t.branch_id = b.project_id and ${isBusy} order by t.is_cancelled limit 1) as progress`
const present = sql`branches b join projects p on p.id = b.project_id`

export async function listBranches(
  control: Database,
  parentId: string,
  { limit, offset }: Paging,
): Promise<{ branches: BranchRow[]; total: number }> {
  const [branches, count] = await Promise.all([
    control.rows<BranchRow>(sql`
      select ${shown} from ${present} where b.parent_id = ${parentId}
       order by b.created_at desc, b.project_id limit ${limit} offset ${offset}`),
    control.row<{ total: number }>(
      sql`select count(*)::int as total from branches where parent_id = ${parentId}`,
    ),
  ])
  return { branches, total: count?.total ?? 0 }
}

export const findBranch = (control: Session, parentId: string, slug: string) =>
  control.row<BranchRow>(
    sql`select ${shown} from ${present} where b.parent_id = ${parentId} and b.slug = ${slug}`,
  )

export const isBranch = async (control: Session, id: string) =>
  (await control.row(sql`select from branches where project_id = ${id}`)) !== undefined

/** Null if it has no database. */
export const readSize = async (control: Session, database: string) =>
  (
    await control.row<{ bytes: number | null }>(sql`
      select pg_database_size(oid)::float8 as bytes from pg_database where datname = ${database}`)
  )?.bytes ?? null

// Creation and deletion

export interface NewBranchRow {
  id: string
  parentId: string
  name: string
  slug: string
  schemaOnly: boolean
  expiresAt: string | null
}

/** Serializes creations and the deletion of the parent. False if the parent is not served any more. */
export const lockParent = async (session: Session, parentId: string) =>
  (await session.row(
    sql`select from projects where id = ${parentId} and status in ('active', 'suspended') for no key update`,
  )) !== undefined

export const countBranches = async (session: Session, parentId: string) =>
  (await session.row<{ count: number }>(
    sql`select count(*)::int as count from branches where parent_id = ${parentId}`,
  ))!.count

/** False if the parent has another branch with this slug. */
export const insertBranch = async (session: Session, branch: NewBranchRow) =>
  (await session.run(sql`
    insert into branches (project_id, parent_id, name, slug, schema_only, expires_at)
    values (${branch.id}, ${branch.parentId}, ${branch.name}, ${branch.slug}, ${branch.schemaOnly}, ${branch.expiresAt})
    on conflict (parent_id, slug) do nothing`)) === 1

export const deleteBranch = (control: Session, id: string) =>
  control.run(sql`delete from branches where project_id = ${id}`)

export const listSlugs = async (session: Session, parentId: string, limit: number) =>
  (
    await session.rows<{ slug: string }>(
      sql`select slug from branches where parent_id = ${parentId} order by slug limit ${limit}`,
    )
  ).map(({ slug }) => slug)

export const listExpired = (control: Session) =>
  control.rows<{ id: string; parent_id: string }>(
    sql`select project_id as id, parent_id from branches where expires_at <= now() order by expires_at`,
  )

// Tasks

export interface Task {
  id: string
  /** That of the parent. One branch of a project is made at a time. */
  project_id: string
  branch_id: string
  kind: 'create' | 'reset'
  attempts: number
  claimed_at: string
}

/** False if the branch has a task already. */
export const insertTask = async (
  session: Session,
  { id, branchId, parentId, kind }: { id: string; branchId: string; parentId: string; kind: Task['kind'] },
) =>
  (await session.run(sql`
    insert into branch_tasks (id, branch_id, parent_id, kind) values (${id}, ${branchId}, ${parentId}, ${kind})
    on conflict (branch_id) where not is_cancelled do nothing`)) === 1

/** The creation begins again, after it has failed. */
export const markCreating = (session: Session, id: string) =>
  session.run(sql`update branches set status = 'creating', error = null where project_id = ${id}`)

/** The node that works on it notices this. */
export const cancelTask = async (control: Session, branchId: string) =>
  (await control.run(sql`update branch_tasks set is_cancelled = true where branch_id = ${branchId}`)) > 0

export const isWanted = async (control: Session, { id, attempts }: Task) =>
  (await control.row(
    sql`select from branch_tasks where id = ${id} and attempts = ${attempts} and not is_cancelled`,
  )) !== undefined

/** Whether another node has begun the task again. */
export const isElsewhere = async (control: Session, { id, attempts }: Task) =>
  (await control.row(sql`select from branch_tasks where id = ${id} and attempts <> ${attempts}`)) !==
  undefined

/** Tasks that no node works on, the oldest one of each parent. Not those of which only files are to be removed. */
export const claimTasks = (
  control: Session,
  limit: number,
  busyParents: readonly string[],
  leaseSeconds: number,
) =>
  control.rows<Task>(sql`
    update branch_tasks set leased_until = now() + make_interval(secs => ${leaseSeconds}), attempts = attempts + 1
     where id in (
       select t.id from branch_tasks t
        where ${isBusy} and (t.leased_until is null or t.leased_until <= now()) and t.parent_id <> all(${busyParents}::uuid[])
          and not exists (
            select from (select * from branch_tasks t where ${isBusy}) o
             where o.parent_id = t.parent_id and (o.created_at, o.id) < (t.created_at, t.id))
        order by t.created_at limit ${limit} for update skip locked)
    returning id, parent_id as project_id, branch_id, kind, attempts, now() as claimed_at`)

export const nextDueMs = async (control: Session, busyParents: readonly string[]) =>
  (
    await control.row<{ ms: number | null }>(sql`
      select (extract(epoch from min(coalesce(leased_until, now())) - now()) * 1000)::float8 as ms
        from branch_tasks t where ${isBusy} and parent_id <> all(${busyParents}::uuid[])`)
  )?.ms ?? undefined

/** Tasks of which only files are to be removed, and that no node works on. */
export const claimFileTasks = (control: Session, limit: number, leaseSeconds: number) =>
  control.rows<Task>(sql`
    update branch_tasks set leased_until = now() + make_interval(secs => ${leaseSeconds}), attempts = attempts + 1
     where id in (
       select t.id from branch_tasks t
        where not ${isBusy} and (t.leased_until is null or t.leased_until <= now())
        order by t.leased_until nulls first limit ${limit} for update skip locked)
    returning id, parent_id as project_id, branch_id, kind, attempts, now() as claimed_at`)

export const nextFilesDueMs = async (control: Session) =>
  (
    await control.row<{ ms: number | null }>(sql`
      select (extract(epoch from min(coalesce(leased_until, now())) - now()) * 1000)::float8 as ms
        from branch_tasks t where not ${isBusy}`)
  )?.ms ?? undefined

export const countTasks = async (session: Session) =>
  (await session.row<{ count: number }>(sql`select count(*)::int as count from branch_tasks`))!.count

/** False if another node has begun the task again. */
export const deleteTask = async (session: Session, { id, attempts }: Task) =>
  (await session.run(sql`delete from branch_tasks where id = ${id} and attempts = ${attempts}`)) === 1

/** In the transaction in which the branch gets its state, so that nothing is done twice. False if another node works on it. */
export const endTask = async (session: Session, { id, attempts }: Task) =>
  (await session.run(sql`
    update branch_tasks set is_cancelled = true where id = ${id} and attempts = ${attempts} and not is_cancelled`)) ===
  1

/** For a task that has ended and whose files could not be removed. A node that claims it again does only that. */
export const keepForFiles = async (session: Session, { id, attempts }: Task, pauseSeconds: number) =>
  (await session.run(sql`
    update branch_tasks set is_cancelled = true, progress = null, leased_until = now() + make_interval(secs => ${pauseSeconds})
     where id = ${id} and attempts = ${attempts}`)) === 1

/** For a task that the stop of Postgres has interrupted. It is begun again soon. */
export const postponeTask = (control: Session, { id, attempts }: Task, pauseSeconds: number) =>
  control.run(sql`
    update branch_tasks set leased_until = now() + make_interval(secs => ${pauseSeconds}), progress = null
     where id = ${id} and attempts = ${attempts}`)

/** For a task that was interrupted, or on which another node works. */
export const releaseTask = (control: Session, { id, attempts }: Task, pauseSeconds: number) =>
  control.run(sql`
    update branch_tasks set leased_until = now() + make_interval(secs => ${pauseSeconds}), attempts = attempts - 1, progress = null
     where id = ${id} and attempts = ${attempts}`)

export interface TaskBranch {
  id: string
  ref: string
  parentId: string
  parentRef: string
  schemaOnly: boolean
  status: Branch['status']
}

/** Undefined if the branch was deleted. */
export const findTaskBranch = (control: Session, id: string) =>
  control.row<TaskBranch>(sql`
    select b.project_id as id, p.ref, b.parent_id as "parentId", parent.ref as "parentRef",
           b.schema_only as "schemaOnly", b.status
      from branches b join projects p on p.id = b.project_id and p.status in ('creating', 'active', 'suspended')
      join projects parent on parent.id = b.parent_id
     where b.project_id = ${id}`)

/** In the transaction in which the branch gets its state. */
export const recordCopied = (session: Session, id: string, method: BranchMethod) =>
  session.run(sql`
    update branches set status = 'active', error = null, method = ${method}, copied_at = clock_timestamp()
     where project_id = ${id}`)

export const recordFailed = (session: Session, id: string, error: string) =>
  session.run(sql`
    update branches set error = ${error}, status = case status when 'creating' then 'failed' else status end
     where project_id = ${id}`)

/** Quotas of a branch are the operator's, and are not part of the state that a reset replaces. */
export const readQuotas = async (session: Session, id: string) =>
  (await session.row<{ quotas: object }>(
    sql`select quotas from projects where id = ${id} for no key update`,
  ))!.quotas

/** A reset takes the settings of the parent, and its release of the schema. */
export const saveReset = (session: Session, id: string, version: string, quotas: object) =>
  session.run(sql`
    update projects set schema_version = ${version}, quotas = ${JSON.stringify(quotas)}, updated_at = now() where id = ${id}`)

export const insertAudit = (session: Session, action: string, branchId: string, parentId: string) =>
  session.run(sql`
    insert into audit (actor_kind, actor_label, action, target, project_id)
    values ('system', 'platform', ${action}, ${branchId}, ${parentId})`)

/** For a transaction that has run no statement yet. */
export const useOneSnapshot = (session: Session) =>
  session.run(sql`set transaction isolation level repeatable read, read only`)

/** Held by the node that resets a branch. Its deletion needs the same lock. */
export const tryLock = async (session: Session, id: string) =>
  (await session.row<{ taken: boolean }>(
    sql`select pg_try_advisory_lock(hashtextextended(${id}, 0)) as taken`,
  ))!.taken

export const unlock = (session: Session, id: string) =>
  session.run(sql`select pg_advisory_unlock(hashtextextended(${id}, 0))`)

/** Branches without a task that have a database of a reset. */
export const listWithCopies = (session: Session) =>
  session.rows<{ id: string; ref: string }>(sql`
    select p.id, p.ref from branches b join projects p on p.id = b.project_id
     where exists (select from pg_database where datname in (p.ref || ${resetOf('')}, p.ref || ${replacedOf('')}))
       and not exists (select from branch_tasks t where t.branch_id = p.id)`)

export const hasTask = async (session: Session, id: string) =>
  (await session.row(sql`select from branch_tasks where branch_id = ${id}`)) !== undefined
