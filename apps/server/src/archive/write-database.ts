// Writes a project database into an archive: the schema as pg_dump has it, and the rows by COPY, all in one snapshot.
// Reading runs no code of the tenant: rows are read by COPY of a table, which is not planned and calls no casts.
import { giveWay } from '#src/kernel/give-way.ts'
import { type CopySession, dumpSettings, withCopySession } from '#src/kernel/postgres/copy.ts'
import { contentsOf } from '#src/kernel/postgres/dump/contents.ts'
import { dumpSchema } from '#src/kernel/postgres/dump/schema-dump.ts'
import type { ServerAddress } from '#src/kernel/postgres/server-address.ts'
import { inSlices } from '#src/kernel/slices.ts'
import type { ArchiveWriter } from './archive.ts'
import * as store from './database-store.ts'
import type { ArchivedTable, CopiedTable, DatabaseContents, LargeObject, OwnedObject } from './manifest.ts'
import { readSequences } from './sequences-store.ts'

/** What pg_dump lists, such as tables, constraints, grants and functions. A restore has the list in memory. */
const maxObjects = 50_000
/** Of the statements that create them. */
export const maxSchemaBytes = 32 * 1024 * 1024

export interface DatabaseSource {
  address: ServerAddress
  database: string
  dataDir: string
  /** Without rows of the tenant, only those that the schema needs are written. */
  hasRows?: boolean
}

export interface Watching {
  signal: AbortSignal
  /** Called with the bytes that were read since the last call. */
  progress(step: string, bytes: number): void
}

/** Sessions that read tables at once. */
const lanes = 2

interface FoundTable {
  name: string
  owner: string
  is_of_extension: string
  condition: string | null
  columns: string
  can_be_binary: string
}

/** `atStart` runs right after the snapshot was taken, and `atEnd` before it is released, so that others can read in it. */
export function writeDatabase(
  archive: ArchiveWriter,
  source: DatabaseSource,
  { signal, progress }: Watching,
  atStart: () => Promise<void>,
  atEnd: (snapshot: string) => Promise<void> = async () => {},
): Promise<DatabaseContents> {
  const { address, database, dataDir, hasRows = true } = source
  const failing = new AbortController()
  const eitherSignal = AbortSignal.any([signal, failing.signal])
  const open = <T>(work: (session: CopySession) => Promise<T>) =>
    withCopySession(address, database, { settings: dumpSettings, signal: eitherSignal }, work)
  /** If one of them fails, all end before this rejects. */
  const atOnce: Promise<unknown>[] = []

  const writing = open(async main => {
    await main.run(store.beginSnapshot)
    await checkExtent(main)
    const [{ snapshot } = { snapshot: '' }] = await main.rows<{ snapshot: string }>(store.exportSnapshot)
    await atStart()
    const options = { address, database, snapshot, dataDir, signal: eitherSignal, maxBytes: maxSchemaBytes }
    const schemaFile = dumpSchema(options).then(async dump => {
      const objects = await inSlices(contentsOf(dump))
      if (objects.length > maxObjects) throw tooMany(maxObjects, 'objects in its schema')
      return archive.add(async write => {
        progress('schema', dump.length)
        await write(dump)
      })
    })
    // A failure is noticed below. Until then it must not count as unhandled.
    schemaFile.catch(() => {})
    atOnce.push(schemaFile)
    const [server] = await main.rows<{ version: string }>(store.selectServer)
    const sequences = (await readSequences(main, open)).filter(
      ({ name }) => hasRows || store.isOfPlatform(name),
    )
    const extensions = await main.rows<OwnedObject>(store.selectExtensions)
    const materialized = await main.rows<OwnedObject>(store.selectMaterialized)
    const largeObjects = hasRows ? await main.rows<LargeObject>(store.selectLargeObjects) : []
    const named: DatabaseContents['named'] = {}
    for (const { name: table } of await main.rows<{ name: string }>(store.selectNamedTables)) {
      const [found] = await main.rows<{ rows: string }>(store.selectNamed(table))
      named[table] = JSON.parse(found!.rows)
    }
    const tables = (await main.rows<FoundTable>(store.selectTables)).filter(
      ({ name, is_of_extension: isOfExtension }) =>
        !store.forgottenTables.includes(name) &&
        (hasRows || isOfExtension === 't' || store.isNeededWithoutRows(name)),
    )
    const written = new Map<string, ArchivedTable>()
    const waiting = [...tables]
    const lane = async (session: CopySession) => {
      for (let table = waiting.shift(); table; table = waiting.shift())
        written.set(
          table.name,
          await (table.condition
            ? aside(other => writeTable(archive, other, table, progress))
            : writeTable(archive, session, table, progress)),
        )
    }
    /** Holds names until its end. */
    const aside = <T>(work: (session: CopySession) => Promise<T>) =>
      open(async session => {
        await session.run(store.useSnapshot(snapshot))
        return work(session)
      })
    const others = Array.from({ length: lanes - 1 }, () => aside(lane))
    const reading = [lane(main), ...others]
    atOnce.push(...reading)
    await Promise.all(reading)
    const largeObjectsFile =
      largeObjects.length > 0
        ? await archive.add(write =>
            main.copyOut(store.copyLargeObjects, chunk => {
              progress('large objects', chunk.length)
              return write(chunk)
            }),
          )
        : undefined
    await atEnd(snapshot)
    return {
      server: server!.version,
      schema: await schemaFile,
      tables: tables.map(({ name }) => written.get(name)!),
      sequences,
      extensions,
      materialized,
      largeObjects,
      largeObjectsFile,
      named,
    }
  })
  return writing.catch(async error => {
    // Otherwise they would go on to write into an archive that is removed.
    failing.abort(error)
    await Promise.allSettled(atOnce)
    throw error
  })
}

async function checkExtent(session: CopySession): Promise<void> {
  const [extent] = await session.rows<Record<keyof typeof store.mostObjects, string>>(store.selectExtent)
  const names = {
    relations: 'tables, views and sequences',
    columns: 'columns',
    largeObjects: 'large objects',
    commentBytes: 'bytes in comments on large objects',
    textBytes: 'bytes in comments, bodies of functions and other texts of its schema',
  }
  for (const name of ['relations', 'columns', 'largeObjects', 'commentBytes', 'textBytes'] as const)
    if (Number(extent![name]) > store.mostObjects[name]) throw tooMany(store.mostObjects[name], names[name])
}

const tooMany = (most: number, what: string) =>
  new Error(`the project has over ${most} ${what}, which is the most that a backup can have`)

async function writeTable(
  archive: ArchiveWriter,
  session: CopySession,
  { name, owner, condition, columns: found, can_be_binary: canBeBinary }: FoundTable,
  progress: Watching['progress'],
): Promise<ArchivedTable> {
  const renewed = store.renewedColumns[name] ?? []
  const columns = (JSON.parse(found ?? '[]') as string[]).filter(column => !renewed.includes(column))
  if (condition) await session.run(store.holdTable(name))
  const asText: CopiedTable = { name, columns, ...(condition && { condition }) }
  const table = canBeBinary === 't' ? { ...asText, isBinary: true } : asText
  let hasRows = false
  const file = await archive.add(write =>
    session.copyOut(store.copyTable(table), (chunk, giveBack) => {
      // The first chunk is that short only if it is the last one, too.
      hasRows ||= !table.isBinary || chunk.length > store.emptyBinaryBytes
      if (!hasRows) return
      progress('rows', chunk.length)
      // Nothing to wait for is the usual case, and then the socket is not paused.
      const written = write(chunk, giveBack)
      const mayGoOn = giveWay()
      return mayGoOn ? Promise.all([written, mayGoOn]).then(() => {}) : written
    }),
  )
  return { ...(hasRows ? table : asText), owner, file }
}
