// Compares a restored database with its archive: the schema object by object, the rows of each table by their hash. Rows
// come out of a restored table in the order in which they were written.
import { createHash } from 'node:crypto'
import { type CopySession, dumpSettings, withCopySession } from '#src/kernel/postgres/copy.ts'
import { contentsOf, type DumpedObject } from '#src/kernel/postgres/dump/contents.ts'
import { dumpSchema } from '#src/kernel/postgres/dump/schema-dump.ts'
import { inSlices } from '#src/kernel/slices.ts'
import type { ArchiveReader } from './archive.ts'
import * as store from './database-store.ts'
import type { Sequence } from './manifest.ts'
import { type DatabaseSource, maxSchemaBytes, type Watching } from './write-database.ts'

const lanes = 2
/** Properties of the database itself, which has another name. */
const ignoredKinds: readonly string[] = [
  'ENCODING',
  'STDSTRINGS',
  'SEARCHPATH',
  'DATABASE',
  'DATABASE PROPERTIES',
]

/** What differs, as sentences. */
export async function compareDatabase(
  archive: ArchiveReader,
  { address, database, dataDir }: DatabaseSource,
  { signal, progress }: Watching,
): Promise<string[]> {
  const { database: contents } = archive.manifest
  const found = dumpSchema({ address, database, dataDir, signal, maxBytes: maxSchemaBytes })
  found.catch(() => {})
  const differences: string[] = []
  const waiting = contents.tables.filter(({ name }) => !store.uncompared.includes(name))
  const lane = () =>
    withCopySession(address, database, { settings: dumpSettings, signal }, async session => {
      for (let table = waiting.shift(); table; table = waiting.shift()) {
        const hash = await hashOf(session, store.copyTable(table.name, table.columns, null), progress)
        if (hash !== table.file.sha256) differences.push(`the rows of ${table.name} differ`)
      }
    })
  await Promise.all(Array.from({ length: lanes }, lane))
  await withCopySession(address, database, { settings: dumpSettings, signal }, async session => {
    const values = new Map((await store.readSequences(session)).map(each => [each.name, placeOf(each)]))
    for (const sequence of contents.sequences)
      if (values.get(sequence.name) !== placeOf(sequence) && !store.uncompared.includes(sequence.name))
        differences.push(`the sequence ${sequence.name} differs`)
    if (contents.largeObjectsFile) {
      const hash = await hashOf(session, store.copyLargeObjects, progress)
      if (hash !== contents.largeObjectsFile.sha256) differences.push('the large objects differ')
    }
  })
  const before = byName(await inSlices(contentsOf(await archive.readWhole(contents.schema))))
  const after = byName(await inSlices(contentsOf(await found)))
  for (const [name, text] of before)
    if (!after.has(name)) differences.push(`${name} is missing`)
    else if (after.get(name) !== text) differences.push(`${name} differs`)
  for (const name of after.keys()) if (!before.has(name)) differences.push(`${name} was not in the backup`)
  return differences
}

const placeOf = ({ value, is_called: isCalled }: Sequence) => `${value} ${isCalled}`

async function hashOf(
  session: CopySession,
  statement: string,
  progress: Watching['progress'],
): Promise<string> {
  const hash = createHash('sha256')
  await session.copyOut(statement, chunk => {
    hash.update(chunk)
    progress('comparing', chunk.length)
  })
  return hash.digest('hex')
}

function byName(objects: readonly DumpedObject[]): Map<string, string> {
  return new Map(
    objects
      .filter(
        ({ kind, tag }) => !ignoredKinds.includes(kind) && !(kind === 'ACL' && tag.startsWith('DATABASE ')),
      )
      .map(({ kind, schema, tag, owner, sql }) => [
        `${kind} ${schema === undefined ? '' : `${schema}.`}${tag}`,
        `${owner}\n${sql}`,
      ]),
  )
}
