// The one place where tenants' data is touched. `asCaller` runs one statement as the role and with the claims
// of a request, in one round trip; `asOwner` is for the platform's own work on a project.
import type { Role } from '@plinth/contract/route.ts'
import { Refusal, retryLater } from '#src/kernel/errors.ts'
import { type Database, type Session, withClient } from '#src/kernel/postgres/database.ts'
import {
  type ConnectionBudget,
  connectRefusal,
  isConnectionFailure,
  Pool,
} from '#src/kernel/postgres/pool.ts'
import type { Answer, Step } from '#src/kernel/postgres/wire/connection.ts'
import type { Value } from '#src/kernel/postgres/wire/encoder.ts'
import type { Tenant } from './directory.ts'
import type { Login, Logins } from './logins.ts'

export interface Caller {
  readonly tenant: Tenant
  readonly role: Role
  /** JSON text of the claims, as policies read them through auth.jwt(). */
  readonly claims: string
  /** `sub` of a signed-in user, or empty. */
  readonly userId: string
}

/** What SQL may read of the HTTP request, as with PostgREST. */
export interface RequestFacts {
  readonly method: string
  readonly path: string
  /** JSON object of the request's headers. */
  readonly headers: string
  readonly signal?: AbortSignal
}

/** A statement text with its name per role: a plan made for one role is never used for another. */
export interface Statement {
  readonly sql: string
  readonly keys: Readonly<Record<Role, string>>
  /**
   * May share a connection with other callers once it has proven quick. Such a statement stays prepared: the
   * type of every parameter must be written out (`$1::int`), or it stays what it was when first prepared.
   */
  readonly mayPipeline: boolean
}

export function statement(sql: string, mayPipeline: boolean): Statement {
  if (sql.includes('\0')) throw new Refusal('invalid_request', 'A name in the request holds a NUL character')
  const keys = {
    anon: `anon:${sql}`,
    authenticated: `authenticated:${sql}`,
    service_role: `service_role:${sql}`,
  }
  return { sql, keys, mayPipeline }
}

export interface Databases {
  asCaller(
    caller: Caller,
    request: RequestFacts,
    statement: Statement,
    values: readonly Value[],
  ): Promise<Answer>
  asOwner<T>(tenant: Pick<Tenant, 'ref'>, work: (session: Session) => Promise<T>): Promise<T>
  /** Drops every connection to a project: it was suspended, deleted, or its keys changed. */
  disconnect(id: string): void
  /** Open connections of all projects, for health and tests. */
  connections(): number
  close(): void
}

interface DatabasesOptions {
  control: Database
  logins: Logins
  poolSize: number
  maxConnections: number
  statementTimeoutMs: { anon: number; others: number }
}

const idleMs = 15_000
const sweepMs = 5_000
const ownersAtOnce = 5

// A tenant's own code may set anything for the session: everything that matters is set anew for each unit.
const forgetSession: Step = { key: 'reset', sql: 'reset all', values: [] }
const becomeCaller = `select
  set_config('role', $1, true), set_config('request.jwt.claims', $2, true), set_config('request.user_id', $3, true),
  set_config('request.method', $4, true), set_config('request.path', $5, true),
  set_config('request.headers', $6, true), set_config('statement_timeout', $7, true), pg_advisory_unlock_all()`

/** The session's own settings; RESET ALL returns to these, not to what a tenant stored for its roles. */
const callerSettings = {
  application_name: 'plinth',
  client_encoding: 'UTF8',
  search_path: 'public, extensions, pg_temp',
  local_preload_libraries: '',
  role: 'none',
  DateStyle: 'ISO, MDY',
  TimeZone: 'UTC',
  idle_in_transaction_session_timeout: '10s',
}

export function openDatabases(options: DatabasesOptions): Databases {
  const { control, logins, statementTimeoutMs } = options
  const pools = new Map<string, Pool>()
  const owners = new Map<string, number>()
  let held = 0
  let sweeper: NodeJS.Timeout | undefined
  const timeouts: Record<Role, string> = {
    anon: String(statementTimeoutMs.anon),
    authenticated: String(statementTimeoutMs.others),
    service_role: String(statementTimeoutMs.others),
  }

  const budget: ConnectionBudget = {
    take() {
      if (held >= options.maxConnections && !makeRoom()) return false
      held++
      return true
    },
    give: () => void held--,
  }

  function makeRoom(): boolean {
    for (const pool of pools.values()) if (pool.closeOneIdle()) return true
    return false
  }

  function poolFor({ id, ref }: Tenant, login: Login): Pool {
    const name = `${id}:${login}`
    const existing = pools.get(name)
    if (existing) return existing
    const pool = new Pool({
      address: logins.address(ref, login),
      database: ref,
      settings: callerSettings,
      maxConnections: options.poolSize,
      maxWaiting: options.poolSize * 10,
      maxWaitMs: 2000,
      budget,
      check: () => logins.check(control, ref, login),
      heal: () => logins.heal(control, ref, login),
    })
    pools.set(name, pool)
    sweeper ??= setInterval(sweep, sweepMs).unref()
    return pool
  }

  function sweep(): void {
    const before = performance.now() - idleMs
    for (const [name, pool] of pools) if (pool.closeIdle(before)) pools.delete(name)
    if (pools.size > 0) return
    clearInterval(sweeper)
    sweeper = undefined
  }

  return {
    async asCaller(
      { tenant, role, claims, userId },
      { method, path, headers, signal },
      { sql, keys, mayPipeline },
      values,
    ) {
      const pool = poolFor(tenant, role === 'service_role' ? 'svc' : 'api')
      const become: Step = {
        key: 'become',
        sql: becomeCaller,
        values: [role, claims, userId, method, path, headers, timeouts[role]],
      }
      try {
        return await pool.run([forgetSession, become, { key: keys[role], sql, values }], {
          shape: keys[role],
          mayPipeline,
          signal,
        })
      } catch (error) {
        throw isConnectionFailure(error) ? connectRefusal(error) : error
      }
    },

    async asOwner({ ref }, work) {
      const running = owners.get(ref) ?? 0
      if (running >= ownersAtOnce)
        throw retryLater(
          'pool_exhausted',
          'Too many statements run as the owner of this project; try again in a second',
          1,
        )
      owners.set(ref, running + 1)
      const { search_path, ...settings } = callerSettings
      try {
        return await asOwnerOnce(settings, ref, work)
      } finally {
        const left = owners.get(ref)! - 1
        if (left > 0) owners.set(ref, left)
        else owners.delete(ref)
      }
    },

    disconnect(id) {
      for (const login of ['api', 'svc'] as const) {
        pools.get(`${id}:${login}`)?.close()
        pools.delete(`${id}:${login}`)
      }
    },
    connections: () => held,
    close() {
      clearInterval(sweeper)
      for (const pool of pools.values()) pool.close()
      pools.clear()
    },
  }

  async function asOwnerOnce<T>(
    settings: Record<string, string>,
    ref: string,
    work: (session: Session) => Promise<T>,
  ): Promise<T> {
    let hasBegun = false
    const run = () =>
      withClient(logins.address(ref, 'owner'), ref, settings, session => {
        hasBegun = true
        return work(session)
      })
    await logins.check(control, ref, 'owner')
    try {
      return await run()
    } catch (error) {
      const { code } = error as { code?: string }
      if (hasBegun || (code !== '28P01' && code !== '28000')) throw error
      await logins.heal(control, ref, 'owner')
      return run()
    }
  }
}
