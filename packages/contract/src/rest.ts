// Rows and functions of a project. Query strings, bodies and answers depend on the project's schema, which
// GET /api/v1/projects/{id}/docs describes.
import type { TSchema } from 'typebox'
import type { DataRoute, Method, Routes } from './route.ts'
import { Id } from './shapes.ts'
import { Type } from './type.ts'

const Rows = Type.Unknown({ description: 'JSON text from Postgres, or the requested media type.' })

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

const needsDatabaseSpace = <R extends DataRoute>(route: R) => ({ ...route, needsSpace: 'database' as const })

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
  rootMethods: route('OPTIONS', root, 'Read the methods of this address, in the header Allow'),
  describe: route('GET', root, 'OpenAPI description of the tables and functions that the key may use'),
  read: route('GET', table, 'Read rows: filters, select with embedded relations, order, limit'),
  count: route('HEAD', table, 'Count rows: the total is in Content-Range'),
  insert: needsDatabaseSpace(
    route('POST', table, 'Insert one row or many, or upsert them with Prefer: resolution'),
  ),
  put: needsDatabaseSpace(
    route('PUT', table, 'Insert or replace the row whose primary key is in the filters'),
  ),
  update: needsDatabaseSpace(
    route('PATCH', table, 'Update the matching rows; at least one filter is required'),
  ),
  remove: route('DELETE', table, 'Delete the matching rows; at least one filter is required'),
  tableMethods: route(
    'OPTIONS',
    table,
    'Read the methods that a table or view supports, in the header Allow',
  ),
  execSql: {
    ...route('POST', execSql, "Run SQL as the project's owner; service_role only"),
    allow: ['service_role'],
    needsSpace: 'disk',
  },
  callByGet: route('GET', call, 'Call a read-only function with its arguments in the query string'),
  callByHead: route('HEAD', call, 'Call a read-only function and return only the headers'),
  callMethods: route('OPTIONS', call, 'Read the methods that a function supports, in the header Allow'),
  // Only the run shows whether a function writes. If space is exhausted, the handler runs it read-only.
  callByPost: route('POST', call, 'Call a function with its arguments in a JSON object'),
} as const satisfies Routes
