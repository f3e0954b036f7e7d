// Export and restore of a project's files, as far as they are not in its database: the data key and the list of stored
// versions. A restore expects that the bytes are in place.
import { createSecretKey, type KeyObject } from 'node:crypto'
import { inBatches } from '#src/kernel/batches.ts'
import type { Sealer } from '#src/kernel/crypto/sealed.ts'
import type { Session } from '#src/kernel/postgres/database.ts'
import type { ExportedRow, ProjectDataHooks } from '#src/tenancy/project-data.ts'
import { createKey, keyContext } from './usage.ts'
import {
  addUsage,
  findKey,
  hasFiles,
  insertArea,
  insertFiles,
  listFiles,
  replaceKey,
  type StoredFile,
  selectAllReferred,
  selectReferred,
} from './usage-store.ts'

type Row = { data_key: string } | StoredFile

const batch = 1000
/** After this time the sweeper confirms the versions that objects reference and removes the others. */
const sweepAfterMs = 15 * 60_000

export function storageData(sealer: Sealer): ProjectDataHooks {
  const openKey = (sealed: string, project: string): KeyObject =>
    createSecretKey(Buffer.from(sealer.open(sealed, keyContext(project)), 'base64'))

  async function* exportRows(session: Session, project: string): AsyncGenerator<Row> {
    const data_key = await findKey(session, project)
    if (data_key === undefined) return
    yield { data_key }
    yield* filesOf(session, project)
  }

  /** The key of files that are stored already must not change. */
  async function restoreKey(
    session: Session,
    project: string,
    from: string,
    exported: string,
    sweepAt: Date,
  ) {
    const key = openKey(exported, from)
    const sealed = sealer.seal(key.export().toString('base64'), keyContext(project))
    await insertArea(session, project, sealed, sweepAt)
    const present = await findKey(session, project)
    if (present === undefined || openKey(present, project).equals(key)) return
    if (await hasFiles(session, project))
      throw new Error('the project has files that are encrypted with another key')
    await replaceKey(session, project, sealed)
  }

  async function restoreRows(session: Session, project: string, from: string, rows: AsyncIterable<Row>) {
    const until = new Date(Date.now() + sweepAfterMs)
    for await (const some of inBatches(rows, batch)) {
      const files: StoredFile[] = []
      for (const row of some)
        if ('data_key' in row) await restoreKey(session, project, from, row.data_key, until)
        else files.push(row)
      await addUsage(session, project, await insertFiles(session, project, files, until), until)
    }
  }

  return {
    export: exportRows as (session: Session, project: string) => AsyncGenerator<ExportedRow & Row>,
    restore: (session, project, { from, rows }) =>
      restoreRows(session, project, from, rows as AsyncIterable<ExportedRow & Row>),
    // A copy that gets files of its own first would have another key, and could not take over files any more.
    async prepareCopy(session, project) {
      if ((await findKey(session, project)) === undefined) await createKey(session, sealer, project)
    },
    files: {
      list: filesOf,
      folder: project => project,
      referred: async (database, versions) =>
        (await database.rows<{ version: string }>(selectReferred(versions))).map(({ version }) => version),
      async *allReferred(database) {
        for (let after = ''; ; ) {
          const rows = await database.rows<{ version: string }>(selectAllReferred(after, batch))
          if (rows.length === 0) return
          for (const { version } of rows) yield version
          after = rows.at(-1)!.version
        }
      },
      async keys({ from, rows }) {
        let key: KeyObject | undefined
        for await (const row of rows as unknown as AsyncIterable<Row>)
          if ('data_key' in row) {
            key = openKey(row.data_key, from)
            break
          }
        return () => key ?? throwNoKey()
      },
    },
  }
}

function throwNoKey(): never {
  throw new Error('the export has no key of the files')
}

async function* filesOf(session: Session, project: string): AsyncGenerator<StoredFile> {
  for (let after = '00000000-0000-0000-0000-000000000000'; ; ) {
    const files = await listFiles(session, project, after, batch)
    if (files.length === 0) return
    yield* files
    after = files.at(-1)!.version
  }
}
