// The row API of a project: rows, functions and SQL, with the caller's role and claims.
import { Refusal } from '#src/kernel/errors.ts'
import type { RawReply, RawRequest } from '#src/kernel/http/request.ts'
import type { Queries } from '#src/query/run.ts'
import type { DocsService } from '#src/services/docs/service.ts'
import type { Caller, Databases } from '#src/tenancy/databases.ts'
import type { SpaceCheck } from '#src/tenancy/space-check.ts'
import { call } from './call.ts'
import { execSql } from './exec-sql.ts'
import { read } from './read.ts'
import { throwRefusal } from './refusal.ts'
import { readRequest } from './request.ts'
import { write } from './write.ts'

export interface RestDeps {
  docs: DocsService
  databases: Databases
  queries: Queries
  spaceCheck: SpaceCheck
  maxRows: number
}

const openApi = { 'content-type': 'application/openapi+json; charset=utf-8' }

export type RestService = ReturnType<typeof restService>

/** SQLSTATE of a write in a read-only transaction. */
const readOnly = '25006'

export function restService({ databases, queries: { catalogs, run }, docs, spaceCheck, maxRows }: RestDeps) {
  return {
    async describe({ tenant, role }: Caller): Promise<RawReply> {
      const audience = role === 'service_role' ? 'all' : 'anon'
      return { status: 200, headers: openApi, body: await docs.read(tenant.id, audience, undefined, 'json') }
    },

    read: (caller: Caller, raw: RawRequest, table: string): Promise<RawReply> =>
      read(readRequest(caller, raw), table, run, maxRows).catch(throwRefusal),

    write: (
      caller: Caller,
      raw: RawRequest,
      table: string,
      kind: 'insert' | 'put' | 'update' | 'delete',
    ): Promise<RawReply> => write(readRequest(caller, raw), table, kind, run).catch(throwRefusal),

    /** While the database is full, functions run read-only. */
    async call(caller: Caller, raw: RawRequest, name: string): Promise<RawReply> {
      const full = raw.method === 'POST' ? spaceCheck.refusal('database', caller.tenant) : undefined
      const request = readRequest(caller, raw, full !== undefined)
      const reply = call(request, name, run, () => catalogs.of(caller.tenant), maxRows).catch(throwRefusal)
      return full ? reply.catch(error => fail(isReadOnly(error) ? full : error)) : reply
    },

    execSql: (caller: Caller, raw: RawRequest): Promise<RawReply> => execSql(databases, caller, raw),
  }
}

const isReadOnly = (error: unknown) => error instanceof Refusal && error.code === readOnly

function fail(error: unknown): never {
  throw error
}
