// Builds OpenAPI 3.1 from the route tables. TypeBox schemas are JSON Schema already.
import { type ErrorCode, errorCodes } from './errors.ts'
import { aliasPath, prefix, type Route, type Routes } from './route.ts'

type Json = Record<string, unknown>

export function openapi(version: string, tables: Record<string, Routes>): Json {
  const paths: Record<string, Json> = {}
  for (const [service, routes] of Object.entries(tables))
    for (const [name, route] of Object.entries(routes))
      for (const [index, path] of addresses(route).entries()) {
        const operationId = index === 0 ? `${service}.${name}` : `${service}.${name}.${index}`
        paths[path] = { ...paths[path], [route.method.toLowerCase()]: operation(service, operationId, route) }
      }
  return {
    openapi: '3.1.0',
    info: {
      title: 'Plinth',
      version,
      description: 'Management API under /api/v1, application-facing data plane under /v1.',
      license: { name: 'Apache-2.0', identifier: 'Apache-2.0' },
    },
    tags: Object.keys(tables).map(name => ({ name })),
    paths,
    components: { securitySchemes, schemas: { ManagementError, DataError } },
  }
}

/** The paths of a route: its own, then the alias or root path if it has one. */
export function addresses(route: Route): string[] {
  const own = prefix(route) + route.path
  if (route.plane === 'management') {
    if (route.atRoot === 'only') return [route.path]
    return route.atRoot ? [own, route.path] : [own]
  }
  const alias = aliasPath(route.path)
  return alias ? [own, prefix(route) + alias] : [own]
}

function operation(tag: string, operationId: string, route: Route): Json {
  const status = String(route.status ?? 200)
  return {
    tags: [tag],
    operationId,
    summary: route.summary,
    parameters: [...parameters('path', route.params), ...parameters('query', route.query)],
    ...(route.body && {
      requestBody: { required: true, content: { 'application/json': { schema: route.body } } },
    }),
    responses: {
      [status]: status === '204' ? { description: 'Done.' } : response('Done.', route.reply),
      ...Object.fromEntries(errorCodesOf(route).map(code => errorResponse(route, code))),
    },
    security: security(route),
    ...(route.plane === 'management' && 'audit' in route && route.audit && { 'x-audit-action': route.audit }),
    ...(route.plane === 'management' && { 'x-scope': route.scope }),
  }
}

const response = (description: string, schema: unknown): Json => ({
  description,
  content: { 'application/json': { schema } },
})

function parameters(location: 'path' | 'query', schema: unknown): Json[] {
  const { properties = {}, required = [] } = (schema ?? {}) as {
    properties?: Record<string, Json>
    required?: string[]
  }
  return Object.entries(properties).map(([name, each]) => ({
    name,
    in: location,
    required: location === 'path' || required.includes(name),
    schema: each,
    ...(typeof each['description'] === 'string' && { description: each['description'] }),
  }))
}

const errorCodesOf = (route: Route): ErrorCode[] => [
  ...(route.params || route.query || route.body ? (['invalid_request'] as const) : []),
  ...(isOpen(route) && !refusesCredential(route) ? [] : (['unauthorized', 'insufficient_scope'] as const)),
  ...(route.plane === 'data' ? (['over_request_rate_limit'] as const) : []),
]

function errorResponse(route: Route, code: ErrorCode): [string, Json] {
  const { status, meaning } = errorCodes[code]
  const schema = { $ref: `#/components/schemas/${route.plane === 'data' ? 'DataError' : 'ManagementError'}` }
  return [String(status), response(meaning, schema)]
}

const isOpen = (route: Route) => (route.plane === 'data' ? route.allow === 'open' : route.scope === 'none')

const mayHaveCredential = (route: Route) => route.plane === 'management' && route.fuller !== undefined

const refusesCredential = (route: Route) =>
  route.plane === 'management' && route.fuller !== undefined && !route.neverRefuses

function security(route: Route): Json[] {
  if (mayHaveCredential(route)) return [{}, { managementToken: [] }]
  if (isOpen(route)) return []
  return route.plane === 'management'
    ? [{ managementToken: [] }]
    : [{ projectKey: [] }, { projectKey: [], userToken: [] }, { userToken: [] }]
}

const securitySchemes = {
  managementToken: {
    type: 'http',
    scheme: 'bearer',
    description: 'The admin token, a platform token (`platform_pat_…`) or a session from /platform/login.',
  },
  projectKey: { type: 'apiKey', in: 'header', name: 'apikey', description: 'anon or service_role key.' },
  userToken: {
    type: 'http',
    scheme: 'bearer',
    description: 'A user’s JWT together with `apikey`, or a project key alone.',
  },
}

const text = { type: 'string' }
const ManagementError = {
  type: 'object',
  required: ['error'],
  properties: {
    error: { type: 'object', required: ['message', 'code'], properties: { message: text, code: text } },
  },
}
const DataError = {
  type: 'object',
  required: ['code', 'message', 'error', 'statusCode', 'details', 'hint'],
  properties: {
    code: text,
    message: text,
    error: text,
    statusCode: { type: 'integer' },
    details: text,
    hint: text,
  },
}
