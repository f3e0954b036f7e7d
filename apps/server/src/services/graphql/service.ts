// GraphQL over the tables and functions of a project, with the caller's role and claims.
import type { Role } from '@plinth/contract/route.ts'
import type { ByteSource } from '#src/kernel/byte-source.ts'
import { Refusal } from '#src/kernel/errors.ts'
import type { RawReply, RawRequest } from '#src/kernel/http/request.ts'
import { DatabaseError } from '#src/kernel/postgres/database-error.ts'
import { refusalFromSql } from '#src/planes/data/database-refusal.ts'
import type { PlannedStatement } from '#src/query/planned-statement.ts'
import { QueryError } from '#src/query/problem.ts'
import type { Queries } from '#src/query/run.ts'
import {
  type Caller,
  type CallerStatement,
  type Databases,
  type RequestFacts,
  statement,
} from '#src/tenancy/databases.ts'
import type { Tenant } from '#src/tenancy/directory.ts'
import type { SpaceCheck } from '#src/tenancy/space-check.ts'
import type { CompiledStatement } from './compile/operation.ts'
import { DocumentProblem } from './compile/problem.ts'
import { withSchemaFields } from './compile/schema-fields.ts'
import type { PlannedRequest } from './engine.ts'
import { openEngines } from './engines.ts'
import type { Limits } from './limits.ts'
import { createPersisted, UnknownHash } from './persisted.ts'
import { requestIn } from './request.ts'

export interface GraphqlDeps {
  databases: Databases
  queries: Queries
  spaceCheck: SpaceCheck
  maxRows: number
  limits: Limits
}

interface Plan extends PlannedStatement {
  readonly planned: PlannedRequest
}

export type GraphqlService = ReturnType<typeof graphqlService>

export function graphqlService({
  databases,
  queries: { run, catalogs },
  spaceCheck,
  maxRows,
  limits,
}: GraphqlDeps) {
  const mostRows = maxRows === 0 ? Number.MAX_SAFE_INTEGER : maxRows
  const engines = openEngines(databases, limits, mostRows)
  const textOf = createPersisted()

  async function answer(caller: Caller, raw: RawRequest): Promise<RawReply> {
    const { tenant, role } = caller
    const request = await requestIn(raw)
    const schema = schemaOf(tenant, raw.headers[isReadOnly(raw) ? 'accept-profile' : 'content-profile'])
    const wanted = { ...request, text: textOf(tenant.id, request), isReadOnly: isReadOnly(raw) }
    const facts = factsOf(raw)
    const { plan, rows } = await run<Plan>(
      { caller, facts },
      undefined,
      async catalog => {
        const engine = await engines.of(tenant, catalog, role, schema)
        const planned = await engine.plan(wanted, raw.signal)
        if (planned.isMutation) checkMutation(caller, planned, wanted.isReadOnly)
        facts.isReadOnly = !planned.isMutation
        return planOf(planned)
      },
      ({ planned: { values } }) => values,
    )
    return replyOf(
      plan.planned,
      rows.map(([cell]) => cell!),
    )
  }

  function checkMutation({ tenant }: Caller, { statements }: PlannedRequest, isReadOnly: boolean): void {
    if (isReadOnly)
      throw new Refusal('mutation_by_get', 'A mutation is sent by POST', { headers: { allow: 'POST' } })
    const mayAddData = statements.some(each => each.mayAddData)
    const full = mayAddData ? spaceCheck.refusal('database', tenant) : undefined
    if (full) throw full
  }

  return {
    /** The schema that a role sees, in the language of GraphQL. */
    async print(tenant: Tenant, role: Role, schema: string | undefined): Promise<string> {
      const cached = await catalogs.of(tenant)
      const catalog = (await catalogs.hasChanged(tenant, cached)) ? await catalogs.of(tenant) : cached
      const engine = await engines.of(tenant, catalog, role, schemaOf(tenant, schema))
      return engine.print()
    },

    answer: (caller: Caller, raw: RawRequest): Promise<RawReply> => answer(caller, raw).catch(replyToError),
    close: () => engines.close(),
  }
}

const isReadOnly = ({ method }: RawRequest): boolean => method === 'GET'

/** As in the row API, a header chooses among the exposed schemas. */
function schemaOf({ exposedSchemas }: Tenant, profile: string | string[] | undefined): string {
  if (profile === undefined) return exposedSchemas[0]!
  const found = exposedSchemas.find(each => each === profile)
  if (found !== undefined) return found
  throw new Refusal('PGRST106', `Invalid schema: ${profile}`, {
    hint: `Only the following schemas are exposed: ${exposedSchemas.join(', ')}`,
  })
}

function planOf(planned: PlannedRequest): Plan {
  const [first, ...more] = planned.statements.map(each => ({
    statement: statementOf(each, planned.statements.length === 1),
    parameters: each.parameters,
  }))
  return { ...first!, more, planned }
}

const statements = new WeakMap<CompiledStatement, CallerStatement>()

/** Made once for a cached plan: the keys of a statement are as long as its text. */
function statementOf(compiled: CompiledStatement, isOnly: boolean): CallerStatement {
  const made = statements.get(compiled) ?? statement(compiled.sql, isOnly && compiled.mayPipeline)
  statements.set(compiled, made)
  return made
}

const [start, comma, end] = ['{"data":{', ',', '}}'].map(text => Buffer.from(text)) as [
  Buffer,
  Buffer,
  Buffer,
]

/** The objects of all statements as one object. Nothing is parsed. */
function replyOf({ shown }: PlannedRequest, cells: readonly Buffer[]): RawReply {
  const members = cells.flatMap(each => [comma, each.subarray(1, -1)]).slice(1)
  const body = Buffer.concat([start, ...members, end])
  return shown ? replyInParts(withSchemaFields(body, shown)) : reply(body)
}

const json = { 'content-type': 'application/json; charset=utf-8' }
const reply = (body: Buffer | string): RawReply => ({ status: 200, headers: json, body })

const chunkBytes = 256 * 1024

/** A description of thousands of tables has tens of megabytes, which are sent a chunk at a time. */
function replyInParts(parts: readonly Uint8Array[]): RawReply {
  const length = parts.reduce((sum, part) => sum + part.length, 0)
  if (length <= chunkBytes) return reply(Buffer.concat(parts))
  return { status: 200, headers: { ...json, 'content-length': String(length) }, body: copiesOf(parts) }
}

/** Copies, because the memory of a sent chunk is freed, and the engine keeps its texts. */
function copiesOf(parts: readonly Uint8Array[]): ByteSource {
  const left = parts.filter(({ length }) => length > 0)
  return {
    get hasMore() {
      return left.length > 0
    },
    async next() {
      const part = left[0]!
      if (part.length <= chunkBytes) left.shift()
      else left[0] = part.subarray(chunkBytes)
      return [Buffer.from(part.subarray(0, chunkBytes))]
    },
    async close() {
      left.length = 0
    },
  }
}

const errorReply = (errors: readonly { message: string; extensions?: object }[]): RawReply =>
  reply(JSON.stringify({ data: null, errors }))

/** SQLSTATEs of a server that cannot work, rather than of a wrong statement. */
const infrastructure = /^(?:08|53|57P|58|XX)/

function replyToError(error: unknown): RawReply {
  if (error instanceof DocumentProblem && error.problem.kind === 'invalid query')
    return errorReply(error.problem.messages.map(message => ({ message })))
  if (error instanceof UnknownHash)
    return errorReply([
      { message: 'PersistedQueryNotFound', extensions: { code: 'PERSISTED_QUERY_NOT_FOUND' } },
    ])
  if (error instanceof QueryError) return errorReply([{ message: messageOf(error) }])
  if (error instanceof DatabaseError) {
    const refusal = refusalFromSql(error)
    if (infrastructure.test(error.code)) throw refusal
    return errorReply([{ message: refusal.message, extensions: { code: error.code } }])
  }
  throw error
}

function messageOf({ problem }: QueryError): string {
  switch (problem.kind) {
    case 'too many rows':
      return `The mutation matches ${problem.rows} rows, which are too many records: raise "atMost" or narrow the filter`
    case 'schema keeps changing':
      return 'The schema changes faster than requests can be planned: try again in a second'
    case 'no conflict target':
      return `"${problem.relation}" has no primary key to find duplicates by: set "columns" of "onConflict"`
    default:
      return `The request cannot be planned: ${problem.kind}`
  }
}

type Mutable<T> = { -readonly [K in keyof T]: T[K] }

const factsOf = (raw: RawRequest): Mutable<RequestFacts> => ({
  method: raw.method,
  path: '/graphql/v1',
  headers: JSON.stringify(raw.headers),
  isReadOnly: true,
  signal: raw.signal,
})
