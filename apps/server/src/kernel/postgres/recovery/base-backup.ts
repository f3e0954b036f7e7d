// A base backup of the whole cluster, divided as it arrives: one file for each database, and one for everything else. So
// the recovery of one project reads only its own files, however large the others are.
import { type PackedFile, type PackedWriter, writePacked } from '#src/kernel/objects/packed-file.ts'
import { orderedUuid } from '#src/kernel/ordered-uuid.ts'
import { guardedSettings, withClient } from '../database.ts'
import type { ServerAddress } from '../server-address.ts'
import { sql } from '../sql.ts'
import {
  type ArchiveStore,
  baseFolder,
  baseIdIn,
  commonPart,
  fileListVersion,
  manifestVersion,
  partVersion,
} from './archive-layout.ts'
import { openReplication } from './replication-connection.ts'
import { publishSealedPiece, readSealedPiece } from './sealed-piece.ts'
import { TarReader } from './tar.ts'

export interface BaseBackup {
  id: string
  timeline: number
  /** Replay starts here. */
  startLsn: string
  /** The cluster is consistent from here on. */
  endLsn: string
  startedAt: string
  /** After every commit before `endLsn`. The earliest time that can be recovered from this base backup. */
  finishedAt: string
  /** Names at the start and at the end. A name that changed meanwhile has two. */
  databases: DatabaseName[]
  parts: (PackedFile & { oid: number })[]
  /** A line with name and size for each file of a database. */
  fileList: PackedFile
}

export interface DatabaseName {
  oid: number
  name: string
}

const command = `BASE_BACKUP ( LABEL 'plinth', CHECKPOINT 'fast', WAIT 'false', MANIFEST 'no' )`

/** The server must keep its WAL for the archive meanwhile, so `startWalArchive` comes first. */
export async function takeBaseBackup(
  address: ServerAddress,
  store: ArchiveStore,
  signal?: AbortSignal,
): Promise<BaseBackup> {
  const id = orderedUuid()
  const parts = openParts(store, id)
  const before = await readMoment(address)
  const replication = await openReplication(address)
  const onAbort = () => replication.close()
  signal?.addEventListener('abort', onAbort, { once: true })
  try {
    signal?.throwIfAborted()
    const stream = replication.stream(command)
    const archive = archiveReader(parts)
    let next = await stream.next()
    while (!next.done) {
      for (const message of next.value) await archive.read(message)
      next = await stream.next()
    }
    archive.end()
    const [first, ...others] = next.value
    const files = await parts.end()
    const after = await readMoment(address)
    const backup: BaseBackup = {
      id,
      timeline: Number(first?.[1]),
      startLsn: first?.[0] ?? '',
      endLsn: others.at(-1)?.[0] ?? '',
      startedAt: before.at,
      finishedAt: after.at,
      databases: mergeNames(before.databases, after.databases),
      ...files,
    }
    await publishSealedPiece(manifestPiece(store, id), Buffer.from(JSON.stringify(backup)))
    return backup
  } catch (error) {
    await parts.abort()
    throw signal?.aborted ? signal.reason : error
  } finally {
    signal?.removeEventListener('abort', onAbort)
    replication.close()
  }
}

const newArchive = 0x6e
const archiveData = 0x64

/** Messages of the stream: the start of an archive, its data, progress. */
function archiveReader(parts: BaseParts): { read(message: Buffer): Promise<void>; end(): void } {
  const tar = new TarReader()
  return {
    async read(message) {
      if (message[0] === newArchive) {
        const name = message.toString('utf8', 1, message.indexOf(0, 1))
        if (name !== 'base.tar')
          throw new Error(`the cluster has a tablespace, ${name}, which is not backed up`)
      }
      if (message[0] !== archiveData) return
      for (const part of tar.push(message.subarray(1))) {
        if (part.kind === 'entry') await parts.begin(part.name, part.size)
        await parts.write(part.bytes)
      }
    },
    end: () => tar.end(),
  }
}

interface BaseParts {
  /** Begins a file or directory of the cluster. */
  begin(name: string, size: number): Promise<void>
  write(bytes: Buffer): Promise<void>
  end(): Promise<Pick<BaseBackup, 'parts' | 'fileList'>>
  abort(): Promise<void>
}

/** The oid of the database to which a path in the cluster belongs. */
export function partOf(name: string): number {
  const oid = /^base\/(\d+)(\/|$)/.exec(name)?.[1]
  return oid === undefined ? commonPart : Number(oid)
}

/** Postgres sends the directory of one database after the other, so two files are open at a time, and the list. */
function openParts({ pieces, dataKey, systemId }: ArchiveStore, id: string): BaseParts {
  const folder = baseFolder(systemId, id)
  const opened = (version: string) => coalesced(writePacked(pieces, dataKey, folder, version))
  const list = opened(fileListVersion(id))
  const common = opened(partVersion(id, commonPart))
  const parts: BaseBackup['parts'] = []
  let database: { oid: number; writer: PackedWriter } | undefined
  let current = common

  async function endDatabase(): Promise<void> {
    if (!database) return
    const { oid, writer } = database
    database = undefined
    parts.push({ oid, ...(await writer.end()) })
  }

  return {
    async begin(name, size) {
      const oid = partOf(name)
      current = common
      if (oid === commonPart) return
      if (database?.oid !== oid) {
        await endDatabase()
        if (parts.some(part => part.oid === oid))
          throw new Error(`the files of database ${oid} are not sent together`)
        database = { oid, writer: opened(partVersion(id, oid)) }
      }
      current = database!.writer
      await list.write(Buffer.from(`${name} ${size}\n`))
    },
    async write(bytes) {
      await current.write(bytes)
    },
    async end() {
      await endDatabase()
      parts.push({ oid: commonPart, ...(await common.end()) })
      return { parts, fileList: await list.end() }
    },
    async abort() {
      const open = [list, common, ...(database ? [database.writer] : [])]
      // The error that ended the backup is the one to report.
      await Promise.allSettled(open.map(writer => writer.abort()))
      await pieces.removeFolder(folder).catch(() => {})
    },
  }
}

const coalescedBytes = 128 * 1024

/** Collects small chunks: most files of a database are small, and compressing each by itself takes longer. */
function coalesced(writer: PackedWriter): PackedWriter {
  let waiting: Buffer[] = []
  let bytes = 0
  const flush = () => {
    const chunk = Buffer.concat(waiting)
    waiting = []
    bytes = 0
    return writer.write(chunk)
  }
  return {
    write(chunk) {
      waiting.push(chunk)
      bytes += chunk.length
      if (bytes >= coalescedBytes) return flush()
    },
    async end() {
      if (bytes > 0) await flush()
      return writer.end()
    },
    abort: () => writer.abort(),
  }
}

/** The time of the server, and the names of its databases. */
function readMoment(address: ServerAddress): Promise<{ at: string; databases: DatabaseName[] }> {
  return withClient(address, 'postgres', guardedSettings, async session => {
    const moment = await session.row<{ at: string; databases: DatabaseName[] }>(sql`
      select to_char(clock_timestamp() at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"') as at,
        (select json_agg(json_build_object('oid', oid::bigint, 'name', datname)) from pg_database) as databases`)
    return moment!
  })
}

function mergeNames(before: readonly DatabaseName[], after: readonly DatabaseName[]): DatabaseName[] {
  const known = new Set(before.map(({ oid, name }) => `${oid} ${name}`))
  return [...before, ...after.filter(({ oid, name }) => !known.has(`${oid} ${name}`))]
}

const manifestPiece = ({ pieces, dataKey, systemId }: ArchiveStore, id: string) => {
  const version = manifestVersion(id)
  return { pieces, dataKey, version, name: `${baseFolder(systemId, id)}/${version}` }
}

/** Throws MissingPiece if the base backup was not completed, and DamagedFile. */
export async function readBaseBackup(store: ArchiveStore, id: string): Promise<BaseBackup> {
  return JSON.parse((await readSealedPiece(manifestPiece(store, id))).toString())
}

export async function baseBackupIds({ pieces, systemId }: ArchiveStore): Promise<string[]> {
  const ids: string[] = []
  for await (const folder of pieces.folders()) {
    const id = baseIdIn(systemId, folder)
    if (id !== undefined) ids.push(id)
  }
  return ids.sort()
}

export async function removeBaseBackup(
  { pieces, systemId, ...store }: ArchiveStore,
  id: string,
): Promise<void> {
  // The manifest first: a base backup without all of its files must not exist.
  await pieces.remove([manifestPiece({ pieces, systemId, ...store }, id).name])
  await pieces.removeFolder(baseFolder(systemId, id))
}
