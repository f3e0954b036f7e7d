// What a project's files take, kept in the control database where no owner can change it. Room is taken before a byte is
// stored and given back when the bytes are gone, so the sum never passes the quota, whoever uploads at the same time.
import { createSecretKey, type KeyObject, randomBytes } from 'node:crypto'
import type { Sealer } from '#src/kernel/crypto/sealed.ts'
import type { Database } from '#src/kernel/postgres/database.ts'
import { sql } from '#src/kernel/postgres/sql.ts'

export interface StoredFile {
  version: string
  size: number
}

export interface Ledger {
  /** The key of a project's files; made when it is first asked for. */
  dataKey(project: string): Promise<KeyObject>
  /** False when it does not fit. */
  take(project: string, file: StoredFile, until: Date, limit: number): Promise<boolean>
  /** The file takes this many bytes now. False when they do not fit, and nothing has changed. */
  resize(project: string, file: StoredFile, limit: number): Promise<boolean>
  find(project: string, versions: readonly string[]): Promise<StoredFile[]>
  /** The bytes are gone. */
  drop(project: string, versions: readonly string[]): Promise<void>
  usedBytes(project: string): Promise<number>
  forget(project: string): void
}

const keyContext = (project: string) => `storage_areas.data_key:${project}`
const firstSweepMs = 15 * 60_000
const rememberedKeys = 1000

export function createLedger(control: Database, sealer: Sealer): Ledger {
  const keys = new Map<string, Promise<KeyObject>>()

  async function findOrMakeKey(project: string): Promise<KeyObject> {
    const found = await findKey(control, project)
    const sealed = found ?? (await makeKey(project))
    return createSecretKey(Buffer.from(sealer.open(sealed, keyContext(project)), 'base64'))
  }

  async function makeKey(project: string): Promise<string> {
    const sealed = sealer.seal(randomBytes(32).toString('base64'), keyContext(project))
    await insertArea(control, project, sealed, new Date(Date.now() + firstSweepMs))
    // Another may have been first.
    return (await findKey(control, project)) ?? sealed
  }

  return {
    dataKey(project) {
      const known = keys.get(project)
      if (known) return known
      const found = findOrMakeKey(project)
      if (keys.size >= rememberedKeys) keys.delete(keys.keys().next().value!)
      keys.set(project, found)
      found.catch(() => keys.delete(project))
      return found
    },
    async take(project, { version, size }, until, limit) {
      const taken = await takeRoom(control, project, version, size, until, limit)
      return taken === 1
    },
    resize: async (project, file, limit) => (await resizeFile(control, project, file, limit)) === 1,
    find: (project, versions) => findFiles(control, project, versions),
    async drop(project, versions) {
      if (versions.length > 0) await dropFiles(control, project, versions)
    },
    usedBytes: async project =>
      Number(
        (
          await control.row<{ bytes: string }>(
            sql`select bytes from storage_areas where project_id = ${project}`,
          )
        )?.bytes ?? 0,
      ),
    forget: project => void keys.delete(project),
  }
}

const findKey = async (control: Database, project: string) =>
  (
    await control.row<{ data_key: string }>(
      sql`select data_key from storage_areas where project_id = ${project}`,
    )
  )?.data_key

const insertArea = (control: Database, project: string, key: string, sweepAt: Date) =>
  control.run(sql`
    insert into storage_areas (project_id, data_key, sweep_at) values (${project}, ${key}, ${sweepAt})
    on conflict do nothing`)

/**
 * Not waiting for the disk keeps the row of the area free for others. Nothing is lost by that: whatever is committed
 * later on, such as the object that names the file, is written to the same log after it.
 */
const soon = sql`select set_config('synchronous_commit', 'off', true)`

const takeRoom = (
  control: Database,
  project: string,
  version: string,
  size: number,
  until: Date,
  limit: number,
) =>
  control.repeat(sql`
    with soon as materialized (${soon}),
    area as (
      update storage_areas set bytes = bytes + ${size}, sweep_at = least(sweep_at, ${until}::timestamptz)
        from soon
       where project_id = ${project} and bytes + ${size} <= ${limit}::bigint
      returning project_id)
    insert into stored_files (version, project_id, size, until) select ${version}, project_id, ${size}, ${until} from area`)

const resizeFile = (control: Database, project: string, { version, size }: StoredFile, limit: number) =>
  control.repeat(sql`
    with soon as materialized (${soon}),
    area as (
      update storage_areas a set bytes = a.bytes + ${size} - f.size from soon, stored_files f
       where a.project_id = ${project} and f.version = ${version} and f.project_id = a.project_id
         and (${size} <= f.size or a.bytes + ${size} - f.size <= ${limit}::bigint)
      returning a.project_id)
    update stored_files f set size = ${size} from area where f.version = ${version}`)

const findFiles = async (
  control: Database,
  project: string,
  versions: readonly string[],
): Promise<StoredFile[]> => {
  const rows = await control.repeatRows<{ version: string; size: string }>(sql`
    select version, size from stored_files where project_id = ${project} and version = any(${versions}::uuid[])`)
  return rows.map(({ version, size }) => ({ version, size: Number(size) }))
}

const dropFiles = (control: Database, project: string, versions: readonly string[]) =>
  control.repeat(sql`
    with soon as materialized (${soon}),
    dropped as (
      delete from stored_files using soon
       where project_id = ${project} and version = any(${versions}::uuid[]) returning size)
    update storage_areas set bytes = bytes - (select coalesce(sum(size), 0) from dropped) where project_id = ${project}`)
