// Rows and functions of a project. Query strings, bodies and answers are shaped by the project's own schema;
// GET /api/v1/projects/{id}/docs describes them.
import type { TSchema } from 'typebox'
import type { DataRoute, Method, Routes } from './route.ts'
import { Id } from './shapes.ts'
import { Type } from './type.ts'

const Rows = Type.Unknown({ description: 'JSON text made by Postgres, or the media type asked for.' })

const route = <M extends Method, P extends TSchema>(method: M, { path, params }: Place<P>, summary: string) =>
  ({
    plane: 'data',
    method,
    path,
    params,
    allow: ['anon', 'authenticated', 'service_role'],
    summary,
    raw: true,
    reply: Rows,
  }) as const satisfies DataRoute

const growing = <R extends DataRoute>(route: R) => ({ ...route, needsRoom: 'database' as const })

interface Place<P extends TSchema> {
  path: string
  params: P
}
const table = {
  path: '/rest/{project}/{table}',
  params: Type.Object({ project: Id, table: Type.String() }),
}
const call = {
  path: '/rest/{project}/rpc/{function}',
  params: Type.Object({ project: Id, function: Type.String() }),
}
const root = { path: '/rest/{project}', params: Type.Object({ project: Id }) }
const execSql = { path: '/rest/{project}/rpc/exec_sql', params: Type.Object({ project: Id }) }

export const restApi = {
  describe: route('GET', root, 'The tables and functions the key may reach, as an OpenAPI document'),
  read: route('GET', table, 'Read rows: filters, select with embedded relations, order, limit'),
  count: route('HEAD', table, 'Count rows: the total is in Content-Range'),
  insert: growing(route('POST', table, 'Insert one row or many, or upsert them with Prefer: resolution')),
  put: growing(route('PUT', table, 'Insert or replace the one row that the filters on the primary key name')),
  update: growing(route('PATCH', table, 'Update the rows that match; at least one filter is needed')),
  remove: route('DELETE', table, 'Delete the rows that match; at least one filter is needed'),
  execSql: {
    ...route('POST', execSql, "Run SQL as the project's owner; service_role only"),
    allow: ['service_role'],
    needsRoom: 'disk',
  },
  callByGet: route('GET', call, 'Call a function that only reads, its arguments in the query string'),
  callByHead: route('HEAD', call, 'The same, for the headers alone'),
  // Whether it writes is known when it runs: without room the handler runs it read-only.
  callByPost: route('POST', call, 'Call a function, its arguments in a JSON object'),
} as const satisfies Routes
