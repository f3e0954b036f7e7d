import type { UpgradeManifest, upgradeApi } from '@plinth/contract/upgrade.ts'
import type { Handlers } from '#src/kernel/http/plane.ts'
import { jsonReply } from '#src/kernel/http/request.ts'
import type { Actor } from '#src/planes/management/actor.ts'
import type { Audit } from '#src/planes/management/audit.ts'
import type { UpgradeService } from './service.ts'

export const upgradeRoutes = (upgrade: UpgradeService, audit: Audit): Handlers<typeof upgradeApi, Actor> => ({
  async run({ query }, actor, { ip, id: requestId }) {
    if (!query.execute) return jsonReply(200, await upgrade.plan(query.target))
    const { status, body } = await upgrade.execute(query.target, manifest =>
      audit({
        actor,
        action: 'platform.upgrade_executed',
        target: manifest.id,
        projectId: null,
        ip,
        requestId,
        details: summaryOf(manifest),
      }),
    )
    return jsonReply(status, body)
  },
  read: () => upgrade.read(),
})

function summaryOf({ id, done, failed, pending }: UpgradeManifest): string {
  if (id === null) return 'nothing was pending'
  const total = done.length + failed.length + pending.length
  const failures = failed.length > 0 ? `, ${failed.length} failed` : ''
  return `${done.length} of ${total} projects are up to date${failures}`
}
