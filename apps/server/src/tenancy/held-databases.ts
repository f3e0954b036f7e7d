// Wraps project databases so that statements wait while the requests of their project are held.
import type { Databases } from './databases.ts'
import type { RequestHolds } from './request-holds.ts'

export function heldDatabases(databases: Databases, holds: RequestHolds): Databases {
  holds.add({ closeIdle: ({ id }) => databases.closeIdle(id) })
  return {
    ...databases,
    asCaller: (caller, request, statement, values, more) =>
      holds.pass(caller.tenant.ref, () => databases.asCaller(caller, request, statement, values, more)),
    asOwner: (tenant, work, options) =>
      holds.pass(tenant.ref, () => databases.asOwner(tenant, work, options)),
    auth(tenant) {
      const direct = databases.auth(tenant)
      const pass = <T>(run: () => Promise<T>) => holds.pass(tenant.ref, run)
      return {
        rows: statement => pass(() => direct.rows(statement)),
        row: statement => pass(() => direct.row(statement)),
        run: statement => pass(() => direct.run(statement)),
        transaction: work => pass(() => direct.transaction(work)),
      }
    },
    asAuth: (tenant, statement, values) =>
      holds.pass(tenant.ref, () => databases.asAuth(tenant, statement, values)),
    asService: (tenant, statement, values) =>
      holds.pass(tenant.ref, () => databases.asService(tenant, statement, values)),
  }
}
