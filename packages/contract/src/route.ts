// A route is data: the server binds it to a handler, the CLI and SDK call it, /openapi.json prints it.
import type { Static, TSchema } from 'typebox'

export type Method = 'GET' | 'HEAD' | 'POST' | 'PUT' | 'PATCH' | 'DELETE' | 'OPTIONS'

/** Management scopes nest: admin includes deploy includes read. */
export type Scope = 'read' | 'deploy' | 'admin'
/** Who a data-plane caller is to Postgres. */
export type Role = 'anon' | 'authenticated' | 'service_role'

/**
 * What a route that adds data needs. 'database': room in the project's database, so it is 413 while that is over its
 * quota `max_database_size_mb`. Both are 503 while the disk reserve of the platform is reached.
 */
export type NeedsRoom = 'database' | 'disk'

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
  /** The body's objects may have keys of any name, `__proto__` among them; the handler only lists them. */
  anyKey?: true
  /** Bytes of a JSON body; the plane's own limit when absent. */
  bodyLimit?: number
  /** Checked before the body is read; absent on routes that read or delete. */
  needsRoom?: NeedsRoom
  /** Values in a JSON body, each object, array, text, number, boolean and null; 50,000 when absent. */
  maxValues?: number
}

export type DataRoute = Common & {
  plane: 'data'
  method: Method
  /** The roles that may call; 'open' needs no credential and is metered by address. */
  allow: readonly Role[] | 'open'
  /** Without any credential the caller is anon, metered by address; one that is sent must be valid. */
  mayBeOpen?: true
}

export type AuditAction = `${string}.${string}`

// A management write without an audit action does not compile; a read that reveals something may declare one.
export type ManagementRoute = Common & {
  plane: 'management'
  /** 'none' needs no credential; 'session' needs any valid one. */
  scope: Scope | 'none' | 'session'
  /** With 'none': a credential may be sent all the same; it must cover this, and more is shown. */
  fuller?: Scope
  /** Also answered under the root, outside /api/v1. */
  atRoot?: true
  /** A session may call it whatever its memberships; the handler shows only what these allow. */
  showsOwn?: true
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

/** `/cache/{project}/get/{key}` is also reached as `/{project}/cache/v1/get/{key}`, the shape SDKs build. */
export function aliasPath(path: string): string | undefined {
  const native = /^\/([a-z]+)\/\{project\}(\/.*)?$/.exec(path)
  return native ? `/{project}/${native[1]}/v1${native[2] ?? ''}` : undefined
}
