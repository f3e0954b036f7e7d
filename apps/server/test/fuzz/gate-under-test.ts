// The gate as the feed asks it, on a database of its own: all changes of a batch for all listeners at once.
import { keyring } from '#src/kernel/crypto/keys.ts'
import { createLog } from '#src/kernel/log.ts'
import { watchAbandoned } from '#src/kernel/postgres/abandoned.ts'
import { type Database, withClient } from '#src/kernel/postgres/database.ts'
import type { ServerAddress } from '#src/kernel/postgres/server-address.ts'
import { createGate, type Gate } from '#src/services/realtime/changes/gate.ts'
import type { Tenant } from '#src/tenancy/directory.ts'
import { createGatePools } from '#src/tenancy/gate-pools.ts'
import { createLogins } from '#src/tenancy/logins.ts'
import type { Expected, Listener } from './gate-cases.ts'
import { oracleScript } from './gate-oracle.ts'
import { quote, tableNames, tableScript } from './gate-table.ts'

/** What the triggers have noted of a change. */
export interface Captured {
  id: string
  relid: string
  event: Expected['kind']
  /** As subscribers are told of them, in JSON. */
  new: string | undefined
  old: string | undefined
  /** As they are judged, in the form of Postgres. */
  newRow: string | undefined
  oldRow: string | undefined
}

/** By change, then by listener. */
export type Shown = { new: boolean; old: boolean }[][]

export interface GateUnderTest {
  judge(relid: string, changes: readonly Captured[], listeners: readonly Listener[]): Promise<Shown>
}

export interface GatePlace {
  superuser: ServerAddress
  owner: ServerAddress
  database: string
}

export interface GateFuzz {
  place: GatePlace
  gate: GateUnderTest
  close(): void
}

/** A project's database made ready, and a gate of its own before it. */
export async function openGateFuzz(
  superuser: ServerAddress,
  controlPlaneSecret: string,
  control: Database,
  project: { id: string; ref: string },
): Promise<GateFuzz> {
  const logins = createLogins(superuser, keyring(controlPlaneSecret))
  const place = { superuser, owner: logins.address(project.ref, 'owner'), database: project.ref }
  await prepare(place)
  const abandoned = watchAbandoned(control, createLog('silent'))
  const pools = createGatePools({ control, logins, abandoned, perProject: 4, inAll: 4 })
  // All that a gate has to know of a project.
  const tenant = { ...project, exposedSchemas: ['public'] } as unknown as Tenant
  return { place, gate: throughGate(createGate(pools), tenant), close: () => pools.close() }
}

/** All changes of a batch for all listeners at once, as the feed asks. service_role is not asked about. */
function throughGate(gate: Gate, tenant: Tenant): GateUnderTest {
  return {
    async judge(relid, changes, listeners) {
      const shown: Shown = changes.map(() =>
        listeners.map(({ role }) => ({ new: role === 'service_role', old: role === 'service_role' })),
      )
      const judged = changes.filter(({ event }) => event !== 'DELETE')
      const sides = judged.flatMap(change =>
        (['new', 'old'] as const).flatMap(side => {
          const row = change[`${side}Row`]
          return row === undefined ? [] : { at: changes.indexOf(change), side, row }
        }),
      )
      const rows = sides.map(({ row }) => row)
      for (const role of ['anon', 'authenticated'] as const) {
        const those = [...listeners.keys()].filter(who => listeners[who]!.role === role)
        const asked = those.map(who => ({ ...listeners[who]!, rows }))
        if (rows.length === 0 || asked.length === 0) continue
        const verdicts = await gate.judge(tenant, { relid, role, command: 'select' }, asked)
        for (const [place, who] of those.entries())
          for (const [index, { at, side }] of sides.entries())
            shown[at]![who]![side] = verdicts[place]![index] === '1'
      }
      return shown
    },
  }
}

async function prepare({ superuser, owner, database }: GatePlace): Promise<void> {
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
