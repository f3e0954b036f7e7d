// The merged log of a project: answers of the data plane, and lines of edge functions.
import type { Static } from 'typebox'
import type { Routes } from './route.ts'
import { Id, Nullable, Timestamp } from './shapes.ts'
import { Type } from './type.ts'

export const logSources = ['function', 'access', 'all'] as const
export const entryLevels = ['debug', 'info', 'log', 'warn', 'error'] as const

export const LogEntry = Type.Object({
  id: Type.String({ description: 'Later entries have larger ids.' }),
  source: Type.Enum(['function', 'access']),
  timestamp: Type.String({ format: 'date-time', description: 'Of a request, when its answer ended.' }),
  method: Nullable(Type.String()),
  route: Nullable(Type.String({ description: 'The pattern, such as `/v1/rest/{project}/{table}`.' })),
  service: Nullable(Type.String()),
  function: Nullable(Type.String({ description: 'The name of the edge function.' })),
  status: Nullable(Type.Integer()),
  duration_ms: Nullable(Type.Number()),
  bytes_in: Nullable(Type.Integer()),
  bytes_out: Nullable(Type.Integer()),
  role: Nullable(Type.String()),
  request_id: Nullable(Type.String({ description: 'The `x-request-id` of the answer.' })),
  trace_id: Nullable(Type.String({ description: 'From the `traceparent` of the request.' })),
  level: Type.Enum([...entryLevels]),
  event: Type.Enum(['request', 'dropped', 'start', 'end', 'output'], {
    description:
      'A `request`; `dropped` requests; the `start` and `end` of a call of a function, and its `output`.',
  }),
  message: Nullable(
    Type.String({ description: 'Null for output of functions if the credential has only read scope.' }),
  ),
})
export type LogEntry = Static<typeof LogEntry>

export const LogsQuery = Type.Object({
  source: Type.Optional(Type.Enum([...logSources], { description: 'Default all.' })),
  limit: Type.Optional(
    Type.Integer({ minimum: 1, description: 'Entries to return (default 50); clamped to 500.' }),
  ),
  before: Type.Optional(
    Type.String({ maxLength: 64, description: 'The `next_before` of the previous page.' }),
  ),
  after: Type.Optional(
    Type.String({ pattern: '^[0-9]{1,16}$', description: 'the id of an entry; later ones are returned' }),
  ),
  status: Type.Optional(
    Type.String({ pattern: '^[1-5](xx|[0-9][0-9])$', description: 'a status like 404, or a class like 5xx' }),
  ),
  route: Type.Optional(
    Type.String({ minLength: 1, maxLength: 200, description: 'A part of the route pattern.' }),
  ),
  request_id: Type.Optional(Type.String({ minLength: 1, maxLength: 128 })),
  from: Type.Optional(Timestamp),
  to: Type.Optional(Timestamp),
  text: Type.Optional(
    Type.String({
      minLength: 1,
      maxLength: 200,
      description: 'A part of the message, the route, or the name of the function; case is ignored.',
    }),
  ),
})
export type LogsQuery = Static<typeof LogsQuery>

export const LogsPage = Type.Object({
  logs: Type.Array(LogEntry, { description: 'The latest first.' }),
  next_before: Nullable(
    Type.String({
      description:
        'The cursor of the next page. Null at the end of the log. A page can have few or no entries before the end, because a request searches only a part of a large log.',
    }),
  ),
})
export type LogsPage = Static<typeof LogsPage>

export const logsApi = {
  list: {
    plane: 'management',
    method: 'GET',
    path: '/projects/{id}/logs',
    scope: 'read',
    summary: 'Read the log of a project: requests and lines of edge functions, the latest first',
    params: Type.Object({ id: Id }),
    query: LogsQuery,
    reply: LogsPage,
  },
} as const satisfies Routes
