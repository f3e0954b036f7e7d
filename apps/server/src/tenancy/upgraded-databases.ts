// Wraps project databases so that each is used only after its upgrade to this release. For a current project the check is
// a lookup in memory.
import type { Databases } from './databases.ts'
import type { Tenant } from './directory.ts'
import type { WhenUpgraded } from './upgrades.ts'

export function upgradedDatabases(databases: Databases, whenUpgraded: WhenUpgraded): Databases {
  function upgraded<T>(tenant: Tenant, run: () => Promise<T>): Promise<T> {
    const waiting = whenUpgraded(tenant.ref, 'caller')
    return waiting ? waiting.then(run) : run()
  }

  return {
    ...databases,
    asCaller(caller, request, statement, values, more) {
      const { tenant, role } = caller
      const waiting = whenUpgraded(tenant.ref, role === 'service_role' ? 'owner' : 'caller')
      const run = () => databases.asCaller(caller, request, statement, values, more)
      return waiting ? waiting.then(run) : run()
    },
    async asOwner(tenant, work, options) {
      await whenUpgraded(tenant.ref, 'owner')
      return databases.asOwner(tenant, work, options)
    },
    auth(tenant) {
      const direct = databases.auth(tenant)
      return {
        rows: statement => upgraded(tenant, () => direct.rows(statement)),
        row: statement => upgraded(tenant, () => direct.row(statement)),
        run: statement => upgraded(tenant, () => direct.run(statement)),
        transaction: work => upgraded(tenant, () => direct.transaction(work)),
      }
    },
    asAuth: (tenant, statement, values) =>
      upgraded(tenant, () => databases.asAuth(tenant, statement, values)),
    asService: (tenant, statement, values) =>
      upgraded(tenant, () => databases.asService(tenant, statement, values)),
  }
}
