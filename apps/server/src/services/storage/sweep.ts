// What nothing names is removed: uploads that were cut off, objects that were deleted by SQL, bytes that a crash has left
// behind. A file stays for as long as an object of the project names it, whatever else is known of it.
import type { Log } from '#src/kernel/log.ts'
import { plainBytes } from '#src/kernel/objects/layout.ts'
import type { PieceFound, Pieces } from '#src/kernel/objects/pieces.ts'
import type { Database } from '#src/kernel/postgres/database.ts'
import { sql } from '#src/kernel/postgres/sql.ts'
import { startWorker, type Worker } from '#src/kernel/worker.ts'
import type { Directory, Tenant } from '#src/tenancy/directory.ts'
import type { Ledger, StoredFile } from './ledger.ts'
import type { Removal } from './removal.ts'
import type { Store } from './store.ts'

const batch = 1000
const dayMs = 24 * 3_600_000
/** A file that has just been stored may not be in the ledger's snapshot yet. */
const freshMs = 3_600_000
/** Asked for because a quota was reached: not more often. */
const pauseMs = 10_000

interface SweepDeps {
  control: Database
  directory: Directory
  store: Store
  ledger: Ledger
  removal: Removal
  pieces: Pieces
  log: Log
}

export interface Sweeping {
  /** Of one project, now; false when it was done a moment ago. */
  sweep(tenant: Tenant): Promise<boolean>
  start(): Worker
}

interface Area {
  project_id: string
  isCompared: boolean
}

export function createSweeping(deps: SweepDeps): Sweeping {
  const { control, directory, store, ledger, removal, pieces, log } = deps
  const lastSwept = new Map<string, number>()

  /** Splits files into those that objects name and the rest, which goes unless it is being read. Answers how many are settled. */
  async function settle(tenant: Tenant, files: readonly StoredFile[]): Promise<number> {
    const named = await store.namedVersions(
      tenant,
      files.map(({ version }) => version),
    )
    const [kept, left] = [true, false].map(is => files.filter(({ version }) => named.has(version) === is))
    await confirm(
      control,
      kept!.map(({ version }) => version),
    )
    const gone = await removal.drop(tenant.id, left!)
    if (gone > 0) log.info({ project: tenant.id, files: gone }, 'removed files nothing names')
    return kept!.length + gone
  }

  async function sweepDue(tenant: Tenant): Promise<void> {
    await deleteExpired(control, tenant.id)
    for (;;) {
      const files = await findDue(control, tenant.id)
      // Those that are being read are left in the end.
      if (files.length === 0 || (await settle(tenant, files)) === 0) return
    }
  }

  /** Everything the ledger has, against everything the objects name. */
  async function compare(tenant: Tenant): Promise<void> {
    for (let after = '00000000-0000-0000-0000-000000000000'; ; ) {
      const files = await findConfirmed(control, tenant.id, after)
      if (files.length === 0) return
      await settle(tenant, files)
      after = files.at(-1)!.version
    }
  }

  /** Bytes that not even the ledger knows: a database that was restored may have forgotten some. */
  async function clearUnknown(tenant: Tenant): Promise<void> {
    const unnamed: string[] = []
    const forgotten = new Map<string, number>()
    for await (const found of inBatches(pieces.list(tenant.id))) {
      const old = found.filter(({ modifiedAt }) => Date.now() - modifiedAt.getTime() > freshMs)
      const unknown = await without(old, versions => ledger.find(tenant.id, versions))
      const named = await store.namedVersions(tenant, [...new Set(unknown.map(versionOf))])
      for (const piece of unknown) {
        const version = versionOf(piece)
        if (named.has(version)) forgotten.set(version, (forgotten.get(version) ?? 0) + piece.size)
        else unnamed.push(piece.name)
      }
    }
    await pieces.remove(unnamed)
    for (const [version, stored] of forgotten)
      await insertFound(control, tenant.id, { version, size: plainBytes(stored) })
    if (unnamed.length + forgotten.size > 0)
      log.warn(
        { project: tenant.id, removed: unnamed.length, found: forgotten.size },
        'bytes that nobody had counted were removed, or are counted now',
      )
  }

  async function without(found: PieceFound[], find: (versions: string[]) => Promise<StoredFile[]>) {
    const known = new Set((await find([...new Set(found.map(versionOf))])).map(({ version }) => version))
    return found.filter(piece => !known.has(versionOf(piece)))
  }

  /** Of projects that are gone: an upload that was under way may have left something after them. */
  async function clearFolders(): Promise<void> {
    for await (const folder of pieces.folders())
      if (await isDeletedProject(control, folder)) {
        await pieces.removeFolder(folder)
        log.info({ project: folder }, 'removed files of a project that is gone')
      }
  }

  async function act({ project_id, isCompared }: Area): Promise<void> {
    const tenant = await directory.find(project_id)
    if (!tenant) return
    await sweepDue(tenant)
    if (isCompared) return
    await compare(tenant)
    await clearUnknown(tenant)
    await recount(control, tenant.id)
  }

  return {
    async sweep(tenant) {
      const now = performance.now()
      if (now - (lastSwept.get(tenant.id) ?? Number.NEGATIVE_INFINITY) < pauseMs) return false
      lastSwept.set(tenant.id, now)
      setTimeout(() => lastSwept.delete(tenant.id), pauseMs).unref()
      await sweepDue(tenant)
      await compare(tenant)
      return true
    },

    start() {
      const clear = () =>
        void clearFolders().catch(error =>
          log.warn({ err: error }, 'folders of files could not be looked through'),
        )
      clear()
      const daily = setInterval(clear, dayMs).unref()
      const worker = startWorker<Area, 'done' | 'failed'>(
        {
          name: 'storage sweeper',
          claim: () => claimArea(control),
          nextDueMs: () => nextDueMs(control),
          act: area =>
            act(area).then(
              () => 'done',
              error => {
                log.warn({ err: error, project: area.project_id }, 'files could not be swept; trying again')
                return 'failed'
              },
            ),
          record: async ({ project_id, isCompared }, outcome) => {
            if (outcome === 'done') await noteSwept(control, project_id, !isCompared)
            else await sweepAgain(control, project_id)
          },
          atOnce: 2,
          pollMs: 60_000,
          graceMs: 2000,
        },
        log,
      )
      return {
        wake: worker.wake,
        close() {
          clearInterval(daily)
          return worker.close()
        },
      }
    },
  }
}

const versionOf = ({ name }: PieceFound) => name.slice(name.indexOf('/') + 1, name.lastIndexOf('.'))

async function* inBatches(found: AsyncIterable<PieceFound>): AsyncGenerator<PieceFound[]> {
  let some: PieceFound[] = []
  for await (const piece of found)
    if (some.push(piece) === batch) {
      yield some
      some = []
    }
  yield some
}

const numbered = (rows: { version: string; size: string }[]): StoredFile[] =>
  rows.map(({ version, size }) => ({ version, size: Number(size) }))

/** An area whose sweeper dies is tried again after the lease. */
async function claimArea(control: Database): Promise<Area | undefined> {
  const row = await control.row<{ project_id: string; is_compared: boolean }>(sql`
    update storage_areas set sweep_at = now() + interval '10 minutes'
     where project_id = (
       select project_id from storage_areas where sweep_at <= now() order by sweep_at limit 1 for update skip locked)
    returning project_id, compared_at > now() - make_interval(secs => ${dayMs / 1000}) as is_compared`)
  return row && { project_id: row.project_id, isCompared: row.is_compared }
}

const nextDueMs = async (control: Database) =>
  (
    await control.row<{ ms: number | null }>(
      sql`select (extract(epoch from min(sweep_at) - now()) * 1000)::float8 as ms from storage_areas`,
    )
  )?.ms ?? undefined

/** What is due and still being read is looked at again, though not at once. */
const noteSwept = (control: Database, project: string, isCompared: boolean) =>
  control.run(sql`
    update storage_areas a set
      sweep_at = greatest(now() + interval '1 minute', least(
        (select min(until) from stored_files f where f.project_id = a.project_id and until is not null),
        now() + interval '1 day')),
      compared_at = case when ${isCompared} then now() else compared_at end
     where project_id = ${project}`)

const sweepAgain = (control: Database, project: string) =>
  control.run(
    sql`update storage_areas set sweep_at = now() + interval '20 seconds' where project_id = ${project}`,
  )

const insertFound = (control: Database, project: string, { version, size }: StoredFile) =>
  control.run(sql`
    insert into stored_files (version, project_id, size) values (${version}, ${project}, ${size}) on conflict do nothing`)

/** Said of it here. What this database has never heard of may be another platform's, or of before a restore. */
const isDeletedProject = async (control: Database, id: string) =>
  (await control.row(sql`select from projects where id::text = ${id} and status = 'deleted'`)) !== undefined

const deleteExpired = (control: Database, project: string) =>
  control.run(sql`delete from storage_uploads where project_id = ${project} and expires_at <= now()`)

/** Not those that somebody is appending to at this moment. */
const findDue = async (control: Database, project: string) =>
  numbered(
    await control.rows(sql`
      select version, size from stored_files f
       where project_id = ${project} and until <= now()
         and not exists (select from storage_uploads u where u.version = f.version and u.held_until > now())
       limit ${batch}`),
  )

const findConfirmed = async (control: Database, project: string, after: string) =>
  numbered(
    await control.rows(sql`
      select version, size from stored_files
       where project_id = ${project} and until is null and version > ${after}::uuid order by version limit ${batch}`),
  )

const confirm = (control: Database, versions: readonly string[]) =>
  control.run(
    sql`update stored_files set until = null where version = any(${versions}::uuid[]) and until is not null`,
  )

/** The sum is kept by every change; here it is put right, should it ever not be. Added up while nobody changes it. */
const recount = (control: Database, project: string) =>
  control.transaction(async session => {
    await session.run(sql`select from storage_areas where project_id = ${project} for update`)
    await session.run(sql`
      update storage_areas
         set bytes = (select coalesce(sum(size), 0) from stored_files where project_id = ${project})
       where project_id = ${project}`)
  })
