// Restores the database of an archive into a new, empty database. What the tenant owns is created and filled by the login
// of the tenant: while rows come in, generated columns, checks and domains run its functions, which must not happen with
// the rights of the superuser. The superuser creates only what the platform owns.
import { type CopySession, dumpSettings, withCopySession } from '#src/kernel/postgres/copy.ts'
import { contentsOf, type DumpedObject } from '#src/kernel/postgres/dump/contents.ts'
import type { ServerAddress } from '#src/kernel/postgres/server-address.ts'
import { inSlices } from '#src/kernel/slices.ts'
import type { ArchiveReader } from './archive.ts'
import * as store from './database-store.ts'
import type { ArchivedTable } from './manifest.ts'
import { isTenantRole, isTenants, tenantStatement } from './object-makers.ts'
import type { Watching } from './write-database.ts'

export interface RestoreTarget {
  /** The superuser. */
  address: ServerAddress
  /** The owner of the project, as the login that it has in this project. */
  owner: ServerAddress
  /** A database on the same server from which this one can be created. */
  control: string
  database: string
  /** The names in the archive begin with this ref, and with the other one here. */
  refs: { from: string; to: string }
}

const lanes = 2
const largeObjectsAtOnce = 500
const skippedKinds: readonly string[] = [
  'ENCODING',
  'STDSTRINGS',
  'SEARCHPATH',
  'DATABASE',
  'DATABASE PROPERTIES',
]
/** Event triggers would act on what is created after them, and publications need their tables. */
const lastKinds = /^(EVENT TRIGGER|DEFAULT ACL|PUBLICATION)/
/** Kinds whose owner is that of their table. */
const partKinds =
  /CONSTRAINT|TRIGGER|INDEX|POLICY|DEFAULT|RULE|COMMENT|ACL|ROW SECURITY|ATTACH|PUBLICATION TABLE/

const superuserSettings = { ...dumpSettings, check_function_bodies: 'off', synchronous_commit: 'off' }
const ownerSettings = {
  search_path: '',
  role: 'none',
  local_preload_libraries: '',
  statement_timeout: '0',
  check_function_bodies: 'off',
  synchronous_commit: 'off',
  DateStyle: 'ISO, MDY',
  IntervalStyle: 'postgres',
  TimeZone: 'UTC',
}

/** An object of the backup could not be created. */
export class NotRestorable extends Error {
  constructor({ kind, schema, tag }: DumpedObject, cause: Error) {
    super(`${kind} ${schema === undefined ? '' : `${schema}.`}${tag}: ${cause.message}`, { cause })
    this.name = 'NotRestorable'
  }
}

interface Sessions {
  superuser: CopySession
  owner: CopySession
}

export async function restoreDatabase(
  archive: ArchiveReader,
  target: RestoreTarget,
  watching: Watching,
): Promise<void> {
  const { address, owner, control, database, refs } = target
  const { signal } = watching
  const { database: contents } = archive.manifest
  const renamed = (text: string) => (refs.from === refs.to ? text : text.replaceAll(refs.from, refs.to))
  await withCopySession(address, control, { settings: superuserSettings, signal }, async session => {
    await session.run(store.createEmpty(database))
    await session.run(store.closeToOthers(database, owner.user))
  })
  const extensionOwners = new Map(contents.extensions.map(each => [each.name, each.owner]))
  const objects = (await inSlices(contentsOf(await archive.readWhole(contents.schema))))
    .filter(({ kind }) => !skippedKinds.includes(kind))
    .map(each => ({
      ...each,
      sql: renamed(each.sql),
      drop: renamed(each.drop),
      owner: renamed(each.kind === 'EXTENSION' ? (extensionOwners.get(each.tag) ?? '') : each.owner),
    }))
  /** Those of other roles of the project are created by its owner, too, and given to them at the end. */
  const isOthers = ({ owner: role }: DumpedObject) => role !== owner.user && isTenantRole(role, refs.to)

  const withSessions = <T>(work: (sessions: Sessions) => Promise<T>) =>
    withCopySession(address, database, { settings: superuserSettings, signal }, superuser =>
      withCopySession(owner, database, { settings: ownerSettings, signal }, session =>
        work({ superuser, owner: session }),
      ),
    )

  await withSessions(async sessions => {
    const create = (object: DumpedObject) =>
      createObject(sessions, object, isTenants(object, refs.to) && !(isRight(object) && isOthers(object)))
    const createAll = async (some: readonly DumpedObject[]) => {
      for (const object of some) await create(object)
    }
    const schemas = objects.filter(({ kind }) => kind === 'SCHEMA')
    for (const schema of schemas)
      if (schema.tag === 'public') await sessions.superuser.run(store.ownSchema('public', schema.owner))
      else await create(schema)
    // The owner may use schemas of the platform until all is restored, and create in those in which it has objects.
    const lent = schemas.filter(({ owner: role }) => !isTenantRole(role, refs.to)).map(({ tag }) => tag)
    const homes = new Set(
      objects.filter(each => isTenantRole(each.owner, refs.to)).map(({ schema }) => schema),
    )
    const lentHomes = lent.filter(schema => homes.has(schema))
    await sessions.superuser.run(store.lendSchemas(lent, lentHomes, owner.user))
    await createAll(
      objects.filter(each => each.section === 'pre' && each.kind !== 'SCHEMA' && !isGrant(each)),
    )
    const isFilledByTenant = (table: ArchivedTable) => isTenantRole(renamed(table.owner), refs.to)
    await fillTables(archive, sessions, withSessions, isFilledByTenant, watching)
    await restoreValues(archive, sessions, renamed)
    // Before foreign keys and triggers, which need rights on the tables they refer to.
    const grants = objects.filter(isGrant)
    await createAll(grants.filter(each => !isOthers(each)))
    const after = objects.filter(({ section, kind }) => section === 'post' && !isGrant({ kind }))
    await createAll(after.filter(({ kind }) => !lastKinds.test(kind)))
    await createAll(objects.filter(isComment))
    for (const { name } of contents.materialized) await sessions.owner.run(store.refresh(name))
    await giveToOthers(sessions, objects.filter(isOthers), create)
    await createAll(objects.filter(({ kind }) => lastKinds.test(kind)))
    await sessions.superuser.run(store.takeBackSchemas(lent, owner.user))
    await createAll(grants.filter(({ tag }) => lent.some(schema => tag === `SCHEMA ${schema}`)))
    await sessions.superuser.run(store.analyze)
  })
}

const isComment = ({ kind, tag, section }: DumpedObject) =>
  kind === 'COMMENT' && !tag.startsWith('EXTENSION ') && section !== 'post'

/** They run no code. Those of other roles than the owner need the superuser. */
const isRight = ({ kind }: DumpedObject) => kind.endsWith('ACL')

const isGrant = ({ kind }: Pick<DumpedObject, 'kind'>) => kind.endsWith('ACL') && kind !== 'DEFAULT ACL'

async function createObject(sessions: Sessions, object: DumpedObject, byTenant: boolean): Promise<void> {
  if (object.sql.trim() === '') return
  try {
    if (byTenant) return await sessions.owner.run(tenantStatement(object))
    await sessions.superuser.run(object.sql)
    await giveObject(sessions, object)
  } catch (error) {
    throw new NotRestorable(object, error as Error)
  }
}

/** Runs no code of the tenant. */
async function giveObject({ superuser }: Sessions, { drop, owner, kind }: DumpedObject): Promise<void> {
  const subject = /^DROP (?:SCHEMA IF EXISTS|)(.*?);?\s*$/s.exec(drop)?.[1]?.trim()
  if (subject && owner !== '' && !partKinds.test(kind) && kind !== 'EXTENSION')
    await superuser.run(
      store.giveObject(drop.startsWith('DROP SCHEMA IF EXISTS') ? `schema ${subject}` : subject, owner),
    )
}

/** Their rights come last, because they name the owner. */
async function giveToOthers(
  sessions: Sessions,
  objects: readonly DumpedObject[],
  create: (object: DumpedObject) => Promise<void>,
): Promise<void> {
  for (const object of objects) if (!lastKinds.test(object.kind)) await giveObject(sessions, object)
  for (const object of objects) if (isGrant(object)) await create(object)
}

/** Several tables at once. Rows of the tenant's tables are written by the tenant. */
async function fillTables(
  archive: ArchiveReader,
  first: Sessions,
  withSessions: <T>(work: (sessions: Sessions) => Promise<T>) => Promise<T>,
  isFilledByTenant: (table: ArchivedTable) => boolean,
  { progress }: Watching,
): Promise<void> {
  const waiting = archive.manifest.database.tables.filter(({ file }) => file.bytes > 0)
  const fill = async ({ superuser, owner }: Sessions, table: ArchivedTable) => {
    const session = isFilledByTenant(table) ? owner : superuser
    await session.copyIn(
      store.fillTable(table.name, table.columns),
      counted(archive.read(table.file), progress),
    )
  }
  const lane = async (sessions: Sessions) => {
    for (let table = waiting.shift(); table; table = waiting.shift()) await fill(sessions, table)
  }
  await Promise.all([lane(first), ...Array.from({ length: lanes - 1 }, () => withSessions(lane))])
}

async function* counted(
  chunks: AsyncIterable<Buffer>,
  progress: Watching['progress'],
): AsyncGenerator<Buffer> {
  for await (const chunk of chunks) {
    progress('rows', chunk.length)
    yield chunk
  }
}

async function restoreValues(
  archive: ArchiveReader,
  { superuser }: Sessions,
  renamed: (text: string) => string,
): Promise<void> {
  const { sequences, largeObjects, largeObjectsFile, named } = archive.manifest.database
  for (const sequence of sequences) await superuser.run(store.setSequence(sequence))
  if (largeObjectsFile) {
    for (let from = 0; from < largeObjects.length; from += largeObjectsAtOnce) {
      const some = largeObjects.slice(from, from + largeObjectsAtOnce)
      await superuser.run(
        store.makeLargeObjects(some.map(({ oid, owner }) => ({ oid, owner: renamed(owner) }))),
      )
    }
    await superuser.run(store.pageTable)
    await superuser.copyIn(store.fillPages, archive.read(largeObjectsFile))
    await superuser.run(store.putPages)
  }
  for (const [table, rows] of Object.entries(named))
    if (rows.length > 0) await superuser.run(store.insertNamed(table, JSON.stringify(rows)))
}
