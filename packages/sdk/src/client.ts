// The client of supabase-js with three more services, which use the same project URL. Rows, auth, files and realtime are
// unchanged.
import { SupabaseClient, type SupabaseClientOptions } from '@supabase/supabase-js'
import { Cache } from './cache.ts'
import { Cron } from './cron.ts'
import { Queues } from './queues.ts'
import { createTransport } from './transport.ts'
import { withTransport } from './web-socket.ts'

export type { Cache, CountOptions, KeysOptions, ScanOptions, ScanPage, SetOptions } from './cache.ts'
export type { Cron, RunsOptions } from './cron.ts'
// biome-ignore lint/performance/noBarrelFile: the entry of a published package.
export { PlinthError, type PlinthErrorCode } from './error.ts'
export type {
  ArchivedMessage,
  ArchivedOptions,
  Message,
  MessageHeaders,
  Queues,
  ReadOptions,
  SendBatchOptions,
  SendOptions,
} from './queues.ts'
export type { CallOptions, Result } from './result.ts'
export type { ErrorCode, Job, JobDefinition, Queue, QueueMetrics, Run } from './wire.ts'

/** Builds the URL of a project from the URL of the platform and the project id. */
export const projectUrl = (platformUrl: string, projectId: string): string =>
  `${platformUrl.trim().replace(/\/+$/, '')}/v1/${encodeURIComponent(projectId)}`

// The type parameters are those of SupabaseClient, so that a generated `Database` works as it does there.
type SchemaNames<Database> = string & keyof Omit<Database, '__InternalSupabase'>
type DefaultSchemaName<Database> = 'public' extends keyof Omit<Database, '__InternalSupabase'>
  ? 'public'
  : SchemaNames<Database>

/** A client of one project: a `SupabaseClient` with `cache`, `queues` and `cron`. */
export class PlinthClient<
  // biome-ignore lint/suspicious/noExplicitAny: as in SupabaseClient, without a Database every table is allowed.
  Database = any,
  SchemaNameOrClientOptions extends
    | SchemaNames<Database>
    | { PostgrestVersion: string } = DefaultSchemaName<Database>,
  SchemaName extends SchemaNames<Database> = SchemaNameOrClientOptions extends SchemaNames<Database>
    ? SchemaNameOrClientOptions
    : DefaultSchemaName<Database>,
> extends SupabaseClient<Database, SchemaNameOrClientOptions, SchemaName> {
  /** The key-value cache of the project; needs the service_role key. */
  readonly cache: Cache
  /** The message queues of the project; needs the service_role key. */
  readonly queues: Queues
  /** The scheduled jobs of the project; needs the service_role key. */
  readonly cron: Cron

  /** @param url the URL of the project: `{base}/v1/<project_id>`, or `projectUrl(base, id)` */
  constructor(url: string, key: string, options?: SupabaseClientOptions<SchemaName>) {
    super(url, key, withTransport(options))
    const send = createTransport(url, key, options?.global)
    this.cache = new Cache(send)
    this.queues = new Queues(send)
    this.cron = new Cron(send)
  }
}

/**
 * Creates a client of a project.
 * @param url the URL of the project: `{base}/v1/<project_id>`, or `projectUrl(base, id)`
 * @param key a key of the project; `cache`, `queues` and `cron` need the service_role key
 * @param options the options of supabase-js
 */
export const createClient = <
  // biome-ignore lint/suspicious/noExplicitAny: as in SupabaseClient, without a Database every table is allowed.
  Database = any,
  SchemaNameOrClientOptions extends
    | SchemaNames<Database>
    | { PostgrestVersion: string } = DefaultSchemaName<Database>,
  SchemaName extends SchemaNames<Database> = SchemaNameOrClientOptions extends SchemaNames<Database>
    ? SchemaNameOrClientOptions
    : DefaultSchemaName<Database>,
>(
  url: string,
  key: string,
  options?: SupabaseClientOptions<SchemaName>,
): PlinthClient<Database, SchemaNameOrClientOptions, SchemaName> => new PlinthClient(url, key, options)
