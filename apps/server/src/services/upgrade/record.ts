// The record of an upgrade in the store of backups, where it is not encrypted.
import type { UpgradeManifest } from '@plinth/contract/upgrade.ts'

/**
 * Errors of migrations may contain row values and names of a project. Sizes are not needed to go back, and are not known yet when
 * the record is written first.
 */
export const withoutReasons = ({ failed, snapshot_bytes: _, ...manifest }: UpgradeManifest) => ({
  ...manifest,
  failed: failed.map(({ project_id }) => ({ project_id })),
})
