// Which engine keeps the bytes: an S3 bucket where one is configured, a directory otherwise.
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { openDirectoryPieces } from './filesystem.ts'
import type { Pieces } from './pieces.ts'
import { openS3Pieces, type S3Settings } from './s3.ts'

interface Place {
  dataDir: string
  s3: S3Settings | undefined
}

/** Throws a sentence for the operator when they cannot be kept there. */
export async function openPieces({ dataDir, s3 }: Place): Promise<Pieces> {
  if (s3) return openS3Pieces(s3)
  const root = join(dataDir, 'objects')
  try {
    const pieces = await openDirectoryPieces(root)
    // Others have directories of this name, too: by this file it is known as ours, and may be removed.
    await writeFile(join(root, '.plinth'), '', { flag: 'a', mode: 0o600 })
    return pieces
  } catch (cause) {
    throw new Error(`PLATFORM_DATA_DIR cannot be used: ${(cause as Error).message}.`, { cause })
  }
}
