// The only access to project databases. `asCaller` runs one statement with the role and claims of a request, in one round
// trip. `asOwner` is for work of the platform on a project, `auth` for its users.

import type { Role } from '@plinth/contract/route.ts'
import { createChore } from '#src/kernel/chores.ts'
import { Refusal } from '#src/kernel/errors.ts'
import type { Abandoned } from '#src/kernel/postgres/abandoned.ts'
import type { Database, PoolUse } from '#src/kernel/postgres/database.ts'
import { type ConnectionBudget, Pool } from '#src/kernel/postgres/pool.ts'
import type { Value } from '#src/kernel/postgres/wire/encoder.ts'
import type { Answer, Step } from '#src/kernel/postgres/wire/unit.ts'
import { type AuthDatabase, createAuthPools } from './auth-pools.ts'
import { becoming, usualFacts } from './become-caller.ts'
import type { Tenant } from './directory.ts'
import type { Logins } from './logins.ts'
import { type AsOwner, createOwners } from './owners.ts'
import { searchPathOf, sessionSettings } from './session-settings.ts'
import { createWriteListeners } from './write-listeners.ts'

export interface Caller {
  readonly tenant: Tenant
  readonly role: Role
  /** JSON text of the claims, as policies read them through auth.jwt(). */
  readonly claims: string
  /** `sub` of a signed-in user, or empty. */
  readonly userId: string
  /** The session a user's token was issued in, or empty. */
  readonly sessionId: string
}

/** The facts of the HTTP request that SQL can read, as with PostgREST. */
export interface RequestFacts {
  readonly method: string
  readonly path: string
  /** JSON object of the request's headers. */
  readonly headers: string
  /** JSON object of the request's cookies. */
  readonly cookies?: string | undefined
  readonly timeZone?: string | undefined
  /** An additional setting for the policies of a service. */
  readonly setting?: { readonly name: string; readonly value: string }
  /** Runs in a read-only transaction. */
  readonly isReadOnly?: boolean
  /** Rolls back after the statement. */
  readonly rollsBack?: boolean | undefined
  readonly signal?: AbortSignal
}

/** A statement to run as a caller. Its key differs per role, so that a plan made for one role never serves another. */
export interface CallerStatement {
  readonly sql: string
  readonly keys: Readonly<Record<Role, string>>
  /**
   * May share a connection with other callers once it has proven quick. A shared statement stays prepared
   * with the parameter types of its first run, so its text must contain the types (`$1::int`) or change with
   * the schema.
   */
  readonly mayPipeline: boolean
}

/** A quick statement of the platform. It shares connections and stays prepared. */
export interface AuthStatement {
  readonly name: string
  readonly sql: string
}

/** Created on first use, because most statements run as one role only. */
class KeysByRole implements Record<Role, string> {
  readonly #sql: string
  #anon: string | undefined
  #authenticated: string | undefined
  #serviceRole: string | undefined
  constructor(sql: string) {
    this.#sql = sql
  }
  get anon() {
    this.#anon ??= `anon:${this.#sql}`
    return this.#anon
  }
  get authenticated() {
    this.#authenticated ??= `authenticated:${this.#sql}`
    return this.#authenticated
  }
  get service_role() {
    this.#serviceRole ??= `service_role:${this.#sql}`
    return this.#serviceRole
  }
}

/** A statement with its values. */
export interface BoundStatement {
  readonly statement: CallerStatement
  readonly values: readonly Value[]
}

export function statement(sql: string, mayPipeline: boolean): CallerStatement {
  if (sql.includes('\0')) throw new Refusal('invalid_request', 'A name in the request holds a NUL character')
  return { sql, keys: new KeysByRole(sql), mayPipeline }
}

export interface Databases {
  asCaller(
    caller: Caller,
    request: RequestFacts,
    statement: CallerStatement,
    values: readonly Value[],
    /** Run after the statement in the same transaction. Their rows follow in the answer. */
    more?: readonly BoundStatement[],
  ): Promise<Answer>
  asOwner: AsOwner
  /** Runs several statements on the auth tables, on one connection. */
  auth(tenant: Tenant): AuthDatabase
  /** Runs one statement on the auth tables, on a shared pipelined connection. */
  asAuth(tenant: Tenant, statement: AuthStatement, values: readonly Value[]): Promise<Answer>
  /** Runs one statement of the platform as service_role, independent of any request. */
  asService(tenant: Tenant, statement: CallerStatement, values: readonly Value[]): Promise<Answer>
  /** Adds a listener for possible writes to a project, and returns a function that removes it. */
  onWrite(id: string, listener: () => void): () => void
  /** Called when the last idle connection to a project was closed. */
  onIdle(listener: (id: string) => void): void
  /** Closes all connections to a project after it was suspended or deleted, or its keys changed. */
  disconnect(id: string): void
  /** Closes the idle connections to a project. True if none is left. */
  closeIdle(id: string): boolean
  /** Open connections of all projects, for health and tests. */
  connections(): number
  use(): PoolUse
  close(): void
}

interface DatabasesOptions {
  control: Database
  logins: Logins
  abandoned: Abandoned
  poolSize: number
  maxConnections: number
  statementTimeoutMs: { anon: number; others: number }
}

interface PoolNames {
  api: string
  svc: string
  auth: string
  searchPath: string
}

/**
 * Maximum time of a statement on a shared connection. After it, the statement runs again on its own connection. A
 * lock_timeout would not work here, because tenants' code could catch its error.
 */
const sharedTimeoutMs = 100
const idleMs = 15_000
const sweepMs = 5_000

// Tenants' code may change any session setting, so all relevant settings are set again for each unit.
const forgetSession: Step = { key: 'reset', sql: 'reset all', values: [] }
const setTimeZone = `select set_config('TimeZone', $1, true)`
const setFurther = 'select set_config($1, $2, true)'
const setCookies = `select set_config('request.cookies', $1, true)`
/** Checks deferred constraints as a commit would, then rolls back. */
const undo: readonly Step[] = [
  { key: 'immediate', sql: 'set constraints all immediate', values: [] },
  { key: 'rollback', sql: 'rollback', values: [] },
]

const authSettings = { ...sessionSettings, search_path: 'pg_catalog, pg_temp' }
const authTimeoutMs = 5000
const limitTime = (ms: number): Step => ({
  key: `timeout ${ms}`,
  sql: `select set_config('statement_timeout', '${ms}', true)`,
  values: [],
})
const serve = (ms: number): Step => ({
  key: `serve ${ms}`,
  sql: `select set_config('role', 'service_role', true), set_config('request.jwt.claims', '{"role":"service_role"}', true),
    set_config('statement_timeout', '${ms}', true), pg_advisory_unlock_all()`,
  values: [],
})
const sharedAuthSteps: readonly Step[] = [forgetSession, limitTime(sharedTimeoutMs)]
const loneAuthSteps: readonly Step[] = [forgetSession, limitTime(authTimeoutMs)]

const timeoutsUpTo = (
  { anon, others }: DatabasesOptions['statementTimeoutMs'],
  most: number,
): Record<Role, number> => ({
  anon: Math.min(most, anon),
  authenticated: Math.min(most, others),
  service_role: Math.min(most, others),
})

const names = new WeakMap<Tenant, PoolNames>()

/** Created once per project. A changed search path creates another pool; the previous one is closed when idle. */
function poolNames(tenant: Tenant): PoolNames {
  const known = names.get(tenant)
  if (known) return known
  const searchPath = searchPathOf(tenant)
  const made = {
    api: `${tenant.id}:api:${searchPath}`,
    svc: `${tenant.id}:svc:${searchPath}`,
    auth: `${tenant.id}:auth`,
    searchPath,
  }
  names.set(tenant, made)
  return made
}

export function openDatabases(options: DatabasesOptions): Databases {
  const { control, logins, abandoned, statementTimeoutMs } = options
  const pools = new Map<string, Pool>()
  const owners = createOwners(control, logins, abandoned)
  const idleListeners: ((id: string) => void)[] = []
  const writes = createWriteListeners()
  let held = 0
  const sweeping = createChore({ name: 'close idle connections', everyMs: sweepMs, run: sweep })
  const timeouts = timeoutsUpTo(statementTimeoutMs, Number.POSITIVE_INFINITY)
  const sharedTimeouts = timeoutsUpTo(statementTimeoutMs, sharedTimeoutMs)
  const become = { shared: becoming(sharedTimeouts), alone: becoming(timeouts) }

  const serviceSteps = [sharedTimeouts.service_role, timeouts.service_role].map(ms => [
    forgetSession,
    serve(ms),
  ]) as [Step[], Step[]]

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
    return authPools.closeOneIdle()
  }

  const authPools = createAuthPools(control, logins, budget, abandoned)

  function poolFor(tenant: Tenant, login: 'api' | 'svc' | 'auth'): Pool {
    const { [login]: name, searchPath } = poolNames(tenant)
    const existing = pools.get(name)
    if (existing) return existing
    const { ref } = tenant
    const pool = new Pool({
      address: logins.address(ref, login),
      database: ref,
      settings:
        login === 'auth'
          ? authSettings
          : { ...sessionSettings, search_path: searchPath, ...(login === 'api' && usualFacts) },
      maxConnections: options.poolSize,
      maxWaiting: options.poolSize * 10,
      maxWaitMs: 2000,
      budget,
      abandoned,
      group: `${ref}:${login}`,
      check: () => logins.check(control, ref, login),
      heal: () => logins.heal(control, ref, login),
    })
    pools.set(name, pool)
    sweeping.start()
    return pool
  }

  function sweep(): 'idle' | undefined {
    const before = performance.now() - idleMs
    authPools.closeIdle(before)
    for (const [name, pool] of pools) {
      if (!pool.closeIdle(before)) continue
      pools.delete(name)
      const id = name.slice(0, name.indexOf(':'))
      const isLast = !pools.keys().some(other => other.startsWith(id))
      if (isLast) for (const listener of idleListeners) listener(id)
    }
    return pools.size === 0 && authPools.isEmpty ? 'idle' : undefined
  }

  return {
    asCaller(caller, request, { sql, keys, mayPipeline }, values, more = []) {
      const { tenant, role } = caller
      const { cookies, timeZone, setting, isReadOnly } = request
      const login = role === 'service_role' ? 'svc' : 'api'
      const pool = poolFor(tenant, login)
      const becomeAlone = () => become.alone(caller, request, login === 'api')
      const steps = [
        forgetSession,
        mayPipeline ? become.shared(caller, request, login === 'api') : becomeAlone(),
      ]
      if (timeZone !== undefined) steps.push({ key: 'time zone', sql: setTimeZone, values: [timeZone] })
      if (cookies !== undefined) steps.push({ key: 'cookies', sql: setCookies, values: [cookies] })
      if (setting) steps.push({ key: 'setting', sql: setFurther, values: [setting.name, setting.value] })
      const shape = keys[role]
      const answering = steps.push({ key: shape, sql, values }) - 1
      for (const next of more)
        steps.push({ key: next.statement.keys[role], sql: next.statement.sql, values: next.values })
      if (request.rollsBack) steps.push(...undo)
      const alone = () => steps.with(1, becomeAlone())
      const how = { shape, mayPipeline, timeoutMs: timeouts[role], isReadOnly }
      const answers = 1 + more.length
      const answer = pool.run(steps, { ...how, answering, answers, request, alone })
      return isReadOnly ? answer : writes.after(tenant.id, answer)
    },

    auth(tenant) {
      sweeping.start()
      const database = authPools.of(tenant)
      return { ...database, transaction: work => writes.after(tenant.id, database.transaction(work)) }
    },

    asAuth(tenant, { name, sql }, values) {
      const step = { key: name, sql, values }
      const answer = poolFor(tenant, 'auth').run([...sharedAuthSteps, step], {
        shape: name,
        mayPipeline: true,
        timeoutMs: authTimeoutMs,
        alone: () => [...loneAuthSteps, step],
      })
      return writes.after(tenant.id, answer)
    },

    asService(tenant, { sql, keys: { service_role: key }, mayPipeline }, values) {
      const step = { key, sql, values }
      const [shared, lone] = serviceSteps
      return poolFor(tenant, 'svc').run([...(mayPipeline ? shared : lone), step], {
        shape: key,
        mayPipeline,
        timeoutMs: timeouts.service_role,
        alone: () => [...lone, step],
      })
    },

    asOwner: owners.asOwner,
    onWrite: writes.add,
    onIdle: listener => void idleListeners.push(listener),
    disconnect(id) {
      authPools.disconnect(id)
      for (const [name, pool] of pools) {
        if (!name.startsWith(id)) continue
        pool.close()
        pools.delete(name)
      }
    },
    closeIdle(id) {
      const ofProject = [...pools].filter(([name]) => name.startsWith(id))
      const areClosed = ofProject.map(([, pool]) => pool.closeIdle(Number.POSITIVE_INFINITY))
      return authPools.closeIdleOf(id) && areClosed.every(Boolean)
    },
    connections: () => held,
    use() {
      let { busy, waiting } = authPools.use()
      for (const pool of pools.values()) {
        busy += pool.busy
        waiting += pool.waiting
      }
      return { open: held, busy, waiting, max: options.maxConnections }
    },
    close() {
      void sweeping.stop()
      owners.close()
      authPools.close()
      for (const pool of pools.values()) pool.close()
      pools.clear()
    },
  }
}
