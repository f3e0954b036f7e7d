// Restores the database of an archive into a new, empty database. What the tenant owns is created and filled by the login
// of the tenant: while rows come in, generated columns, checks and domains run its functions, which must not happen with
// the rights of the superuser. The superuser creates only what the platform owns. It does so first, with rows and rights,
// while the tenant cannot connect: code of the tenant finds the platform's functions closed, as in the live database.
import { giveWay } from '#src/kernel/give-way.ts'
import { type CopySession, dumpSettings, withCopySession } from '#src/kernel/postgres/copy.ts'
import { sqlState } from '#src/kernel/postgres/database-error.ts'
import { contentsOf, type DumpedObject } from '#src/kernel/postgres/dump/contents.ts'
import type { ServerAddress } from '#src/kernel/postgres/server-address.ts'
import { inSlices } from '#src/kernel/slices.ts'
import type { DatabaseArchive } from './archive.ts'
import * as store from './database-store.ts'
import type { ArchivedTable } from './manifest.ts'
import { isGuard, isPlatforms, isTenantRole, isTenants, tenantStatement } from './object-makers.ts'
import { type Refs, renamed, renameObjects } from './refs.ts'
import type { Watching } from './write-database.ts'

export interface RestoreTarget {
  /** The superuser. */
  address: ServerAddress
  /** The owner of the project, as the login that it has in this project. */
  owner: ServerAddress
  /** A database on the same server from which this one can be created. */
  control: string
  database: string
  refs: Refs
  /** Runs the creation of the database, or throws if it must not be created any more. */
  creating?<T>(create: () => Promise<T>): Promise<T>
}

const lanes = 2
const largeObjectsAtOnce = 500
/** Each waits for some seconds for sessions to end. */
const endAttempts = 6
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

/**
 * With functions that run with more rights and that code of the tenant can call. In these schemas the tenant must not create
 * anything at any time: Postgres would call an overload of its own instead of a function of the platform.
 */
const closedSchemas: readonly string[] = ['platform', 'auth']

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
type WithSession = <T>(work: (session: CopySession) => Promise<T>) => Promise<T>

export async function restoreDatabase(
  archive: DatabaseArchive,
  target: RestoreTarget,
  watching: Watching,
): Promise<void> {
  const { address, owner, control, database, refs } = target
  const { signal } = watching
  const { database: contents } = archive.manifest
  const { creating = create => create() } = target
  await creating(() =>
    withCopySession(address, control, { settings: superuserSettings, signal }, async session => {
      await session.run(store.createEmpty(database))
      await session.run(store.closeToOthers(database))
    }),
  )
  const extensionOwners = new Map(contents.extensions.map(each => [each.name, each.owner]))
  const archived = (await inSlices(contentsOf(await archive.readWhole(contents.schema))))
    .filter(({ kind }) => !skippedKinds.includes(kind))
    .map(each => (each.kind === 'EXTENSION' ? { ...each, owner: extensionOwners.get(each.tag) ?? '' } : each))
  const objects = await inSlices(renameObjects(archived, refs))
  const asSuperuser: WithSession = work =>
    withCopySession(address, database, { settings: superuserSettings, signal }, work)
  const asOwner: WithSession = work =>
    withCopySession(owner, database, { settings: ownerSettings, signal }, work)

  const { isFilled, laterGrants } = await asSuperuser(superuser =>
    restorePlatform(archive, { superuser, asSuperuser, refs, owner: owner.user, watching }, objects),
  )
  await asSuperuser(async superuser => {
    await superuser.run(store.openToOwner(database, owner.user))
    await asOwner(session => restoreTenant({ superuser, owner: session }))
  })

  async function restoreTenant(sessions: Sessions): Promise<void> {
    /** Those of other roles of the project are created by its owner, too, and given to them at the end. */
    const isOthers = ({ owner: role }: DumpedObject) => role !== owner.user && isTenantRole(role, refs.to)
    const create = (object: DumpedObject) => {
      const isByTenant = isTenants(object, refs.to) && !(isRight(object) && isOthers(object))
      return createObject(sessions, object, isByTenant && !isByGrantee(object))
    }
    const createAll = async (some: readonly DumpedObject[]) => {
      for (const object of some) await create(object)
    }
    // The owner may use schemas of the platform until all is restored, and create in those in which it has objects.
    const lent = objects
      .filter(({ kind, owner: role }) => kind === 'SCHEMA' && !isTenantRole(role, refs.to))
      .map(({ tag }) => tag)
    const homes = new Set(
      objects
        .filter(each => isTenantRole(each.owner, refs.to) && !isPlatforms(each, refs.to))
        .map(({ schema }) => schema),
    )
    const lentHomes = lent.filter(schema => homes.has(schema) && !closedSchemas.includes(schema))
    await sessions.superuser.run(store.lendSchemas(lent, lentHomes, owner.user))
    await createAll(objects.filter(each => isCreatedFirst(each) && !isPlatforms(each, refs.to)))
    await fillByTenant(archive, sessions, asOwner, { isFilled, refs, owner: owner.user, watching })
    await restoreValues(archive, sessions, refs)
    // Before foreign keys and triggers, which need rights on the tables they refer to.
    const grants = objects.filter(isGrant)
    await createAll(grants.filter(each => !isPlatforms(each, refs.to) && !isOthers(each)))
    await createAll(laterGrants)
    const after = objects.filter(({ section, kind }) => section === 'post' && !isGrant({ kind }))
    await createAll(after.filter(({ kind }) => !lastKinds.test(kind)))
    await createAll(objects.filter(isComment))
    for (const { name } of contents.materialized) await sessions.owner.run(store.refresh(name))
    await giveToOthers(sessions, objects.filter(isOthers), create)
    await createAll(objects.filter(each => lastKinds.test(each.kind) && !isGuard(each)))
    // The tenant had more rights until now, and the event triggers were missing. A comparison finds what it has done with that
    // only if it is committed, so its transactions must end, and no new ones begin before the copy is complete.
    await sessions.superuser.run(store.closeToOwner(database, owner.user))
    await endTenantSessions(sessions)
    await sessions.superuser.run(store.takeBackSchemas(lent, owner.user))
    await createAll(grants.filter(({ tag }) => lent.some(schema => tag === `SCHEMA ${schema}`)))
    await sessions.superuser.run(store.analyze)
    // Those that were still starting when the database was closed.
    await endTenantSessions(sessions)
  }
}

/** Those of the tenant, which can be connected with its own login, too. Our own one goes on. */
async function endTenantSessions({ superuser, owner }: Sessions): Promise<void> {
  const [own] = await owner.rows<{ pid: string }>(store.ownPid)
  for (let attempt = 1; ; attempt++) {
    const left = await superuser.rows(store.endOtherSessions(own!.pid))
    if (left.length === 0) return
    if (attempt === endAttempts) throw new Error('sessions of the project in the copy do not end')
  }
}

interface PlatformPart {
  superuser: CopySession
  /** Opens further sessions. */
  asSuperuser: WithSession
  refs: Refs
  /** The role that owns the project. */
  owner: string
  watching: Watching
}

/**
 * What the platform owns, with its rows and rights, and all schemas. Only the superuser can connect meanwhile, and no
 * statement runs code of the tenant. Returns what needs extensions that the tenant creates.
 */
async function restorePlatform(
  archive: DatabaseArchive,
  { superuser, asSuperuser, refs, owner, watching }: PlatformPart,
  objects: readonly DumpedObject[],
): Promise<{ isFilled(table: ArchivedTable): boolean; laterGrants: DumpedObject[] }> {
  for (const schema of objects.filter(({ kind }) => kind === 'SCHEMA')) {
    // That of another role of the project is given to it at the end.
    const first = isTenantRole(schema.owner, refs.to) ? owner : schema.owner
    if (schema.tag === 'public') await superuser.run(store.ownSchema('public', schema.owner))
    else await createBySuperuser(superuser, { ...schema, owner: first })
  }
  const own = objects.filter(each => isPlatforms(each, refs.to))
  for (const object of own.filter(isCreatedFirst)) await createBySuperuser(superuser, object)
  const tables: ArchivedTable[] = []
  for (const table of archive.manifest.database.tables) {
    if (isTenantRole(renamed(table.owner, refs), refs.to)) continue
    const [found] = await superuser.rows<{ is_there: string }>(store.findTable(table.name))
    if (found?.is_there === 't') tables.push(table)
  }
  // Before anybody can have a trigger on them.
  await fillTables(tables, asSuperuser, (session, table) => fillTable(archive, session, table, watching))
  const laterGrants: DumpedObject[] = []
  for (const grant of own.filter(isGrant)) {
    try {
      await createBySuperuser(superuser, grant)
    } catch (error) {
      if (!isOfMissingObject(error as Error)) throw error
      laterGrants.push(grant)
    }
  }
  for (const guard of objects.filter(isGuard)) await createBySuperuser(superuser, guard)
  return { isFilled: table => tables.includes(table), laterGrants }
}

/** Of an extension that the tenant creates later. */
const isOfMissingObject = ({ cause }: Error) => ['42883', '42P01'].includes(sqlState(cause) ?? '')

const isCreatedFirst = (object: DumpedObject) =>
  object.section === 'pre' && object.kind !== 'SCHEMA' && !isGrant(object)

const isComment = ({ kind, tag, section }: DumpedObject) =>
  kind === 'COMMENT' && !tag.startsWith('EXTENSION ') && section !== 'post'

/** They run no code. Those of other roles than the owner need the superuser. */
const isRight = ({ kind }: DumpedObject) => kind.endsWith('ACL')

/** Rights that another role than the owner has granted. Only the superuser can grant them in its name. */
const isByGrantee = (object: DumpedObject) =>
  isRight(object) && /^SET SESSION AUTHORIZATION /m.test(object.sql)

const isGrant = ({ kind }: Pick<DumpedObject, 'kind'>) => kind.endsWith('ACL') && kind !== 'DEFAULT ACL'

async function createObject(
  { superuser, owner }: Sessions,
  object: DumpedObject,
  byTenant: boolean,
): Promise<void> {
  if (!byTenant) return createBySuperuser(superuser, object)
  await naming(object, () => owner.run(tenantStatement(object)))
}

const createBySuperuser = (superuser: CopySession, object: DumpedObject) =>
  naming(object, async () => {
    await superuser.run(object.sql)
    await giveObject(superuser, object)
  })

async function naming(object: DumpedObject, create: () => Promise<void>): Promise<void> {
  if (object.sql.trim() === '') return
  try {
    await create()
  } catch (error) {
    throw new NotRestorable(object, error as Error)
  }
}

/** Runs no code of the tenant. */
async function giveObject(superuser: CopySession, { drop, owner, kind }: DumpedObject): Promise<void> {
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
  for (const object of objects) if (!lastKinds.test(object.kind)) await giveObject(sessions.superuser, object)
  for (const object of objects) if (isGrant(object)) await create(object)
}

/** Several tables at once. */
async function fillTables(
  tables: readonly ArchivedTable[],
  withSession: WithSession,
  fill: (session: CopySession, table: ArchivedTable) => Promise<void>,
): Promise<void> {
  const waiting = tables.filter(({ file }) => file.bytes > 0)
  const lane = async (session: CopySession) => {
    for (let table = waiting.shift(); table; table = waiting.shift()) await fill(session, table)
  }
  await Promise.all(Array.from({ length: Math.min(lanes, waiting.length) }, () => withSession(lane)))
}

const fillTable = (
  archive: DatabaseArchive,
  session: CopySession,
  table: ArchivedTable,
  { progress }: Watching,
) => session.copyIn(store.fillTable(table), counted(archive.read(table.file), progress))

interface TenantTables {
  isFilled(table: ArchivedTable): boolean
  refs: Refs
  owner: string
  watching: Watching
}

/**
 * The tenant writes the rows, also those of a table of the superuser in an extension that the tenant has created. By its
 * name the superuser could not write into it safely: the tenant can put a table of its own in its place.
 */
async function fillByTenant(
  archive: DatabaseArchive,
  { superuser }: Sessions,
  asOwner: WithSession,
  { isFilled, refs, owner, watching }: TenantTables,
): Promise<void> {
  const tables = archive.manifest.database.tables.filter(table => !isFilled(table))
  const lent = tables.filter(table => !isTenantRole(renamed(table.owner, refs), refs.to))
  for (const { name } of lent) await superuser.run(store.lendTable(name, owner))
  await fillTables(tables, asOwner, (session, table) => fillTable(archive, session, table, watching))
  for (const { name } of lent) await superuser.run(store.takeBackTable(name, owner))
}

async function* counted(
  chunks: AsyncIterable<Buffer>,
  progress: Watching['progress'],
): AsyncGenerator<Buffer> {
  for await (const chunk of chunks) {
    progress('rows', chunk.length)
    yield chunk
    await giveWay()
  }
}

async function restoreValues(archive: DatabaseArchive, { superuser }: Sessions, refs: Refs): Promise<void> {
  const { sequences, largeObjects, largeObjectsFile, named } = archive.manifest.database
  for (const sequence of sequences) await superuser.run(store.setSequence(sequence))
  if (largeObjectsFile) {
    for (let from = 0; from < largeObjects.length; from += largeObjectsAtOnce) {
      const some = largeObjects.slice(from, from + largeObjectsAtOnce)
      await superuser.run(
        store.makeLargeObjects(
          some.map(({ owner, rights, ...rest }) => ({
            ...rest,
            owner: renamed(owner, refs),
            rights: rights ? renamed(rights, refs) : null,
          })),
        ),
      )
    }
    await superuser.run(store.pageTable)
    await superuser.copyIn(store.fillPages, archive.read(largeObjectsFile))
    await superuser.run(store.putPages)
  }
  for (const [table, rows] of Object.entries(named))
    if (rows.length > 0) await superuser.run(store.insertNamed(table, JSON.stringify(rows)))
}
