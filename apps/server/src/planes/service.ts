// The interface of a service to app.ts: its routes, its hooks for the life of a project, its warnings.
import type { ServiceHealth } from '@plinth/contract/health.ts'
import type { Routes } from '@plinth/contract/route.ts'
import type { Refusal } from '#src/kernel/errors.ts'
import type { Handlers } from '#src/kernel/http/plane.ts'
import type { RequestHead } from '#src/kernel/http/request.ts'
import type { SocketMount, TunnelMount } from '#src/kernel/http/sockets.ts'
import type { Metric } from '#src/kernel/metrics.ts'
import type { Caller } from '#src/tenancy/databases.ts'
import type { ProjectHooks } from '#src/tenancy/lifecycle.ts'
import type { ProjectDataHooks, Reseal } from '#src/tenancy/project-data.ts'
import type { DataPlaneOptions } from './data/plane.ts'
import type { Actor } from './management/actor.ts'
import type { Scraper } from './metrics/plane.ts'

/** Adds routes of a service to the planes. */
export interface Mounting {
  /** The options override defaults of the plane, such as the format of errors. */
  data<T extends Routes>(routes: T, handlers: Handlers<T, Caller>, options?: DataPlaneOptions): void
  management<T extends Routes>(routes: T, handlers: Handlers<T, Actor>): void
  metrics<T extends Routes>(routes: T, handlers: Handlers<T, Scraper>): void
  socket<Who>(mount: SocketMount<Who>): void
  tunnel<Who>(mount: TunnelMount<Who>): void
}

/** Handles paths of a service that match no route. */
export interface UnknownPaths {
  isOwn(path: string): boolean
  word?: DataPlaneOptions['word']
  explain?: DataPlaneOptions['explain']
  /** May throw an error that is more specific than "no such route". */
  refuse?(request: RequestHead): void
  /** The error for paths of a feature that no project has. Callers get it without a credential. */
  notOffered?(request: RequestHead): Refusal | undefined
}

/** Only an operator may read what belongs to projects. */
export type HealthAudience = 'anyone' | 'operator'

export interface Service {
  /** The name of its folder, which the request log contains. */
  readonly name: string
  mount?(to: Mounting): void
  readonly unknownPaths?: UnknownPaths
  readonly hooks?: ProjectHooks
  /** Exports, restores and copies the data outside the project's database. */
  readonly data?: ProjectDataHooks
  readonly reseal?: Reseal
  /** Warnings for the operator, as sentences. */
  warnings?(): readonly string[]
  /** Its state for the operator, if it is shown beside that of the database. Health is public, so most callers are anyone. */
  health?(audience: HealthAudience): ServiceHealth
  /** Metrics for the operator. */
  readonly metrics?: readonly Metric[]
  /** Called after the platform listens. */
  start?(): void
  close?(): Promise<void> | void
}

/** A service that other services call. */
export type Opened<T> = Service & { readonly service: T }
