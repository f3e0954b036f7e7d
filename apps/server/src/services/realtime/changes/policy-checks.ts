// Checks row-level security policies on changed rows: one query for a batch of rows and many callers of the same role, each
// caller with its own claims. A row whose check fails is not delivered.
import { Refusal } from '#src/kernel/errors.ts'
import { DatabaseError, sqlState } from '#src/kernel/postgres/database-error.ts'
import { identifier } from '#src/kernel/postgres/sql.ts'
import type { Answer } from '#src/kernel/postgres/wire/unit.ts'
import type { Tenant } from '#src/tenancy/directory.ts'
import { type PolicyCheckPools, waitMs } from './policy-check-pools.ts'

/** A caller and the rows to check for it. Callers with equal rows should share one array, which is then sent once. */
export interface CheckedCaller {
  readonly claims: string
  readonly userId: string
  /** In Postgres row syntax, `(1,"two",)`; all in JSON if the columns of the table have changed since. */
  readonly rows: readonly string[]
}

/** One character per row: `1` visible, `0` not visible, `x` the policy failed, `-` no connection was free. */
export type CheckResult = string

export interface PolicyCheck {
  readonly relid: string
  readonly role: 'anon' | 'authenticated'
  /** `selectByKey` checks the current rows with the same keys. */
  readonly command: keyof typeof commands
  /** The value of realtime.topic(). */
  readonly topic?: string
}

const commands = { select: 'r', insert: 'a', selectByKey: 'k' } as const

export type PolicyChecks = ReturnType<typeof createPolicyChecks>

/** Timeouts of a query for many callers, and for one. They grow with the rows, because many rows take longer. */
export interface Timeouts {
  chunkMs(rows: number): number
  singleMs(rows: number): number
}
const defaultTimeouts: Timeouts = { chunkMs: rows => 1000 + rows / 10, singleMs: rows => 250 + rows }
/** Callers per query. With few rows the fixed cost of a query dominates, so it takes more callers. */
const chunkSizeFor = (rows: number) => (rows <= 4 ? 250 : 100)
/** How many rows are checked one by one after the policies of their callers failed on a batch. */
const maxSingleRows = 1000
const canceled = '57014'
/** A caller whose policies timed out is not checked again for this long. */
const backOffMs = 30_000
const maxBackedOff = 10_000

/** A policy can catch the cancellation of its statement. After this time the check gives up on the answer. */
const cancelGraceMs = 1500
const maxUnanswered = 2

class Unanswered extends Error {}

const judge = `select place, verdict from platform.judge(
  $1::oid, $2::text, $3::"char", $4::text[], $5::text[], $6::text[], $7::integer[], $8::text)`

/** `concurrency` is the number of parallel queries per project. */
export function createPolicyChecks(
  pools: PolicyCheckPools,
  concurrency = 4,
  timeouts: Timeouts = defaultTimeouts,
) {
  const backOff = createBackOff()
  const run = withDeadline(pools)

  async function query(
    tenant: Tenant,
    check: PolicyCheck,
    callers: readonly CheckedCaller[],
    timeoutMs: number,
  ) {
    const rowLists = new Map<readonly string[], number>()
    for (const { rows } of callers) if (!rowLists.has(rows)) rowLists.set(rows, rowLists.size + 1)
    const { relid, role, command, topic = '' } = check
    const { rows } = await run(
      tenant,
      judge,
      [
        relid,
        role,
        commands[command],
        textArray(callers.map(({ claims }) => claims)),
        textArray(callers.map(({ userId }) => userId)),
        textArray([...rowLists.keys()].map(rowArray)),
        `{${callers.map(each => rowLists.get(each.rows)).join(',')}}`,
        topic,
      ],
      timeoutMs,
    )
    // platform.judge returns no rows if the role has no privilege on the table.
    const results = callers.map(each => '0'.repeat(each.rows.length))
    for (const [place, result] of rows) {
      const at = Number(place!.toString('latin1')) - 1
      results[at] = result?.toString('latin1') ?? failed(callers[at]!)
    }
    return results
  }

  /** After a chunk failed, one query per caller finds the callers whose policies fail or time out. */
  async function checkEach(
    tenant: Tenant,
    check: PolicyCheck,
    callers: readonly CheckedCaller[],
  ): Promise<CheckResult[]> {
    const results: CheckResult[] = []
    let unanswered = 0
    for (const each of callers) {
      // Every unanswered query occupies a connection for a while, so their number is limited.
      if (unanswered >= maxUnanswered) backOff.begin(tenant, check, each)
      const result =
        unanswered < maxUnanswered &&
        (await query(tenant, check, [each], timeouts.singleMs(each.rows.length)).then(
          ([found]) => found,
          error => {
            if (isCanceled(error) || error instanceof Unanswered) backOff.begin(tenant, check, each)
            if (error instanceof Unanswered) unanswered++
          },
        ))
      results.push(result || failed(each))
    }
    return results
  }

  async function checkChunk(
    tenant: Tenant,
    check: PolicyCheck,
    callers: readonly CheckedCaller[],
  ): Promise<CheckResult[]> {
    try {
      const rows = callers.reduce((sum, each) => sum + each.rows.length, 0)
      return await query(tenant, check, callers, timeouts.chunkMs(rows))
    } catch (error) {
      if (callers.length > 1 && (error instanceof DatabaseError || error instanceof Unanswered))
        return checkEach(tenant, check, callers)
      if (error instanceof Unanswered) backOff.begin(tenant, check, callers[0]!)
      if (error instanceof DatabaseError || error instanceof Unanswered) return callers.map(failed)
      if (error instanceof Refusal) return callers.map(({ rows }) => '-'.repeat(rows.length))
      throw error
    }
  }

  async function checkInChunks(
    tenant: Tenant,
    check: PolicyCheck,
    callers: readonly CheckedCaller[],
  ): Promise<CheckResult[]> {
    const chunkSize = chunkSizeFor(callers.reduce((most, { rows }) => Math.max(most, rows.length), 0))
    const found: CheckResult[][] = []
    let next = 0
    const takeChunks = async () => {
      for (let at = next++; at * chunkSize < callers.length; at = next++)
        found[at] = await checkChunk(tenant, check, callers.slice(at * chunkSize, (at + 1) * chunkSize))
    }
    await Promise.all(Array.from({ length: concurrency }, takeChunks))
    return found.flat()
  }

  /** One row on which a policy fails makes the whole batch of a caller fail. Checks such rows one by one. */
  async function recheckFailed(
    tenant: Tenant,
    check: PolicyCheck,
    callers: readonly CheckedCaller[],
    results: CheckResult[],
  ) {
    const singles: { at: number; row: number; caller: CheckedCaller }[] = []
    for (const [at, result] of results.entries()) {
      const { rows, ...caller } = callers[at]!
      if (rows.length < 2 || result !== failed(callers[at]!)) continue
      if (singles.length + rows.length > maxSingleRows || backOff.has(tenant, check, callers[at]!)) continue
      for (const [row, text] of rows.entries()) singles.push({ at, row, caller: { ...caller, rows: [text] } })
    }
    if (singles.length === 0) return
    const found = await checkInChunks(
      tenant,
      check,
      singles.map(({ caller }) => caller),
    )
    for (const [index, { at, row }] of singles.entries())
      results[at] = results[at]!.slice(0, row) + found[index] + results[at]!.slice(row + 1)
  }

  return {
    /** One result per caller, in the order of the callers. */
    async check(
      tenant: Tenant,
      check: PolicyCheck,
      callers: readonly CheckedCaller[],
    ): Promise<CheckResult[]> {
      const results = callers.map(failed)
      const active = callers.flatMap((each, at) => (backOff.has(tenant, check, each) ? [] : at))
      const found = await checkInChunks(
        tenant,
        check,
        active.map(at => callers[at]!),
      )
      for (const [index, at] of active.entries()) results[at] = found[index]!
      await recheckFailed(tenant, check, callers, results)
      return results
    },

    ...rowQueries(run, timeouts),
  }
}

/** Queries on the values of captured rows. They run as `authenticated` on the same connections. */
const rowQueries = (run: PolicyCheckPools['run'], timeouts: Timeouts) => ({
  /** Evaluates filter conditions: one character per condition for each row. Undefined if the query fails. */
  async evaluate(
    tenant: Tenant,
    relation: string,
    alias: string,
    conditions: readonly string[],
    rows: readonly string[],
  ): Promise<string[] | undefined> {
    const all = conditions.map(each => `case when ${each} then '1' else '0' end`).join(' || ')
    const source = areJson(rows)
      ? `pg_catalog.json_populate_recordset(null::${relation}, $1::json)`
      : `pg_catalog.unnest($1::${relation}[])`
    const found = await run(
      tenant,
      `select ${all} from ${source} as ${alias}`,
      [rowArray(rows)],
      timeouts.chunkMs(rows.length),
      'authenticated',
    ).catch(undefinedIfFailed)
    return found?.rows.map(([line]) => line!.toString('latin1'))
  },

  /** Some columns of a row as JSON text. Undefined if the row cannot be read. */
  async readColumns(
    tenant: Tenant,
    table: { readonly schema: string; readonly name: string },
    row: string,
    columns: readonly string[],
  ): Promise<string | undefined> {
    if (columns.length === 0) return '{}'
    const alias = identifier(table.name)
    const named = columns.map(column => `${alias}.${identifier(column)}`).join(', ')
    const found = await run(
      tenant,
      `select pg_catalog.row_to_json(k.*) from pg_catalog.unnest($1::${identifier(table.schema)}.${alias}[]) as ${alias}, lateral (select ${named}) k`,
      [textArray([row])],
      timeouts.chunkMs(1),
      'authenticated',
    ).catch(undefinedIfFailed)
    return found?.rows[0]?.[0]?.toString('utf8')
  },
})

/** Rejects some time after the timeout, even if Postgres does not answer. */
const withDeadline =
  (pools: PolicyCheckPools) =>
  (...[tenant, sql, values, timeoutMs, role]: Parameters<PolicyCheckPools['run']>): Promise<Answer> => {
    const { promise, resolve, reject } = Promise.withResolvers<Answer>()
    const deadline = setTimeout(() => reject(new Unanswered()), timeoutMs + waitMs + cancelGraceMs)
    pools.run(tenant, sql, values, timeoutMs, role).then(resolve, reject)
    return promise.finally(() => clearTimeout(deadline))
  }

/** Callers that are not checked for a while. */
function createBackOff() {
  const until = new Map<string, number>()
  const keyOf = ({ id }: Tenant, { relid, role }: PolicyCheck, { claims }: CheckedCaller) =>
    `${id}:${relid}:${role}:${claims}`
  return {
    begin(tenant: Tenant, check: PolicyCheck, caller: CheckedCaller): void {
      if (until.size >= maxBackedOff) until.clear()
      until.set(keyOf(tenant, check, caller), performance.now() + backOffMs)
    },
    has(tenant: Tenant, check: PolicyCheck, caller: CheckedCaller): boolean {
      if (until.size === 0) return false
      const key = keyOf(tenant, check, caller)
      if ((until.get(key) ?? 0) < performance.now()) until.delete(key)
      return until.has(key)
    },
  }
}

function undefinedIfFailed(error: unknown): undefined {
  if (!(error instanceof DatabaseError || error instanceof Refusal || error instanceof Unanswered))
    throw error
  return
}

const failed = ({ rows }: CheckedCaller): CheckResult => 'x'.repeat(rows.length)
export const isCanceled = (error: unknown) => sqlState(error) === canceled
const areJson = (rows: readonly string[]) => rows[0]?.startsWith('{') === true
const rowArray = (rows: readonly string[]) => (areJson(rows) ? `[${rows.join(',')}]` : textArray(rows))
const textArray = (texts: readonly string[]) =>
  `{${texts.map(text => `"${text.replace(/["\\]/g, '\\$&')}"`).join(',')}}`
