// The row API of a project: rows, functions and SQL, with the caller's role and claims.
import { Refusal } from '#src/kernel/errors.ts'
import type { RawReply, RawRequest } from '#src/kernel/http/request.ts'
import type { Database } from '#src/kernel/postgres/database.ts'
import type { Queries } from '#src/query/run.ts'
import type { DocsService } from '#src/services/docs/service.ts'
import type { Caller, Databases } from '#src/tenancy/databases.ts'
import type { SpaceCheck } from '#src/tenancy/space-check.ts'
import { call } from './call.ts'
import { execSql } from './exec-sql.ts'
import { callMethods, rootMethods, tableMethods } from './methods.ts'
import { hasTimeZone, preferencesFrom, type TimeZones } from './preferences.ts'
import { read } from './read.ts'
import { throwRefusal } from './refusal.ts'
import { type RestRequest, readRequest } from './request.ts'
import { readTimeZoneNames } from './store.ts'
import { createTimeZones } from './time-zones.ts'
import { write } from './write.ts'

export interface RestDeps {
  docs: DocsService
  control: Database
  databases: Databases
  queries: Queries
  spaceCheck: SpaceCheck
  maxRows: number
}

const openApi = { 'content-type': 'application/openapi+json; charset=utf-8' }

export type RestService = ReturnType<typeof restService>

/** SQLSTATE of a write in a read-only transaction. */
const readOnly = '25006'

export function restService({
  control,
  databases,
  queries: { catalogs, run },
  docs,
  spaceCheck,
  maxRows,
}: RestDeps) {
  const timeZones = createTimeZones(() => readTimeZoneNames(control))

  /** Not async without a time zone: every request takes this path, and each await costs time. */
  function answer(
    caller: Caller,
    raw: RawRequest,
    work: (request: RestRequest) => Promise<RawReply>,
    isReadOnly = false,
  ): Promise<RawReply> {
    const prefer = raw.headers['prefer'] as string | undefined
    const zones = hasTimeZone(prefer) ? timeZones() : undefined
    return zones instanceof Promise ? zones.then(begin) : begin(zones)

    function begin(zones?: TimeZones): Promise<RawReply> {
      return work(readRequest(caller, raw, preferencesFrom(prefer, zones), isReadOnly)).catch(throwRefusal)
    }
  }

  return {
    async describe({ tenant, role }: Caller): Promise<RawReply> {
      const audience = role === 'service_role' ? 'all' : 'anon'
      return { status: 200, headers: openApi, body: await docs.read(tenant.id, audience, undefined, 'json') }
    },

    rootMethods: async (): Promise<RawReply> => rootMethods(),

    tableMethods: (caller: Caller, raw: RawRequest, table: string): Promise<RawReply> =>
      answer(caller, raw, request => tableMethods(request, table, run)),

    callMethods: (caller: Caller, raw: RawRequest, name: string): Promise<RawReply> =>
      answer(caller, raw, request => callMethods(request, name, run)),

    read: (caller: Caller, raw: RawRequest, table: string): Promise<RawReply> =>
      answer(caller, raw, request => read(request, table, run, maxRows)),

    write: (
      caller: Caller,
      raw: RawRequest,
      table: string,
      kind: 'insert' | 'put' | 'update' | 'delete',
    ): Promise<RawReply> => answer(caller, raw, request => write(request, table, kind, run)),

    /** While the database is full, functions run read-only. */
    async call(caller: Caller, raw: RawRequest, name: string): Promise<RawReply> {
      const full = raw.method === 'POST' ? spaceCheck.refusal('database', caller.tenant) : undefined
      const now = () => catalogs.of(caller.tenant)
      const reply = answer(caller, raw, request => call(request, name, run, now, maxRows), full !== undefined)
      return full ? reply.catch(error => fail(isReadOnly(error) ? full : error)) : reply
    },

    execSql: (caller: Caller, raw: RawRequest): Promise<RawReply> => execSql(databases, caller, raw),
  }
}

const isReadOnly = (error: unknown) => error instanceof Refusal && error.code === readOnly

function fail(error: unknown): never {
  throw error
}
