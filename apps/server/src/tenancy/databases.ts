// The one place where tenants' data is touched. `asCaller` runs one statement as the role and with the claims
// of a request, in one round trip; `asOwner` is for the platform's own work on a project, `auth` for its users.
import type { Role } from '@plinth/contract/route.ts'
import { Refusal } from '#src/kernel/errors.ts'
import type { Abandoned } from '#src/kernel/postgres/abandoned.ts'
import type { Database } from '#src/kernel/postgres/database.ts'
import { type ConnectionBudget, Pool } from '#src/kernel/postgres/pool.ts'
import type { Value } from '#src/kernel/postgres/wire/encoder.ts'
import type { Answer, Step } from '#src/kernel/postgres/wire/unit.ts'
import { type AuthDatabase, createAuthPools } from './auth-pools.ts'
import type { Tenant } from './directory.ts'
import type { Logins } from './logins.ts'
import { type AsOwner, createOwners } from './owners.ts'
import { searchPathOf, sessionSettings } from './session-settings.ts'

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

/** What SQL may read of the HTTP request, as with PostgREST. */
export interface RequestFacts {
  readonly method: string
  readonly path: string
  /** JSON object of the request's headers. */
  readonly headers: string
  /** JSON object of the request's cookies. */
  readonly cookies?: string | undefined
  readonly timeZone?: string | undefined
  /** What a request for files does, as policies read it with storage.operation(). */
  readonly operation?: string
  /** Whatever the statement or a function in it tries to write is refused. */
  readonly isReadOnly?: boolean
  /** Runs, answers, and leaves no trace. */
  readonly rollsBack?: boolean | undefined
  readonly signal?: AbortSignal
}

/** A statement text with its name per role: a plan made for one role is never used for another. */
export interface Statement {
  readonly sql: string
  readonly keys: Readonly<Record<Role, string>>
  /**
   * May share a connection with other callers once it has proven quick. Such a statement stays prepared with the
   * types its parameters had at first: either they are written out (`$1::int`), or the text changes with the schema.
   */
  readonly mayPipeline: boolean
}

/** Quick and the platform's own: it shares connections, and stays prepared. */
export interface AuthStatement {
  readonly name: string
  readonly sql: string
}

/** Made when first asked for: most statements are run by one role only. */
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

export function statement(sql: string, mayPipeline: boolean): Statement {
  if (sql.includes('\0')) throw new Refusal('invalid_request', 'A name in the request holds a NUL character')
  return { sql, keys: new KeysByRole(sql), mayPipeline }
}

export interface Databases {
  asCaller(
    caller: Caller,
    request: RequestFacts,
    statement: Statement,
    values: readonly Value[],
  ): Promise<Answer>
  asOwner: AsOwner
  /** Users, sessions and what belongs to them, for work of several statements. */
  auth(tenant: Tenant): AuthDatabase
  /** One statement on the same tables, in one round trip among others. */
  asAuth(tenant: Tenant, statement: AuthStatement, values: readonly Value[]): Promise<Answer>
  /** One statement of the platform's own as service_role, which depends on nothing in a request. */
  asService(tenant: Tenant, statement: Statement, values: readonly Value[]): Promise<Answer>
  /** Calls back whenever a caller may have written to a project; undefined ends it. */
  onWrite(id: string, listener: (() => void) | undefined): void
  /** Called when the last connection to a project was closed because nobody has used it for a while. */
  onIdle(listener: (id: string) => void): void
  /** Drops every connection to a project: it was suspended, deleted, or its keys changed. */
  disconnect(id: string): void
  /** Open connections of all projects, for health and tests. */
  connections(): number
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
 * How long a statement may hold a shared connection, for a lock or whatever reason; then it is run again, alone. Not
 * a lock_timeout: a tenant's own code would catch that, and go on as if it were its own.
 */
const sharedTimeoutMs = 100
const idleMs = 15_000
const sweepMs = 5_000

// A tenant's own code may set anything for the session: everything that matters is set anew for each unit.
const forgetSession: Step = { key: 'reset', sql: 'reset all', values: [] }
const becomeCaller = `select
  set_config('role', $1, true), set_config('request.jwt.claims', $2, true), set_config('request.user_id', $3, true),
  set_config('request.method', $4, true), set_config('request.path', $5, true),
  set_config('request.headers', $6, true), set_config('statement_timeout', $7, true),
  set_config('transaction_read_only', $8, true), pg_advisory_unlock_all()`
const setTimeZone = `select set_config('TimeZone', $1, true)`
const setOperation = `select set_config('storage.operation', $1, true)`
const setCookies = `select set_config('request.cookies', $1, true)`
/** What a commit would have found out is found out, and then everything is undone. */
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
): Record<Role, string> => ({
  anon: String(Math.min(most, anon)),
  authenticated: String(Math.min(most, others)),
  service_role: String(Math.min(most, others)),
})

const names = new WeakMap<Tenant, PoolNames>()

/** Made once per project. Another search path is another pool; the one before it ends when it is idle. */
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
  const writeListeners = new Map<string, () => void>()
  let held = 0
  let sweeper: NodeJS.Timeout | undefined
  const timeouts = timeoutsUpTo(statementTimeoutMs, Number.POSITIVE_INFINITY)
  const sharedTimeouts = timeoutsUpTo(statementTimeoutMs, sharedTimeoutMs)

  const serviceSteps = [sharedTimeouts.service_role, timeouts.service_role].map(ms => [
    forgetSession,
    serve(Number(ms)),
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
      settings: login === 'auth' ? authSettings : { ...sessionSettings, search_path: searchPath },
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
    startSweeping()
    return pool
  }

  function startSweeping(): void {
    sweeper ??= setInterval(sweep, sweepMs).unref()
  }

  function sweep(): void {
    const before = performance.now() - idleMs
    authPools.closeIdle(before)
    for (const [name, pool] of pools) {
      if (!pool.closeIdle(before)) continue
      pools.delete(name)
      const id = name.slice(0, name.indexOf(':'))
      const isLast = !pools.keys().some(other => other.startsWith(id))
      if (isLast) for (const listener of idleListeners) listener(id)
    }
    if (pools.size > 0 || !authPools.isEmpty) return
    clearInterval(sweeper)
    sweeper = undefined
  }

  return {
    asCaller({ tenant, role, claims, userId }, request, { sql, keys, mayPipeline }, values) {
      const { method, path, headers, cookies, timeZone, operation } = request
      const pool = poolFor(tenant, role === 'service_role' ? 'svc' : 'api')
      const isReadOnly = request.isReadOnly ? 'on' : 'off'
      const become = (timeout: string): Step => ({
        key: 'become',
        sql: becomeCaller,
        values: [role, claims, userId, method, path, headers, timeout, isReadOnly],
      })
      const steps: Step[] = [forgetSession, become(mayPipeline ? sharedTimeouts[role] : timeouts[role])]
      if (timeZone !== undefined) steps.push({ key: 'time zone', sql: setTimeZone, values: [timeZone] })
      if (cookies !== undefined) steps.push({ key: 'cookies', sql: setCookies, values: [cookies] })
      if (operation !== undefined) steps.push({ key: 'operation', sql: setOperation, values: [operation] })
      const shape = keys[role]
      const answering = steps.push({ key: shape, sql, values }) - 1
      if (request.rollsBack) steps.push(...undo)
      const alone = () => steps.with(1, become(timeouts[role]))
      const { isReadOnly: readsOnly } = request
      const how = { shape, mayPipeline, timeoutMs: Number(timeouts[role]), isReadOnly: readsOnly }
      const answer = pool.run(steps, { ...how, answering, request, alone })
      const onWrite = request.isReadOnly ? undefined : writeListeners.get(tenant.id)
      if (onWrite) answer.then(onWrite, () => {})
      return answer
    },

    auth(tenant) {
      startSweeping()
      return authPools.of(tenant)
    },

    asAuth(tenant, { name, sql }, values) {
      const step = { key: name, sql, values }
      return poolFor(tenant, 'auth').run([...sharedAuthSteps, step], {
        shape: name,
        mayPipeline: true,
        timeoutMs: authTimeoutMs,
        alone: () => [...loneAuthSteps, step],
      })
    },

    asService(tenant, { sql, keys: { service_role: key }, mayPipeline }, values) {
      const step = { key, sql, values }
      const [shared, lone] = serviceSteps
      return poolFor(tenant, 'svc').run([...(mayPipeline ? shared : lone), step], {
        shape: key,
        mayPipeline,
        timeoutMs: Number(timeouts.service_role),
        alone: () => [...lone, step],
      })
    },

    asOwner: owners.asOwner,
    onWrite(id, listener) {
      if (listener) writeListeners.set(id, listener)
      else writeListeners.delete(id)
    },
    onIdle: listener => void idleListeners.push(listener),
    disconnect(id) {
      authPools.disconnect(id)
      for (const [name, pool] of pools) {
        if (!name.startsWith(id)) continue
        pool.close()
        pools.delete(name)
      }
    },
    connections: () => held,
    close() {
      clearInterval(sweeper)
      owners.close()
      authPools.close()
      for (const pool of pools.values()) pool.close()
      pools.clear()
    },
  }
}
