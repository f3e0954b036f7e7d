// Compares a restored database with its archive: the schema object by object, the rows of each table by the proof of its file.
// Rows come out of a restored table in the order in which they were written.
import { giveWay } from '#src/kernel/give-way.ts'
import type { ContentCheck } from '#src/kernel/objects/content-proof.ts'
import { type CopySession, dumpSettings, withCopySession } from '#src/kernel/postgres/copy.ts'
import { contentsOf, type DumpedObject } from '#src/kernel/postgres/dump/contents.ts'
import { dumpSchema } from '#src/kernel/postgres/dump/schema-dump.ts'
import { inSlices, type Sliced } from '#src/kernel/slices.ts'
import type { ArchiveReader } from './archive.ts'
import * as store from './database-store.ts'
import type { LargeObject, Manifest, Sequence } from './manifest.ts'
import { type Refs, renamed, renameObjects } from './refs.ts'
import { readSequences } from './sequences-store.ts'
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

/** What it is about, and a sentence that names it. */
export interface Difference {
  kind: 'schema' | 'rows' | 'sequences' | 'large_objects'
  text: string
}

export async function compareDatabase(
  archive: ArchiveReader<Pick<Manifest, 'database'>>,
  { address, database, dataDir }: DatabaseSource,
  refs: Refs,
  { signal, progress }: Watching,
): Promise<Difference[]> {
  const { database: contents } = archive.manifest
  const found = dumpSchema({ address, database, dataDir, signal, maxBytes: maxSchemaBytes })
  found.catch(() => {})
  const differences: Difference[] = []
  const add = (kind: Difference['kind'], text: string) => void differences.push({ kind, text })
  const waiting = contents.tables.filter(({ name }) => !store.uncompared.includes(name))
  const lane = () =>
    withCopySession(address, database, { settings: dumpSettings, signal }, async session => {
      for (let table = waiting.shift(); table; table = waiting.shift()) {
        const { name, condition } = table
        if (condition) await session.run(`begin; ${store.holdTable(name)}`)
        const isSame = await hasContent(session, store.copyTable(table), archive.check(table.file), progress)
        if (condition) await session.run('commit')
        if (!isSame) add('rows', `the rows of ${name} differ`)
      }
    })
  await Promise.all(Array.from({ length: lanes }, lane))
  await withCopySession(address, database, { settings: dumpSettings, signal }, async session => {
    const values = new Map(
      (await readSequences(session, work => work(session))).map(each => [each.name, placeOf(each)]),
    )
    for (const sequence of contents.sequences)
      if (values.get(sequence.name) !== placeOf(sequence) && !store.uncompared.includes(sequence.name))
        add('sequences', `the sequence ${sequence.name} differs`)
    if (contents.largeObjectsFile) {
      const check = archive.check(contents.largeObjectsFile)
      if (!(await hasContent(session, store.copyLargeObjects, check, progress)))
        add('large_objects', 'the large objects differ')
      const restored = new Map(
        (await session.rows<LargeObject>(store.selectLargeObjects)).map(each => [each.oid, each]),
      )
      for (const object of contents.largeObjects)
        if (!isSame(object, restored.get(object.oid), refs))
          add('large_objects', `owner, rights or comment of the large object ${object.oid} differ`)
    }
  })
  const archived = await inSlices(contentsOf(await archive.readWhole(contents.schema)))
  const before = byName(await inSlices(renameObjects(archived, refs)))
  const after = byName(await inSlices(contentsOf(await found)))
  for (const text of await inSlices(schemaDifferences(before, after))) add('schema', text)
  return differences
}

/** Objects that are compared in one slice. A definition may have megabytes. */
const sliceSize = 100

function* schemaDifferences(
  before: ReadonlyMap<string, DumpedObject>,
  after: ReadonlyMap<string, DumpedObject>,
): Sliced<string[]> {
  const differences: string[] = []
  let units = 0
  for (const [name, object] of before) {
    if (++units % sliceSize === 0) yield
    const restored = after.get(name)
    if (!restored) differences.push(`${name} is missing`)
    else if (restored.owner !== object.owner || restored.sql !== object.sql)
      differences.push(`${name} differs`)
  }
  for (const name of after.keys()) if (!before.has(name)) differences.push(`${name} was not in the backup`)
  return differences
}

/** Backups of earlier releases have neither rights nor comments. */
const isSame = (archived: LargeObject, restored: LargeObject | undefined, refs: Refs) =>
  restored !== undefined &&
  renamed(archived.owner, refs) === restored.owner &&
  (archived.rights === undefined || renamed(archived.rights ?? '', refs) === (restored.rights ?? '')) &&
  (archived.comment === undefined || archived.comment === restored.comment)

const placeOf = ({ value, is_called: isCalled }: Sequence) => `${value} ${isCalled}`

async function hasContent(
  session: CopySession,
  statement: string,
  check: ContentCheck,
  progress: Watching['progress'],
): Promise<boolean> {
  await session.copyOut(statement, (chunk, giveBack) => {
    check.update(chunk)
    progress('comparing', chunk.length)
    giveBack()
    return giveWay()
  })
  return check.end()
}

function byName(objects: readonly DumpedObject[]): Map<string, DumpedObject> {
  const named = new Map<string, DumpedObject>()
  for (const object of objects) {
    const { kind, schema, tag } = object
    if (ignoredKinds.includes(kind) || (kind === 'ACL' && tag.startsWith('DATABASE '))) continue
    named.set(`${kind} ${schema === undefined ? '' : `${schema}.`}${tag}`, object)
  }
  return named
}
