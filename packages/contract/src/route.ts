// Routes are data. The server binds them to handlers, the CLI and the SDK call them, and /openapi.json lists them.
import type { Static, TSchema } from 'typebox'

export type Method = 'GET' | 'HEAD' | 'POST' | 'PUT' | 'PATCH' | 'DELETE' | 'OPTIONS'

/** Management scopes nest: admin includes deploy includes read. */
export type Scope = 'read' | 'deploy' | 'admin'
/** The Postgres role of a data-plane caller. */
export type Role = 'anon' | 'authenticated' | 'service_role'

/**
 * The space that a route which adds data needs. 'database': the route answers 413 while the project database is over its
 * quota `max_database_size_mb`. Both kinds answer 503 while the disk reserve of the platform is reached.
 */
export type NeedsSpace = 'database' | 'disk'

interface Common {
  path: string
  summary: string
  params?: TSchema
  query?: TSchema
  body?: TSchema
  reply: TSchema
  status?: 200 | 201 | 202 | 204
  /** The handler reads the request and writes the reply itself (streams, CSV, text passed through). */
  raw?: true
  /** Objects in the body may have any key, including `__proto__`. The handler must only enumerate them. */
  anyKey?: true
  /** Maximum bytes of a JSON body. Defaults to the limit of the plane. */
  bodyLimit?: number
  /** Checked before the body is read. Absent on routes that read or delete. */
  needsSpace?: NeedsSpace
  /** Maximum values in a JSON body: objects, arrays, texts, numbers, booleans and nulls. Defaults to 50,000. */
  maxValues?: number
}

export type DataRoute = Common & {
  plane: 'data'
  method: Method
  /** The roles that may call. 'open' needs no credential and is rate limited by address. */
  allow: readonly Role[] | 'open'
  /** Without a credential the caller is anon and is rate limited by address. A credential that is sent must be valid. */
  mayBeOpen?: true
}

export type AuditAction = `${string}.${string}`

// A management write without an audit action does not compile. A read that reveals secrets may declare one.
export type ManagementRoute = Common & {
  plane: 'management'
  /** 'none' needs no credential; 'session' needs any valid one. */
  scope: Scope | 'none' | 'session'
  /** With 'none': a credential is optional. It must have this scope, and the answer then contains more. */
  fuller?: Scope
  /** With `fuller`: a credential that is wrong, is not sufficient or cannot be checked is ignored. */
  neverRefuses?: true
  /** Also served at the root, outside /api/v1, or only there. */
  atRoot?: true | 'only'
  /** Any session may call it. The handler returns only what its memberships allow. */
  showsOwn?: true
  /** The handler writes the audit entry itself, because not every call is one. */
  auditedByHandler?: true
} & (
    | { method: 'GET' | 'HEAD'; audit?: AuditAction }
    | { method: Exclude<Method, 'GET' | 'HEAD'>; audit: AuditAction }
  )

export type Route = DataRoute | ManagementRoute
export type Routes = Readonly<Record<string, Route>>

type In<S> = S extends TSchema ? Static<S> : undefined
export interface Input<R extends Route> {
  params: In<R['params']>
  query: In<R['query']>
  body: In<R['body']>
}
export type Reply<R extends Route> = R['status'] extends 204 ? undefined : Static<R['reply']>

export const prefix = (route: Route): string => (route.plane === 'data' ? '/v1' : '/api/v1')

/** `/cache/{project}/get/{key}` is also served as `/{project}/cache/v1/get/{key}`, which SDKs use. */
export function aliasPath(path: string): string | undefined {
  const native = /^\/([a-z]+)\/\{project\}(\/.*)?$/.exec(path)
  return native ? `/{project}/${native[1]}/v1${native[2] ?? ''}` : undefined
}
