// Makes a database from an archive of the control database. All of it belongs to the superuser.
import { type CopySession, withCopySession } from '#src/kernel/postgres/copy.ts'
import { contentsOf, type DumpedObject } from '#src/kernel/postgres/dump/contents.ts'
import { inSlices } from '#src/kernel/slices.ts'
import type { ArchiveReader } from './archive.ts'
import * as store from './control-store.ts'
import { fillTable, setSequence } from './database-store.ts'
import type { ControlManifest } from './manifest.ts'
import type { DatabaseSource, Watching } from './write-database.ts'

const skippedKinds = /^(ENCODING|STDSTRINGS|SEARCHPATH|DATABASE|DATABASE PROPERTIES)$/
const lastKinds = /ACL$|^COMMENT$/

export async function restoreControl(
  archive: ArchiveReader<ControlManifest>,
  { address, database }: DatabaseSource,
  { signal, progress }: Watching,
): Promise<void> {
  const settings = store.controlCopySettings
  await withCopySession(address, 'postgres', { settings, signal }, async session => {
    await session.run(store.createControlCopy(database))
    await session.run(store.closeControlCopy(database))
  })
  const { schema, tables, sequences } = archive.manifest.database
  const objects = (await inSlices(contentsOf(await archive.readWhole(schema)))).filter(
    ({ kind, tag }) => !skippedKinds.test(kind) && !(kind === 'SCHEMA' && tag === 'public'),
  )
  await withCopySession(address, database, { settings, signal }, async session => {
    await createAll(
      session,
      objects.filter(({ section, kind }) => section === 'pre' && !lastKinds.test(kind)),
    )
    for (const table of tables)
      if (table.file.bytes > 0)
        await session.copyIn(fillTable(table), counted(archive.read(table.file), progress))
    for (const sequence of sequences) await session.run(setSequence(sequence))
    await createAll(
      session,
      objects.filter(({ section, kind }) => section === 'post' && !lastKinds.test(kind)),
    )
    await createAll(
      session,
      objects.filter(({ kind }) => lastKinds.test(kind)),
    )
    await session.run('analyze')
  })
}

async function createAll(session: CopySession, objects: readonly DumpedObject[]): Promise<void> {
  for (const { sql } of objects) if (sql.trim() !== '') await session.run(sql)
}

async function* counted(
  chunks: AsyncIterable<Buffer>,
  progress: Watching['progress'],
): AsyncGenerator<Buffer> {
  for await (const chunk of chunks) {
    progress('control database', chunk.length)
    yield chunk
  }
}
