// Which engine keeps the bytes: an S3 bucket where one is configured, a directory otherwise.
import { join } from 'node:path'
import { openDirectoryPieces } from './filesystem.ts'
import type { Pieces } from './pieces.ts'
import { openS3Pieces, type S3Settings } from './s3.ts'

/** Throws a sentence for the operator when they cannot be kept there. */
export async function openPieces(config: { dataDir: string; s3: S3Settings | undefined }): Promise<Pieces> {
  if (config.s3) return openS3Pieces(config.s3)
  try {
    return await openDirectoryPieces(join(config.dataDir, 'objects'))
  } catch (cause) {
    throw new Error(`PLATFORM_DATA_DIR cannot be used: ${(cause as Error).message}.`, { cause })
  }
}
