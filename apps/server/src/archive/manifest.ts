// What an archive of a project contains. The manifest is written last and has the size and proof of every other file.
import type { PackedFile } from '#src/kernel/objects/packed-file.ts'

/** A file of the archive, by its number. */
export interface ArchivedFile extends PackedFile {
  number: number
}

export interface ArchivedTable {
  /** Quoted, with its schema. */
  name: string
  owner: string
  /** Quoted; those that are not generated. */
  columns: string[]
  /** Of a table of an extension, whose other rows the extension creates: `where …`. Backups of earlier releases have none. */
  condition?: string
  /** The rows are in the binary format of COPY, otherwise in text. */
  isBinary?: boolean
  file: ArchivedFile
}

export type CopiedTable = Omit<ArchivedTable, 'owner' | 'file'>

export interface Sequence {
  /** Quoted, with its schema. */
  name: string
  value: string
  /** `true` if the next value comes after this one, `false` if it is this one. */
  is_called: string
}

export interface OwnedObject {
  name: string
  owner: string
}

export interface LargeObject {
  oid: string
  owner: string
  /** Its rights as JSON of LargeObjectRight[], those that its owner has granted first; null for the usual ones. */
  rights?: string | null
  comment?: string | null
}

export interface LargeObjectRight {
  grantor: string
  /** Null means everyone. */
  grantee: string | null
  right: string
  grantable: boolean
}

export interface DatabaseContents {
  /** The version of the server. */
  server: string
  schema: ArchivedFile
  tables: ArchivedTable[]
  sequences: Sequence[]
  extensions: OwnedObject[]
  /** Materialized views that contain rows. */
  materialized: OwnedObject[]
  largeObjects: LargeObject[]
  largeObjectsFile: ArchivedFile | undefined
  /** Rows of the platform that refer to relations by number, as JSON with their names. */
  named: Record<string, Record<string, unknown>[]>
}

export interface ArchivedProject {
  id: string
  ref: string
  name: string
  slug: string
  description: string
  settings: Readonly<Record<string, unknown>>
  quotas: Readonly<Record<string, unknown>>
  schema_version: string
}

export interface Manifest {
  backup: string
  /** The version of the platform. */
  platform: string
  project: ArchivedProject
  database: DatabaseContents
  /** Rows of services in the control database. */
  services: { service: string; file: ArchivedFile }[]
  /** Versions and sizes of files, as JSON lines. */
  files: ArchivedFile
  fileCount: number
  fileBytes: number
}

/** Bytes of the schema, the rows and the large objects. */
export const databaseBytes = ({ schema, tables, largeObjectsFile }: DatabaseContents): number =>
  tables.reduce((sum, { file }) => sum + file.bytes, schema.bytes + (largeObjectsFile?.bytes ?? 0))

/** Before compression, with the files. */
export const contentBytes = ({ database, fileBytes }: Pick<Manifest, 'database' | 'fileBytes'>): number =>
  databaseBytes(database) + fileBytes

/** What an archive of the control database contains. */
export interface ControlManifest extends Pick<Manifest, 'backup' | 'platform' | 'database'> {
  isControl: true
}
