// Export and restore of a project's settings and quotas. Name, slug, keys and members belong to the project itself. A
// restore in place keeps the quotas, which are the operator's: it could raise them otherwise.
import type { Sealer } from '#src/kernel/crypto/sealed.ts'
import type { ProjectDataHooks } from '#src/tenancy/project-data.ts'
import { resealSettings } from '#src/tenancy/settings-secrets.ts'
import { findProject, restoreProject } from './store.ts'

interface Row {
  settings: Record<string, unknown>
  quotas: Record<string, unknown>
}

export const settingsData = (sealer: Sealer): ProjectDataHooks => ({
  async *export(session, projectId) {
    const project = await findProject(session, projectId)
    if (project) yield { settings: project.settings, quotas: project.quotas } satisfies Row
  },
  async restore(session, projectId, { from, rows }) {
    for await (const row of rows) {
      const { settings, quotas } = row as unknown as Row
      const present = from === projectId ? await findProject(session, projectId) : undefined
      const resealed = resealSettings(settings, from, projectId, sealer)
      await restoreProject(session, projectId, resealed, present?.quotas ?? quotas)
    }
  },
})
