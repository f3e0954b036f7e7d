// The archive of a backup of a test platform, as the platform reads it.
import { join } from 'node:path'
import { readArchive } from '#src/archive/archive.ts'
import { keyring } from '#src/kernel/crypto/keys.ts'
import { openDirectoryPieces } from '#src/kernel/objects/filesystem.ts'
import { findManifest } from '#src/services/backups/store.ts'
import type { TestPlatform } from './harness.ts'

/** `packed` is what the platform remembers of the manifest. */
export async function archiveOf(
  platform: TestPlatform,
  projectId: string,
  backupId: string,
  controlPlaneSecret = platform.controlPlaneSecret,
) {
  const packed = (await findManifest(platform.app.control, backupId))!
  const pieces = await openDirectoryPieces(join(platform.config.dataDir, 'backups'))
  const keys = keyring(controlPlaneSecret)
  const name = { project: projectId, backup: backupId, attempt: packed.attempt }
  return { packed, pieces, keys, name, archive: await readArchive(pieces, keys, name, packed) }
}
