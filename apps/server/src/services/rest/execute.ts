// Runs a planned statement: plans are kept by shape beside the catalogue they were made from, and made anew when
// the schema has moved on.
import { Refusal } from '#src/kernel/errors.ts'
import { DatabaseError } from '#src/kernel/postgres/wire/database-error.ts'
import type { Value } from '#src/kernel/postgres/wire/encoder.ts'
import type { Cell } from '#src/kernel/postgres/wire/unit.ts'
import { refusals } from '#src/query/answer-sql.ts'
import type { Catalog } from '#src/query/catalog.ts'
import type { Catalogs } from '#src/query/catalogs.ts'
import { arrayLiteral, listElements } from '#src/query/filter.ts'
import { unreadable } from '#src/query/reader.ts'
import type { Parameter, Writer } from '#src/query/writer.ts'
import { type Databases, type Statement, statement } from '#src/tenancy/databases.ts'
import type { Explain } from './accept.ts'
import { toldError } from './database-refusal.ts'
import type { RestRequest } from './request.ts'

/** A statement ready to be run with other values. */
export interface Prepared {
  readonly statement: Statement
  readonly parameters: readonly Parameter[]
}

export interface Inputs {
  readonly values: readonly string[]
  readonly body?: Value
}

export interface Executed<P> {
  readonly prepared: P
  /** The only row of the answer. */
  readonly row: readonly Cell[]
  readonly rows: readonly (readonly Cell[])[]
}

export type Execute = <P extends Prepared>(
  request: RestRequest,
  shape: string,
  prepare: (catalog: Catalog) => P,
  inputs: Inputs,
) => Promise<Executed<P>>

const maxPlans = 500
const maxShapeLength = 4000
/** A short request for many columns makes a long statement. */
const maxSqlLength = 32_000
const maxAttempts = 10
const triesAtOnce = 2

/** Errors that a statement made for an older schema can cause. */
const mayBeStale = /^(42|22|0A|PGRST20)/

export function createExecute(databases: Databases, catalogs: Catalogs): Execute {
  const plans = new WeakMap<Catalog, Map<string, Prepared>>()
  const turns = new Map<string, Promise<void>>()

  function planned<P extends Prepared>(catalog: Catalog, shape: string, prepare: (catalog: Catalog) => P): P {
    let known = plans.get(catalog)
    if (!known) {
      known = new Map()
      plans.set(catalog, known)
    }
    const found = known.get(shape)
    if (found) return found as P
    const made = prepare(catalog)
    if (shape.length <= maxShapeLength && made.statement.sql.length <= maxSqlLength) {
      if (known.size >= maxPlans) known.delete(known.keys().next().value!)
      known.set(shape, made)
    }
    return made
  }

  /** Without a wait of its own: this is the path of every request. */
  function attempt<P extends Prepared>(
    asked: Asked<P>,
    catalog: Catalog,
    tries: number,
  ): Promise<Executed<P>> {
    const { request, shape, prepare, inputs } = asked
    const again = (error: unknown) => recover(asked, catalog, tries, error)
    let prepared: P
    let values: Value[]
    try {
      prepared = planned(catalog, shape, prepare)
      values = bind(prepared.parameters, inputs)
    } catch (error) {
      return again(error)
    }
    return databases
      .asCaller(request.caller, request.facts, prepared.statement, values)
      .then(({ rows }) => ({ prepared, row: rows[0]!, rows }), again)
  }

  async function recover<P extends Prepared>(
    asked: Asked<P>,
    catalog: Catalog,
    tries: number,
    error: unknown,
  ): Promise<Executed<P>> {
    const { tenant } = asked.request.caller
    if (tries === maxAttempts || !(await isOutdated(error, () => catalogs.hasMoved(tenant, catalog))))
      told(error)
    const again = async () => attempt(asked, await catalogs.of(tenant), tries + 1)
    if (tries < triesAtOnce || asked.hasTurn) return again()
    asked.hasTurn = true
    return inTurn(tenant.id, again)
  }

  /** Requests that change the schema themselves would go on outdating each other: these take turns. */
  function inTurn<T>(id: string, work: () => Promise<T>): Promise<T> {
    const before = turns.get(id) ?? Promise.resolve()
    const done = before.then(work)
    const settled = done.then(
      () => {},
      () => {},
    )
    turns.set(id, settled)
    void settled.then(() => {
      if (turns.get(id) === settled) turns.delete(id)
    })
    return done
  }

  return (request, shape, prepare, inputs) => {
    const asked = { request, shape, prepare, inputs, hasTurn: false }
    const catalog = catalogs.of(request.caller.tenant)
    if (!(catalog instanceof Promise)) return attempt(asked, catalog, 1)
    return catalog.then(loaded => attempt(asked, loaded, 1), told)
  }
}

interface Asked<P extends Prepared> {
  readonly request: RestRequest
  readonly shape: string
  readonly prepare: (catalog: Catalog) => P
  readonly inputs: Inputs
  hasTurn: boolean
}

/** Whether the failure may be due to a schema that is no longer there; only then it is worth asking. */
async function isOutdated(error: unknown, hasMoved: () => Promise<boolean>): Promise<boolean> {
  const code = error instanceof DatabaseError || error instanceof Refusal ? error.code : ''
  if (code !== refusals.catalogMoved && !mayBeStale.test(code)) return false
  return hasMoved()
}

function told(error: unknown): never {
  throw toldError(error)
}

function bind(parameters: readonly Parameter[], { values, body }: Inputs): Value[] {
  return parameters.map(({ slot, binding }) => {
    if (slot === 'body') return body ?? null
    const value = values[slot]!
    if (binding === 'text') return value
    if (binding === 'pattern') return value.replaceAll('*', '%')
    const elements = listElements(value)
    if (!elements)
      throw unreadable('filter', `in.${value}`, '"in" takes a list in parentheses, such as in.(1,2,3)')
    return arrayLiteral(elements)
  })
}

export function preparedFrom(
  { sql, writer }: { sql: string; writer: Writer },
  mayPipeline: boolean,
  explain?: Explain,
): Prepared {
  const text = explain
    ? `explain (${[`format ${explain.format}`, ...explain.options].join(', ')}) ${sql}`
    : sql
  return { statement: statement(text, mayPipeline && !explain), parameters: writer.parameters }
}
