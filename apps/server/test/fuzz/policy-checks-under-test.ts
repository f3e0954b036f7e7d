// The policy checks as the feed uses them, on a separate database: all changes of a batch for all subscribers at once.
import { keyring } from '#src/kernel/crypto/keys.ts'
import { createLog } from '#src/kernel/log.ts'
import { watchAbandoned } from '#src/kernel/postgres/abandoned.ts'
import { type Database, withClient } from '#src/kernel/postgres/database.ts'
import type { ServerAddress } from '#src/kernel/postgres/server-address.ts'
import { createPolicyCheckPools } from '#src/services/realtime/changes/policy-check-pools.ts'
import { createPolicyChecks, type PolicyChecks } from '#src/services/realtime/changes/policy-checks.ts'
import type { Tenant } from '#src/tenancy/directory.ts'
import { createLogins } from '#src/tenancy/logins.ts'
import { createRequestHolds } from '#src/tenancy/request-holds.ts'
import { patientTimeouts } from '#test/patient-timeouts.ts'
import type { Expected, Subscriber } from './policy-check-cases.ts'
import { oracleScript } from './policy-check-oracle.ts'
import { quote, tableNames, tableScript } from './policy-check-table.ts'

/** A change as the triggers captured it. */
export interface Captured {
  id: string
  relid: string
  event: Expected['kind']
  /** The rows in JSON, as sent to subscribers. */
  new: string | undefined
  old: string | undefined
  /** The rows in Postgres row syntax, as checked. */
  newRow: string | undefined
  oldRow: string | undefined
}

/** By change, then by subscriber. */
export type Shown = { new: boolean; old: boolean }[][]

export interface PolicyChecksUnderTest {
  check(relid: string, changes: readonly Captured[], subscribers: readonly Subscriber[]): Promise<Shown>
}

export interface FuzzDatabase {
  superuser: ServerAddress
  owner: ServerAddress
  database: string
}

export interface PolicyCheckFuzz {
  database: FuzzDatabase
  policyChecks: PolicyChecksUnderTest
  close(): void
}

/** Prepares the project's database, and creates policy checks on it. */
export async function openPolicyCheckFuzz(
  superuser: ServerAddress,
  controlPlaneSecret: string,
  control: Database,
  project: { id: string; ref: string },
): Promise<PolicyCheckFuzz> {
  const logins = createLogins(superuser, keyring(controlPlaneSecret))
  const database = { superuser, owner: logins.address(project.ref, 'owner'), database: project.ref }
  await prepare(database)
  const abandoned = watchAbandoned(control, createLog('silent'))
  const pools = createPolicyCheckPools({
    holds: createRequestHolds(),
    control,
    logins,
    abandoned,
    perProject: 4,
    total: 4,
  })
  // The policy checks use only these fields of a tenant.
  const tenant = { ...project, exposedSchemas: ['public'] } as unknown as Tenant
  return {
    database,
    policyChecks: checkInBatch(createPolicyChecks(pools, 4, patientTimeouts), tenant),
    close: () => pools.close(),
  }
}

/** All changes of a batch for all subscribers at once, like the feed. service_role bypasses policies. */
function checkInBatch(policyChecks: PolicyChecks, tenant: Tenant): PolicyChecksUnderTest {
  return {
    async check(relid, changes, subscribers) {
      const shown: Shown = changes.map(() =>
        subscribers.map(({ role }) => ({ new: role === 'service_role', old: role === 'service_role' })),
      )
      const checked = changes.filter(({ event }) => event !== 'DELETE')
      const sides = checked.flatMap(change =>
        (['new', 'old'] as const).flatMap(side => {
          const row = change[`${side}Row`]
          return row === undefined ? [] : { at: changes.indexOf(change), side, row }
        }),
      )
      const rows = sides.map(({ row }) => row)
      for (const role of ['anon', 'authenticated'] as const) {
        const those = [...subscribers.keys()].filter(who => subscribers[who]!.role === role)
        const callers = those.map(who => ({ ...subscribers[who]!, rows }))
        if (rows.length === 0 || callers.length === 0) continue
        const results = await policyChecks.check(tenant, { relid, role, command: 'select' }, callers)
        for (const [position, who] of those.entries())
          for (const [index, { at, side }] of sides.entries())
            shown[at]![who]![side] = results[position]![index] === '1'
      }
      return shown
    },
  }
}

async function prepare({ superuser, owner, database }: FuzzDatabase): Promise<void> {
  await withClient(owner, database, {}, session => session.script(tableScript))
  await withClient(superuser, database, {}, async session => {
    await session.script(oracleScript)
    for (const name of tableNames) {
      const table = `public.${quote(name)}`
      await session.script(`
        alter table ${table} enable trigger plinth_insert, enable trigger plinth_update, enable trigger plinth_delete;
        insert into platform.listening (relid, node, until) values ('${table}'::regclass, gen_random_uuid(), 'infinity')`)
    }
  })
}
