// The row API of a project: rows, functions and SQL, under the caller's role and claims.
import { Refusal } from '#src/kernel/errors.ts'
import type { RawReply, RawRequest } from '#src/kernel/http/request.ts'
import { openCatalogs } from '#src/query/catalogs.ts'
import type { DocsService } from '#src/services/docs/service.ts'
import type { Caller, Databases } from '#src/tenancy/databases.ts'
import type { Room } from '#src/tenancy/room.ts'
import { call } from './call.ts'
import { execSql } from './exec-sql.ts'
import { createExecute } from './execute.ts'
import { read } from './read.ts'
import { readRequest } from './request.ts'
import { write } from './write.ts'

interface RestDeps {
  docs: DocsService
  databases: Databases
  room: Room
  maxRows: number
}

const openApi = { 'content-type': 'application/openapi+json; charset=utf-8' }

export type RestService = ReturnType<typeof restService>

/** Postgres refuses to write in a read-only transaction. */
const readOnly = '25006'

export function restService({ databases, docs, room, maxRows }: RestDeps) {
  const catalogs = openCatalogs(databases)
  const execute = createExecute(databases, catalogs)

  return {
    async describe({ tenant, role }: Caller): Promise<RawReply> {
      const audience = role === 'service_role' ? 'all' : 'anon'
      return { status: 200, headers: openApi, body: await docs.read(tenant.id, audience, undefined, 'json') }
    },

    read: (caller: Caller, raw: RawRequest, table: string): Promise<RawReply> =>
      read(readRequest(caller, raw), table, execute, maxRows),

    write: (
      caller: Caller,
      raw: RawRequest,
      table: string,
      kind: 'insert' | 'put' | 'update' | 'delete',
    ): Promise<RawReply> => write(readRequest(caller, raw), table, kind, execute),

    /** While there is no room for more, functions can be called as far as they only read. */
    async call(caller: Caller, raw: RawRequest, name: string): Promise<RawReply> {
      const full = raw.method === 'POST' ? room.refusal('database', caller.tenant) : undefined
      const request = readRequest(caller, raw, full !== undefined)
      const reply = call(request, name, execute, () => catalogs.of(caller.tenant), maxRows)
      return full ? reply.catch(error => fail(isReadOnly(error) ? full : error)) : reply
    },

    execSql: (caller: Caller, raw: RawRequest): Promise<RawReply> => execSql(databases, caller, raw),
  }
}

const isReadOnly = (error: unknown) => error instanceof Refusal && error.code === readOnly

function fail(error: unknown): never {
  throw error
}
