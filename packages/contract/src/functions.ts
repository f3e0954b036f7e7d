// Edge functions: deployment over the management API, invocation under /v1.
import type { Static } from 'typebox'
import type { DataRoute, Method, Routes } from './route.ts'
import { Empty, Id, Nullable, page, pageQuery, Timestamp } from './shapes.ts'
import { Type } from './type.ts'

/** All files of a function, in bytes. */
export const maxCodeBytes = 10 * 1024 * 1024
export const maxFiles = 1000
export const keptVersions = 10

export const FunctionName = Type.String({
  pattern: '^[A-Za-z0-9_][A-Za-z0-9_-]{0,63}$',
  description: 'letters, digits, underscores and hyphens, at most 64 characters',
})

const VerifyJwt = Type.Boolean({
  description:
    'Whether a call needs the token of a user or the service_role key (default true). Otherwise it needs no credential.',
})

/** Paths have `/` as separator and are relative to the folder of the function. */
const Files = Type.Record(
  Type.String(),
  Type.Union([Type.String(), Type.Object({ base64: Type.String() }, { additionalProperties: false })]),
  {
    minProperties: 1,
    maxProperties: maxFiles,
    description: 'The files by path: a text, or `{ "base64": … }` for bytes. 10 MB in total.',
  },
)
export type Files = Static<typeof Files>

const code = {
  code: Type.Optional(Type.String({ description: 'The code of a function with a single file, index.ts.' })),
  files: Type.Optional(Files),
  entrypoint: Type.Optional(
    Type.String({
      minLength: 1,
      maxLength: 500,
      description: 'The path of the file with the handler (default: index.ts, index.js or index.mjs).',
    }),
  ),
  verify_jwt: Type.Optional(VerifyJwt),
}

const edgeFunction = {
  id: Id,
  name: Type.String(),
  slug: Type.String({ description: 'Equal to `name`.' }),
  status: Type.Literal('ACTIVE'),
  version: Type.Integer(),
  verify_jwt: Type.Boolean(),
  entrypoint: Type.String(),
  created_at: Timestamp,
  updated_at: Timestamp,
}
export const EdgeFunction = Type.Object(edgeFunction)
export type EdgeFunction = Static<typeof EdgeFunction>

export const EdgeFunctionDetails = Type.Object({
  ...edgeFunction,
  code: Type.String({ description: 'The text of the entrypoint.' }),
  files: Files,
  packages: Type.Array(Type.String(), { description: 'The npm packages of this version, `name@version`.' }),
  versions: Type.Array(Type.Object({ version: Type.Integer(), created_at: Timestamp }), {
    description: 'The versions that a rollback can use, the latest first.',
  }),
})
export type EdgeFunctionDetails = Static<typeof EdgeFunctionDetails>

export const logLevels = ['debug', 'info', 'log', 'warn', 'error'] as const

export const FunctionLog = Type.Object({
  id: Type.String({ description: 'Ascending; use it as `after`.' }),
  timestamp: Timestamp,
  level: Type.Enum([...logLevels]),
  event: Type.Enum(['output', 'start', 'end'], {
    description: '`output` of the function or of its worker, and the `start` and `end` of a call.',
  }),
  message: Type.String(),
  version: Nullable(Type.Integer()),
  request_id: Nullable(Type.String()),
  status: Nullable(Type.Integer({ description: 'Of the answer, at the end of a call.' })),
  duration_ms: Nullable(Type.Number()),
  is_cold: Nullable(Type.Boolean({ description: 'Whether a worker had to be started for the call.' })),
  memory_mb: Nullable(Type.Number({ description: 'Memory of the worker at the end of the call.' })),
})
export type FunctionLog = Static<typeof FunctionLog>

const byId = Type.Object({ id: Id })
const byName = Type.Object({ id: Id, name: FunctionName })
/** A text of 10 MB can be longer as JSON, and bytes are a third longer as base64. */
const bodyLimit = 32 * 1024 * 1024

export const functionsManagementApi = {
  list: {
    plane: 'management',
    method: 'GET',
    path: '/projects/{id}/functions',
    scope: 'read',
    summary: 'List functions by name, without their code',
    params: byId,
    query: Type.Object(pageQuery),
    reply: page('functions', EdgeFunction),
  },
  create: {
    plane: 'management',
    needsSpace: 'disk',
    method: 'POST',
    path: '/projects/{id}/functions',
    scope: 'deploy',
    audit: 'function.created',
    summary: 'Create and deploy a function from `code` or `files`',
    params: byId,
    body: Type.Object({ name: FunctionName, ...code }, { additionalProperties: false }),
    bodyLimit,
    anyKey: true,
    reply: EdgeFunction,
    status: 201,
  },
  read: {
    plane: 'management',
    method: 'GET',
    path: '/projects/{id}/functions/{name}',
    scope: 'read',
    summary: 'Read a function with its files and versions',
    params: byName,
    reply: EdgeFunctionDetails,
  },
  update: {
    plane: 'management',
    needsSpace: 'disk',
    method: 'PUT',
    path: '/projects/{id}/functions/{name}',
    scope: 'deploy',
    audit: 'function.updated',
    summary: 'Deploy a new version of a function; absent fields keep their value',
    params: byName,
    body: Type.Object(code, { additionalProperties: false }),
    bodyLimit,
    anyKey: true,
    reply: EdgeFunction,
  },
  rollback: {
    plane: 'management',
    needsSpace: 'disk',
    method: 'POST',
    path: '/projects/{id}/functions/{name}/rollback',
    scope: 'deploy',
    audit: 'function.rolled_back',
    summary: 'Deploy a new version with the code of one of the ten previous versions',
    params: byName,
    body: Type.Object(
      { version: Type.Integer({ minimum: 1, maximum: 2 ** 31 - 1 }) },
      { additionalProperties: false },
    ),
    reply: EdgeFunction,
  },
  remove: {
    plane: 'management',
    method: 'DELETE',
    path: '/projects/{id}/functions/{name}',
    scope: 'admin',
    audit: 'function.deleted',
    summary: 'Delete a function with all its versions and logs',
    params: byName,
    reply: Empty,
    status: 204,
  },
  logs: {
    plane: 'management',
    method: 'GET',
    path: '/projects/{id}/functions/{name}/logs',
    scope: 'deploy',
    summary: 'Read the log of a function: the latest lines, or those after a given one',
    params: byName,
    query: Type.Object({
      limit: Type.Optional(
        Type.Integer({ minimum: 1, description: 'Lines to return (default 100); clamped to 1000.' }),
      ),
      after: Type.Optional(
        Type.String({ pattern: '^[0-9]{1,19}$', description: 'Only lines after the one with this id.' }),
      ),
      level: Type.Optional(Type.Enum([...logLevels], { description: 'Only lines of this level.' })),
      request_id: Type.Optional(Type.String({ maxLength: 128, description: 'Only lines of this call.' })),
    }),
    reply: Type.Object({ logs: Type.Array(FunctionLog, { description: 'The oldest first.' }) }),
  },
} as const satisfies Routes

const CallParams = Type.Object({ project: Id, name: FunctionName })
const PathParams = Type.Object({ ...CallParams.properties, path: Type.String() })

const methods = [
  'GET',
  'HEAD',
  'POST',
  'PUT',
  'PATCH',
  'DELETE',
  'OPTIONS',
] as const satisfies readonly Method[]
type Call = `${Lowercase<(typeof methods)[number]>}${'' | 'Path'}`

/** The function decides which methods and paths it answers. The record of the function decides who may call. */
const call = (method: Method, path: string): DataRoute => ({
  plane: 'data',
  method,
  path,
  params: path.endsWith('{path}') ? PathParams : CallParams,
  allow: 'open',
  summary: `Call a function with ${method}`,
  raw: true,
  reply: Type.Unknown({ description: 'The answer of the function.' }),
})

export const functionsApi = Object.fromEntries(
  methods.flatMap(method => [
    [method.toLowerCase(), call(method, '/functions/{project}/{name}')],
    [`${method.toLowerCase()}Path`, call(method, '/functions/{project}/{name}/{path}')],
  ]),
) as Record<Call, DataRoute & { raw: true; params: typeof CallParams }>
