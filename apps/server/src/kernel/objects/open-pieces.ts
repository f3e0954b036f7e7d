// Opens the storage for pieces: an S3 bucket if one is configured, a directory otherwise.
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { openDirectoryPieces } from './filesystem.ts'
import type { Pieces } from './pieces.ts'
import { openS3Pieces, type S3Settings, type S3Timeouts } from './s3.ts'

interface PiecesSettings {
  dataDir: string
  s3: S3Settings | undefined
}

interface BackupSettings {
  dataDir: string
  backups: { directory: string | undefined; s3: S3Settings | undefined }
}

/** The storage for backups: another bucket or directory, so that it can be on another disk. */
export async function openBackupPieces(
  { dataDir, backups }: BackupSettings,
  s3Timeouts?: S3Timeouts,
): Promise<Pieces> {
  if (backups.s3) return openS3Pieces(backups.s3, s3Timeouts)
  try {
    return await openDirectoryPieces(backups.directory ?? join(dataDir, 'backups'))
  } catch (cause) {
    throw new Error(`PLATFORM_BACKUP_DIR cannot be used: ${(cause as Error).message}.`, { cause })
  }
}

/** Throws an error with a message for the operator if the bucket or directory cannot be used. */
export async function openPieces({ dataDir, s3 }: PiecesSettings, s3Timeouts?: S3Timeouts): Promise<Pieces> {
  if (s3) return openS3Pieces(s3, s3Timeouts)
  const root = join(dataDir, 'objects')
  try {
    const pieces = await openDirectoryPieces(root)
    // Other programs have directories called `objects`. This file marks ours, which remove-data may delete.
    await writeFile(join(root, '.plinth'), '', { flag: 'a', mode: 0o600 })
    return pieces
  } catch (cause) {
    throw new Error(`PLATFORM_DATA_DIR cannot be used: ${(cause as Error).message}.`, { cause })
  }
}
