// The record of an upgrade in the store of backups, where it is not encrypted.
import type { UpgradeManifest } from '@plinth/contract/upgrade.ts'

/** Errors of migrations may contain row values and names of a project. */
export const withoutReasons = ({ failed, ...manifest }: UpgradeManifest) => ({
  ...manifest,
  failed: failed.map(({ project_id }) => ({ project_id })),
})
