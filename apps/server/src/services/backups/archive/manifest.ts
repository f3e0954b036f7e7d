// What an archive of a project contains. The manifest is written last and has the size and hash of every other file.
import type { PackedFile } from '#src/kernel/objects/packed-file.ts'
import type { BackedUpProject } from '../store.ts'

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
  file: ArchivedFile
}

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

export interface Manifest {
  format: 1
  backup: string
  /** The version of the platform. */
  platform: string
  project: BackedUpProject
  database: DatabaseContents
  /** Rows of services in the control database. */
  services: { service: string; file: ArchivedFile }[]
  /** Versions and sizes of files, as JSON lines. */
  files: ArchivedFile
  fileCount: number
  fileBytes: number
}
