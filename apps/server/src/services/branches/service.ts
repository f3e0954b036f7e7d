// Branches of a project: create, list, compare, reset, delete.
import { setTimeout as sleep } from 'node:timers/promises'
import {
  type Branch,
  type CreatedBranch,
  defaultMaxBranches,
  type NewBranch,
} from '@plinth/contract/branches.ts'
import type { Sealer } from '#src/kernel/crypto/sealed.ts'
import { Refusal } from '#src/kernel/errors.ts'
import type { JsonText } from '#src/kernel/json-text.ts'
import type { Log } from '#src/kernel/log.ts'
import { orderedUuid } from '#src/kernel/ordered-uuid.ts'
import type { Database, Session } from '#src/kernel/postgres/database.ts'
import { type Actor, ownerIdOf } from '#src/planes/management/actor.ts'
import type { OwnerWork } from '#src/planes/management/owner-work.ts'
import type { Paging } from '#src/planes/management/paging.ts'
import type { Directory, Tenant } from '#src/tenancy/directory.ts'
import type { Lifecycle } from '#src/tenancy/lifecycle.ts'
import { insertNewProject, plainSlugFrom, shortestSlug } from '#src/tenancy/new-project.ts'
import type { WhenUpgraded } from '#src/tenancy/upgrades.ts'
import { checkSpace } from './space.ts'
import * as store from './store.ts'

interface BranchesDeps {
  control: Database
  owner: Pick<OwnerWork, 'tenant'>
  directory: Directory
  lifecycle: Lifecycle
  sealer: Sealer
  baseUrl(): string
  log: Log
  wake(): void
  freeForDatabases(): Promise<number | undefined>
  whenUpgraded: WhenUpgraded
  /** Whether a copy can share blocks with the parent, and so needs little space. */
  sharesBlocks(): Promise<boolean>
  /** What turns the schema of the first project into that of the second. */
  compare(parentId: string, branchId: string): Promise<JsonText>
}

export type BranchesService = ReturnType<typeof branchesService>

const spans: Readonly<Record<string, number>> = { m: 60_000, h: 3_600_000, d: 86_400_000, w: 604_800_000 }
/** Later years have more than four digits, which Postgres and other programs read in different ways. */
const latestExpiry = Date.parse('9999-12-31T23:59:59.999Z')
/** How long a deletion waits for the task that it has cancelled. */
const cancelWait = { everyMs: 250, times: 120 }
const namedSlugs = 5

export function branchesService(deps: BranchesDeps) {
  const { control, owner, directory, lifecycle, sealer, baseUrl, wake, log } = deps

  async function toBranch({ ref, ...row }: store.BranchRow): Promise<Branch> {
    const size_bytes = row.status === 'active' ? await store.readSize(control, ref) : null
    return { ...row, size_bytes, api_url: `${baseUrl()}/v1/${row.id}` }
  }

  const find = async (parentId: string, slug: string): Promise<store.BranchRow> =>
    (await store.findBranch(control, parentId, slug)) ?? throwNotFound(slug)

  /** A branch of a database of an older release could not be completed. */
  async function checkCopyable(parentRef: string, schemaOnly: boolean): Promise<void> {
    await deps.whenUpgraded(parentRef, 'owner')
    if (!(await deps.sharesBlocks())) await checkSpace(deps, { parentRef, schemaOnly })
  }

  /** In the transaction that inserts the project of the branch. */
  async function insert(session: Session, parent: Tenant, branch: store.NewBranchRow): Promise<void> {
    if (!(await store.lockParent(session, parent.id)))
      throw new Refusal('project_not_found', 'No project has this id')
    const most = parent.quotas.max_branches ?? defaultMaxBranches
    if ((await store.countBranches(session, parent.id)) >= most)
      throw new Refusal(
        'too_many_branches',
        `The project has as many branches as its quota max_branches allows, which is ${most}; delete one first`,
      )
    if (!(await store.insertBranch(session, branch)))
      throw new Refusal(
        'branch_exists',
        `The project has a branch "${branch.slug}" already; choose another name, or reset or delete that branch`,
      )
    await store.insertTask(session, {
      id: orderedUuid(),
      branchId: branch.id,
      parentId: parent.id,
      kind: 'create',
    })
  }

  /** The lock of the project is held while a task works on it, which ends soon after it was cancelled. */
  async function removeProject(id: string): Promise<void> {
    const wasBusy = await store.cancelTask(control, id)
    for (let tries = 0; ; tries++)
      try {
        await lifecycle.remove(id)
        break
      } catch (error) {
        if (!(error instanceof Refusal)) throw error
        // Removed by another request or by the expiry.
        if (error.code === 'project_not_found') break
        if (error.code !== 'project_busy' || !wasBusy || tries >= cancelWait.times) throw error
        await sleep(cancelWait.everyMs)
      }
    directory.forget(id)
    wake()
  }

  return {
    async list(parentId: string, paging: Paging) {
      const { id } = await owner.tenant(parentId)
      const { branches, total } = await store.listBranches(control, id, paging)
      return { branches: await Promise.all(branches.map(toBranch)), total, ...paging }
    },

    async read(parentId: string, slug: string): Promise<Branch> {
      const { id } = await owner.tenant(parentId)
      return toBranch(await find(id, slug))
    },

    async create(actor: Actor, parentId: string, given: NewBranch): Promise<CreatedBranch> {
      if ((given.from ?? 'current') !== 'current')
        throw new Refusal(
          'branch_source_unsupported',
          'A branch begins with the present state of its parent: "from" must be "current" or absent. For an earlier state, restore a backup as a new project',
        )
      const expiresAt = expiryOf(given, Date.now())
      const parent = await owner.tenant(parentId)
      if (await store.isBranch(control, parent.id))
        throw new Refusal(
          'branch_of_branch',
          'This project is a branch, and branches have no branches; create the branch of its parent',
        )
      const name = given.name.trim()
      const slug = plainSlugFrom(name)
      if (slug.length < shortestSlug) throw shortName()
      await checkCopyable(parent.ref, given.schema_only ?? false)
      const id = crypto.randomUUID()
      const branch = {
        id,
        parentId: parent.id,
        name,
        slug,
        schemaOnly: given.schema_only ?? false,
        expiresAt,
      }
      const plan = {
        id,
        name: `${parent.name} (${name})`.slice(0, 100),
        slug: undefined,
        description: '',
        settings: {},
        quotas: {},
        ownerId: ownerIdOf(actor),
      }
      const { keys } = await insertNewProject(sealer, plan, row =>
        lifecycle.begin(row, session => insert(session, parent, branch)),
      )
      wake()
      return { ...(await toBranch(await find(parent.id, slug))), ...keys }
    },

    async remove(parentId: string, slug: string): Promise<void> {
      const { id } = await owner.tenant(parentId)
      await removeProject((await find(id, slug)).id)
    },

    async diff(parentId: string, slug: string): Promise<JsonText> {
      const { id } = await owner.tenant(parentId)
      const branch = await find(id, slug)
      if (branch.status !== 'active') throw notReady(branch)
      return deps.compare(id, branch.id)
    },

    async reset(parentId: string, slug: string): Promise<Branch> {
      const { id, ref } = await owner.tenant(parentId)
      const branch = await find(id, slug)
      if (branch.status === 'creating') throw notReady(branch)
      await checkCopyable(ref, branch.schema_only)
      const kind = branch.status === 'failed' ? 'create' : 'reset'
      await control.transaction(async session => {
        const task = { id: orderedUuid(), branchId: branch.id, parentId: id, kind } as const
        if (!(await store.insertTask(session, task))) throw notReady(branch)
        if (kind === 'create') await store.markCreating(session, branch.id)
      })
      wake()
      return toBranch(await find(id, slug))
    },

    /** Deletes branches whose time is over. */
    async removeExpired(): Promise<void> {
      for (const { id, parent_id: parentId } of await store.listExpired(control))
        try {
          await removeProject(id)
          await store.insertAudit(control, 'branch.expired', id, parentId)
        } catch (error) {
          log.warn({ err: error, project: id }, 'could not delete an expired branch; will retry')
        }
    },

    /** Throws if a project has branches, and so cannot be deleted. */
    async checkRemovable(session: Session, projectId: string): Promise<void> {
      const slugs = await store.listSlugs(session, projectId, namedSlugs + 1)
      if (slugs.length === 0) return
      const named = slugs.slice(0, namedSlugs).join(', ')
      throw new Refusal(
        'project_has_branches',
        `The project has branches: ${named}${slugs.length > namedSlugs ? ' and more' : ''}; delete them first`,
      )
    },
  }
}

const shortName = () =>
  new Refusal(
    'invalid_request',
    `The name of a branch needs at least ${shortestSlug} of the letters a to z and digits`,
  )

/** Null if the branch does not expire. */
function expiryOf(given: NewBranch, now: number): string | null {
  const { expires_in: span = null, expires_at: at = null } = given
  if (span !== null && at !== null)
    throw new Refusal('invalid_request', 'Give either "expires_in" or "expires_at", not both')
  if (span !== null) {
    const end = now + Number(span.slice(0, -1)) * spans[span.at(-1)!]!
    if (end > latestExpiry) throw new Refusal('invalid_request', '"expires_in" ends after the year 9999')
    return new Date(end).toISOString()
  }
  if (at === null) return null
  if (Date.parse(at) <= now) throw new Refusal('invalid_request', '"expires_at" is in the past')
  return at
}

const notReady = ({ slug, status }: store.BranchRow) =>
  new Refusal(
    'branch_not_ready',
    status === 'failed'
      ? `The creation of the branch "${slug}" has failed; reset it to try again, or delete it`
      : `The branch "${slug}" is being ${status === 'creating' ? 'created' : 'reset'}; wait until that has ended`,
  )

function throwNotFound(slug: string): never {
  throw new Refusal('branch_not_found', `The project has no branch "${slug}"`)
}
