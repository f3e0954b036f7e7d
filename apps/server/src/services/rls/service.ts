// Row-level security of a project: changed as its owner, simulated as the given role.
import type { Policy, PolicyInput, RlsStatus, RlsTest, RlsTestReply } from '@plinth/contract/rls.ts'
import { qualified, refuseLongName } from '#src/kernel/postgres/name.ts'
import { identifier } from '#src/kernel/postgres/sql.ts'
import { execute, type OwnerWork } from '#src/planes/management/owner-work.ts'
import type { Paging } from '#src/planes/management/paging.ts'
import { type Place, refuseReserved, requireSchema, unknown } from '#src/services/schema/service.ts'
import type { Databases } from '#src/tenancy/databases.ts'
import { createPolicy } from './policy.ts'
import { requireProtectable } from './protected-table.ts'
import { simulate } from './simulation.ts'
import * as store from './store.ts'

const maxNamedTables = 50

export type OpenTables = store.OpenTables
export type RlsService = ReturnType<typeof rlsService>

export function rlsService(owner: OwnerWork, databases: Databases) {
  const toggle = (id: string, { schema, table }: Place, word: 'enable' | 'disable'): Promise<RlsStatus> => {
    refuseReserved(schema)
    return owner.change(id, async session => {
      await requireProtectable(session, { schema, table })
      await execute(session, `alter table ${qualified(schema, table)} ${word} row level security`)
      return (await store.readStatus(session, schema, table))!
    })
  }

  return {
    status: (id: string, schema: string, page: Paging) =>
      owner.look(id, async session => {
        await requireSchema(session, schema)
        return { ...(await store.listStatus(session, schema, page)), ...page }
      }),

    openTables: (id: string, schemas: readonly string[]) =>
      owner.look(id, session => store.listOpenTables(session, schemas, maxNamedTables)),

    enable: (id: string, place: Place) => toggle(id, place, 'enable'),
    disable: (id: string, place: Place) => toggle(id, place, 'disable'),

    listPolicies: (id: string, place: Place, page: Paging) =>
      owner.look(id, async session => {
        const { oid } = await requireProtectable(session, place)
        return { ...(await store.listPolicies(session, oid, page)), ...page }
      }),

    createPolicy: (id: string, { schema, table }: Place, input: PolicyInput): Promise<Policy> => {
      refuseReserved(schema)
      refuseLongName(input.name)
      const statement = createPolicy(qualified(schema, table), input)
      return owner.change(id, async session => {
        const { oid } = await requireProtectable(session, { schema, table })
        await execute(session, statement)
        return (await store.readPolicy(session, oid, input.name))!
      })
    },

    dropPolicy: (id: string, { schema, table }: Place, name: string): Promise<void> => {
      refuseReserved(schema)
      return owner.change(id, async session => {
        const { oid } = await requireProtectable(session, { schema, table })
        const names = await store.listPolicyNames(session, oid)
        if (!names.includes(name)) throw unknown('policy_not_found', 'The table has no policy', name, names)
        await execute(session, `drop policy ${identifier(name)} on ${qualified(schema, table)}`)
      })
    },

    test: (id: string, input: RlsTest): Promise<RlsTestReply> => simulate(owner, databases, id, input),
  }
}
