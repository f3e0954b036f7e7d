// The process that bench/as-caller.ts measures: concurrent callers, each of which sends the next call after an answer.
import { keyring } from '../apps/server/src/kernel/crypto/keys.ts'
import { createLog } from '../apps/server/src/kernel/log.ts'
import { watchAbandoned } from '../apps/server/src/kernel/postgres/abandoned.ts'
import { openDatabase } from '../apps/server/src/kernel/postgres/database.ts'
import type { ServerAddress } from '../apps/server/src/kernel/postgres/server-address.ts'
import { controlSettings } from '../apps/server/src/tenancy/cluster.ts'
import {
  type Caller,
  openDatabases,
  type RequestFacts,
  statement,
} from '../apps/server/src/tenancy/databases.ts'
import { createLogins } from '../apps/server/src/tenancy/logins.ts'
import { noSigningKeys } from '../apps/server/src/tenancy/tenant-signing-keys.ts'

export interface Assignment {
  address: ServerAddress
  controlPlaneSecret: string
  projectId: string
  ref: string
  facts: RequestFacts
  claims: string
  userId: string
  sql: string
  callers: number
}
export interface Round {
  calls: number
  ms: number
  cpuMicros: number
  /** Two if all statements used the pipelined connections. */
  connections: number
}

process.once('message', (assignment: Assignment) => {
  const { address, controlPlaneSecret, projectId, ref, facts, claims, userId, sql, callers } = assignment
  const control = openDatabase(address, 'plinth', controlSettings, () => {})
  const databases = openDatabases({
    control,
    abandoned: watchAbandoned(control, createLog('silent')),
    logins: createLogins(address, keyring(controlPlaneSecret)),
    poolSize: 10,
    maxConnections: 200,
    statementTimeoutMs: { anon: 3000, others: 8000 },
  })
  const caller: Caller = {
    tenant: {
      id: projectId,
      ref,
      name: 'bench',
      status: 'active',
      anonKey: '',
      serviceRoleKey: '',
      jwtSecret: '',
      signingKeys: noSigningKeys,
      quotas: {},
      exposedSchemas: ['public'],
      settings: {},
    },
    role: 'anon',
    claims,
    userId,
    sessionId: '',
  }
  const prepared = statement(sql, true)

  async function callUntil(until: number): Promise<number> {
    let calls = 0
    for (; performance.now() < until; calls++) {
      const { rows } = await databases.asCaller(caller, facts, prepared, [])
      if (rows.length !== 1) throw new Error('expected one row')
    }
    return calls
  }

  process.on('message', async (ms: number) => {
    const cpu = process.cpuUsage()
    const since = performance.now()
    const calls = await Promise.all(Array.from({ length: callers }, () => callUntil(since + ms)))
    const { user, system } = process.cpuUsage(cpu)
    const round: Round = {
      calls: calls.reduce((sum, each) => sum + each, 0),
      ms: performance.now() - since,
      cpuMicros: user + system,
      connections: databases.connections(),
    }
    process.send!(round)
  })
  process.send!('ready')
})
