// supabase-js's client with three more services. What it builds from the project's URL for rows, auth, files and
// realtime stays as it is; ours are built the same way.
import { SupabaseClient, type SupabaseClientOptions } from '@supabase/supabase-js'
import { Cache } from './cache.ts'
import { Cron } from './cron.ts'
import { Queues } from './queues.ts'
import { createTransport } from './transport.ts'
import { withTransport } from './web-socket.ts'

export type { Cache, CountOptions, KeysOptions, ScanOptions, ScanPage, SetOptions } from './cache.ts'
export type { Cron, RunsOptions } from './cron.ts'
// biome-ignore lint/performance/noBarrelFile: a published package has one entry, and this is what it is for.
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
export type { ErrorCode, Job, JobWish, Queue, QueueMetrics, Run } from './wire.ts'

/** The URL of a project: of the platform's URL and the project's id. */
export const projectUrl = (platformUrl: string, projectId: string): string =>
  `${platformUrl.trim().replace(/\/+$/, '')}/v1/${encodeURIComponent(projectId)}`

// The type parameters are those of SupabaseClient, so that a generated `Database` works as it does there.
type SchemaNames<Database> = string & keyof Omit<Database, '__InternalSupabase'>
type DefaultSchemaName<Database> = 'public' extends keyof Omit<Database, '__InternalSupabase'>
  ? 'public'
  : SchemaNames<Database>

/** A client of one project: everything of `SupabaseClient`, and `cache`, `queues` and `cron`. */
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

  /** @param url the project's: `{base}/v1/<project_id>`, or `projectUrl(base, id)` */
  constructor(url: string, key: string, options?: SupabaseClientOptions<SchemaName>) {
    super(url, key, withTransport(options))
    const send = createTransport(url, key, options?.global)
    this.cache = new Cache(send)
    this.queues = new Queues(send)
    this.cron = new Cron(send)
  }
}

/**
 * Makes a client of a project.
 * @param url the project's: `{base}/v1/<project_id>`, or `projectUrl(base, id)`
 * @param key a key of the project; `cache`, `queues` and `cron` need the service_role key
 * @param options those of supabase-js
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
