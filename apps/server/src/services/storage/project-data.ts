// Export, restore and copy of a project's files, as far as they are not in its database: the data key and the list of
// stored versions. A restore expects that the backup has put the bytes back. A copy copies them as well.
import { createSecretKey, type KeyObject } from 'node:crypto'
import { inBatches } from '#src/kernel/batches.ts'
import type { Sealer } from '#src/kernel/crypto/sealed.ts'
import { pieceName, pieceNames } from '#src/kernel/objects/layout.ts'
import { MissingPiece, type Pieces } from '#src/kernel/objects/pieces.ts'
import type { Session } from '#src/kernel/postgres/database.ts'
import type { ExportedRow, ProjectDataHooks } from '#src/tenancy/project-data.ts'
import { keyContext } from './usage.ts'
import {
  addUsage,
  findKey,
  hasFiles,
  insertArea,
  insertFiles,
  listFiles,
  replaceKey,
  type StoredFile,
} from './usage-store.ts'

type Row = { data_key: string } | StoredFile

const batch = 1000
/** After this time the sweeper confirms the versions that objects reference and removes the others. */
const sweepAfterMs = 15 * 60_000

export function storageData(pieces: Pieces, sealer: Sealer): ProjectDataHooks {
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

  async function copyBytes(from: string, to: string, { version, size }: StoredFile): Promise<void> {
    for (const [index, name] of pieceNames(from, version, size).entries())
      await pieces.copy(name, pieceName(to, version, index)).catch(error => {
        // The version was removed meanwhile, or its upload has not ended: no object references it.
        if (!(error instanceof MissingPiece)) throw error
      })
  }

  return {
    export: exportRows as (session: Session, project: string) => AsyncGenerator<ExportedRow & Row>,
    restore: (session, project, { from, rows }) =>
      restoreRows(session, project, from, rows as AsyncIterable<ExportedRow & Row>),
    async copy(session, from, to) {
      for await (const file of filesOf(session, from)) await copyBytes(from, to, file)
      await restoreRows(session, to, from, exportRows(session, from))
    },
  }
}

export async function* filesOf(session: Session, project: string): AsyncGenerator<StoredFile> {
  for (let after = '00000000-0000-0000-0000-000000000000'; ; ) {
    const files = await listFiles(session, project, after, batch)
    if (files.length === 0) return
    yield* files
    after = files.at(-1)!.version
  }
}
