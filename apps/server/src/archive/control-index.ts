// The index of a backup of the control database: a small JSON file with what is needed to read the archive.
import { isContentProof } from '#src/kernel/objects/content-proof.ts'
import { DamagedFile } from '#src/kernel/objects/frames.ts'
import type { PackedFile } from '#src/kernel/objects/packed-file.ts'

export interface ControlBackup {
  id: string
  created_at: string
  /** The release that made it. */
  version: string
  bytes: number
  stored_bytes: number
}

export interface ControlIndex extends ControlBackup {
  manifest: PackedFile
}

const format = 1

export const indexText = (index: ControlIndex): string => JSON.stringify({ format, ...index })

/** Throws DamagedFile if it is not an index of the backup. The file is not encrypted, so nothing authenticates it. */
export function parseIndex(text: string, backup: string): ControlIndex {
  const value = parse(text)
  if (value?.['format'] !== format) throw new DamagedFile(`its format is not ${format}`)
  const { id, created_at, version, bytes, stored_bytes, manifest } = value
  if (id !== backup) throw new DamagedFile('it is that of another backup')
  if (
    typeof created_at !== 'string' ||
    typeof version !== 'string' ||
    !isSize(bytes) ||
    !isSize(stored_bytes) ||
    !isPackedFile(manifest)
  )
    throw new DamagedFile('a field is missing or invalid')
  return { id: backup, created_at, version, bytes, stored_bytes, manifest }
}

function parse(text: string): Partial<Record<string, unknown>> | null {
  try {
    return JSON.parse(text)
  } catch (error) {
    throw new DamagedFile('it is not JSON', error)
  }
}

function isPackedFile(value: unknown): value is PackedFile {
  const file = (value ?? {}) as Record<keyof PackedFile, unknown>
  return isSize(file.bytes) && isSize(file.storedBytes) && isContentProof(file)
}

const isSize = (value: unknown): value is number => Number.isSafeInteger(value) && (value as number) >= 0
