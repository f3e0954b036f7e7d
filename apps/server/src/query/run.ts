// Runs planned statements. Plans are cached per catalogue and key. If the schema has changed since, the query is planned
// and run again.
import { DatabaseError } from '#src/kernel/postgres/database-error.ts'
import type { Value } from '#src/kernel/postgres/wire/encoder.ts'
import type { Cell } from '#src/kernel/postgres/wire/unit.ts'
import type { Caller, Databases, RequestFacts } from '#src/tenancy/databases.ts'
import { raisedCodes } from './answer-sql.ts'
import type { Catalog } from './catalog.ts'
import { type Catalogs, openCatalogs } from './catalogs.ts'
import type { PlannedStatement } from './planned-statement.ts'
import { QueryError, type RunningProblem } from './problem.ts'

/** The caller of a statement, and the facts of the request that SQL can read. */
export interface RunFor {
  readonly caller: Caller
  readonly facts: RequestFacts
}

export interface RunResult<P> {
  readonly plan: P
  readonly rows: readonly (readonly Cell[])[]
}

/**
 * `key` names the front end and everything the plan depends on besides the catalogue. Fails with a `QueryError`, or
 * with the `DatabaseError` that Postgres raised.
 */
export type Run = <P extends PlannedStatement>(
  runFor: RunFor,
  /** Without a key, the front end caches plans itself. */
  key: string | undefined,
  plan: (catalog: Catalog) => P | Promise<P>,
  values: readonly Value[] | ((plan: P) => readonly Value[]),
) => Promise<RunResult<P>>

const maxPlans = 500
const maxKeyLength = 4000
/** A short query for many columns makes a long statement. */
const maxSqlLength = 32_000
const maxAttempts = 10
/** Later attempts of a project run one after the other. */
const concurrentAttempts = 2

/** SQLSTATEs that a statement planned for an older schema can cause. */
const staleCodes = /^(42|22|0A)/

/** The caches of catalogues and plans, which all front ends share. */
export interface Queries {
  readonly catalogs: Catalogs
  readonly run: Run
}

export function openQueryEngine(databases: Databases): Queries {
  const catalogs = openCatalogs(databases)
  return { catalogs, run: createRun(databases, catalogs) }
}

function createRun(databases: Databases, catalogs: Catalogs): Run {
  const plans = new WeakMap<Catalog, Map<string, PlannedStatement>>()
  const lastAttempts = new Map<string, Promise<void>>()

  function planned<P extends PlannedStatement>(
    catalog: Catalog,
    key: string | undefined,
    plan: (catalog: Catalog) => P | Promise<P>,
  ): P | Promise<P> {
    if (key === undefined) return plan(catalog)
    let known = plans.get(catalog)
    if (!known) {
      known = new Map()
      plans.set(catalog, known)
    }
    const found = known.get(key)
    if (found) return found as P
    const made = plan(catalog)
    if (made instanceof Promise) return made
    if (key.length <= maxKeyLength && made.statement.sql.length <= maxSqlLength) {
      if (known.size >= maxPlans) known.delete(known.keys().next().value!)
      known.set(key, made)
    }
    return made
  }

  /** Not async: every request takes this path, and each await costs time. */
  function attempt<P extends PlannedStatement>(
    query: Query<P>,
    catalog: Catalog,
    attempts: number,
  ): Promise<RunResult<P>> {
    const retry = (error: unknown) => retryIfOutdated(query, catalog, attempts, error)
    try {
      const plan = planned(catalog, query.key, query.plan)
      const running = plan instanceof Promise ? plan.then(made => send(query, made)) : send(query, plan)
      return running.catch(retry)
    } catch (error) {
      return retry(error)
    }
  }

  function send<P extends PlannedStatement>(query: Query<P>, plan: P): Promise<RunResult<P>> {
    const { caller, facts } = query.runFor
    const values = typeof query.values === 'function' ? query.values(plan) : query.values
    const bound = ({ parameters }: PlannedStatement) => parameters.map(slot => values[slot] ?? null)
    const more = plan.more?.map(each => ({ statement: each.statement, values: bound(each) }))
    return databases
      .asCaller(caller, facts, plan.statement, bound(plan), more)
      .then(({ rows }) => ({ plan, rows }))
  }

  async function retryIfOutdated<P extends PlannedStatement>(
    query: Query<P>,
    catalog: Catalog,
    attempts: number,
    error: unknown,
  ): Promise<RunResult<P>> {
    const { facts, caller } = query.runFor
    const { tenant } = caller
    const isRetried =
      attempts < maxAttempts && mayBeOutdated(error, facts) && (await catalogs.hasChanged(tenant, catalog))
    if (!isRetried) throw withProblem(error)
    const retry = async () => attempt(query, await catalogs.of(tenant), attempts + 1)
    if (attempts < concurrentAttempts || query.isSerialized) return retry()
    query.isSerialized = true
    return serialized(tenant.id, retry)
  }

  /** Queries that change the schema themselves would otherwise outdate each other's plans forever. */
  function serialized<T>(id: string, work: () => Promise<T>): Promise<T> {
    const before = lastAttempts.get(id) ?? Promise.resolve()
    const done = before.then(work)
    const settled = done.then(
      () => {},
      () => {},
    )
    lastAttempts.set(id, settled)
    void settled.then(() => {
      if (lastAttempts.get(id) === settled) lastAttempts.delete(id)
    })
    return done
  }

  return (runFor, key, plan, values) => {
    const query = { runFor, key, plan, values, isSerialized: false }
    const catalog = catalogs.of(runFor.caller.tenant)
    if (!(catalog instanceof Promise)) return attempt(query, catalog, 1)
    return catalog.then(loaded => attempt(query, loaded, 1))
  }
}

interface Query<P extends PlannedStatement> {
  readonly runFor: RunFor
  readonly key: string | undefined
  readonly plan: (catalog: Catalog) => P | Promise<P>
  readonly values: readonly Value[] | ((plan: P) => readonly Value[])
  isSerialized: boolean
}

/** Whether an outdated catalogue can cause the error. Only then the current version is queried. */
function mayBeOutdated(error: unknown, { isReadOnly }: RequestFacts): boolean {
  if (error instanceof QueryError) return true
  if (!(error instanceof DatabaseError) || error.isAfterOthers) return false
  if (error.code === raisedCodes.schemaChanged) return true
  // A read compares the version after its rows, so it may have failed before. Another statement that has begun to run may
  // have had effects that a rollback does not undo, such as nextval.
  return (isReadOnly || !error.isWhileRunning) && staleCodes.test(error.code)
}

function withProblem(error: unknown): unknown {
  const problem = error instanceof DatabaseError ? problemIn(error) : undefined
  return problem ? new QueryError(problem) : error
}

/** A tenant's function can raise the same codes, but usually with another message. */
function problemIn({ code, message }: DatabaseError): RunningProblem | undefined {
  if (code === raisedCodes.schemaChanged && message === '') return { kind: 'schema keeps changing' }
  if (!/^\d{1,20}$/.test(message)) return
  if (code === raisedCodes.notOneRow) return { kind: 'not one row', rows: message }
  if (code === raisedCodes.tooManyRows) return { kind: 'too many rows', rows: message }
  return
}
