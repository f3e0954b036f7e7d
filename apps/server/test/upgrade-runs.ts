// What tests do with POST /admin/platform/upgrade on a platform that serves.
import assert from 'node:assert/strict'
import { readdirSync } from 'node:fs'
import { join } from 'node:path'
import type { UpgradeManifest } from '@plinth/contract/upgrade.ts'
import { sql } from '#src/kernel/postgres/sql.ts'
import type { TestPlatform } from './harness.ts'
import type { OutdatedProject } from './outdated-project.ts'

export const settings = { PLATFORM_RATE_LIMIT_ANON: '0' }

/** The platform is started by a hook of the file. */
export function upgradesOf(platform: () => TestPlatform) {
  const call = (method: string, path: string) =>
    platform().call(method, `/api/v1${path}`, { token: platform().adminToken })
  const schemaVersion = async ({ id }: { id: string }) =>
    (await platform().app.control.row<{ version: string }>(
      sql`select schema_version as version from projects where id = ${id}`,
    ))!.version

  return {
    schemaVersion,
    run: (query = '') => call('POST', `/admin/platform/upgrade${query}`),
    read: async () => (await call('GET', '/admin/platform/upgrade')).body,
    isCurrent: async (project: OutdatedProject) =>
      (await schemaVersion(project)) === platform().app.cluster.projectVersion,
    rows: ({ id, anon_key }: OutdatedProject) =>
      platform().call('GET', `/v1/rest/${id}/`, { apikey: anon_key }),
    storedFiles: () => readdirSync(join(platform().config.dataDir, 'backups'), { recursive: true }).sort(),
    /** After each test, because an execution backs up all projects. */
    async removeProjects(): Promise<void> {
      for (const { id } of (await platform().projects.list({ query: {} })).projects)
        assert.equal((await call('DELETE', `/projects/${id}`)).status, 204)
    },
  }
}

/** An upgrade that is continued must keep it. */
export const wayBack = ({
  id,
  prior_version,
  prior_images,
  snapshots,
  control_backup_id,
}: UpgradeManifest) => ({ id, prior_version, prior_images, snapshots, control_backup_id })
