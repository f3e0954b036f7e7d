// Buckets and objects in the project database. Statements run as the caller's role, so policies apply. service_role is used
// only where access is already decided (signed URLs) or does not matter (the limits of a bucket).
import { JsonText } from '#src/kernel/json-text.ts'
import type { Value } from '#src/kernel/postgres/wire/encoder.ts'
import type { Cell } from '#src/kernel/postgres/wire/unit.ts'
import { isUuid } from '#src/kernel/uuid.ts'
import {
  type Caller,
  type CallerStatement,
  type Databases,
  type RequestFacts,
  statement,
} from '#src/tenancy/databases.ts'
import type { Tenant } from '#src/tenancy/directory.ts'
import { fromSql } from './refusals.ts'

/** The caller and the facts of a request that policies can read. */
export interface RequestContext {
  caller: Caller
  facts: RequestFacts
  /** Runs as service_role, because a signed URL has granted access. */
  asService?: boolean
}

export interface BucketRow {
  id: string
  name: string
  owner: string
  public: boolean
  type: string
  file_size_limit: number | null
  allowed_mime_types: string[] | null
  created_at: string
  updated_at: string
}

/** The column `metadata`, with the fields of Supabase storage. */
export interface ObjectMetadata {
  eTag: string
  size: number
  mimetype: string
  cacheControl: string
  lastModified: string
  contentLength: number
  httpStatusCode: 200
  xRobotsTag?: string
}

export interface ObjectRow {
  id: string
  version: string
  bucket_id: string
  name: string
  owner: string | null
  owner_id: string | null
  created_at: string
  updated_at: string
  last_accessed_at: string | null
  metadata: ObjectMetadata | null
  user_metadata: Record<string, unknown> | null
}

export interface NewObject {
  id: string
  bucket: string
  name: string
  userId: string
  version: string
  metadata: ObjectMetadata
  userMetadata: object | null
}

export type Store = ReturnType<typeof createStore>

export const utc = (column: string) =>
  `pg_catalog.to_char(${column} at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"')`

export const bucketJson = `pg_catalog.json_build_object('id', id, 'name', name, 'owner', coalesce(owner_id, owner::text, ''),
  'public', public, 'type', type, 'file_size_limit', file_size_limit, 'allowed_mime_types', allowed_mime_types,
  'created_at', ${utc('created_at')}, 'updated_at', ${utc('updated_at')})`
const objectJson = `pg_catalog.json_build_object('id', id, 'version', version, 'bucket_id', bucket_id, 'name', name,
  'owner', owner, 'owner_id', owner_id, 'created_at', ${utc('created_at')}, 'updated_at', ${utc('updated_at')},
  'last_accessed_at', ${utc('last_accessed_at')}, 'metadata', metadata, 'user_metadata', user_metadata)`

const quick = (text: string) => statement(text, true)
const isPublic =
  'exists (select from storage.buckets b where b.id operator(pg_catalog.=) bucket_id and b.public)'
const named = 'bucket_id operator(pg_catalog.=) $1::text and name operator(pg_catalog.=) $2::text'

const statements = {
  findBucket: quick(`select ${bucketJson} from storage.buckets where id operator(pg_catalog.=) $1::text`),
  insertBucket:
    quick(`insert into storage.buckets (id, name, owner, owner_id, public, file_size_limit, allowed_mime_types)
    values ($1::text, $2::text, $3::uuid, $4::text, $5::boolean, $6::bigint, $7::text[])`),
  ensureBucket: quick(
    `insert into storage.buckets (id, name) values ($1::text, $1::text) on conflict do nothing`,
  ),
  updateBucket: quick(`update storage.buckets set public = coalesce($2::boolean, public),
      file_size_limit = case when $3::boolean then $4::bigint else file_size_limit end,
      allowed_mime_types = case when $5::boolean then $6::text[] else allowed_mime_types end,
      updated_at = pg_catalog.now()
    where id operator(pg_catalog.=) $1::text returning id`),
  deleteBucket: quick(`delete from storage.buckets where id operator(pg_catalog.=) $1::text returning id`),
  find: quick(`select ${objectJson} from storage.objects where ${named}`),
  findPublic: quick(`select ${objectJson} from storage.objects where ${named} and ${isPublic}`),
  findMany: quick(`select name from storage.objects
    where bucket_id operator(pg_catalog.=) $1::text and name operator(pg_catalog.=) any ($2::text[])`),
  insert:
    quick(`insert into storage.objects (id, bucket_id, name, owner, owner_id, version, metadata, user_metadata)
    values ($1::uuid, $2::text, $3::text, $4::uuid, $5::text, $6::text, $7::jsonb, $8::jsonb)`),
  upsert:
    quick(`insert into storage.objects (id, bucket_id, name, owner, owner_id, version, metadata, user_metadata)
    values ($1::uuid, $2::text, $3::text, $4::uuid, $5::text, $6::text, $7::jsonb, $8::jsonb)
    on conflict (bucket_id, name) do update set version = excluded.version, metadata = excluded.metadata,
      user_metadata = excluded.user_metadata, owner = excluded.owner, owner_id = excluded.owner_id,
      updated_at = pg_catalog.now(), last_accessed_at = pg_catalog.now(), replaced_version = objects.version
    returning id, replaced_version`),
  move: quick(`update storage.objects set bucket_id = $3::text, name = $4::text, updated_at = pg_catalog.now()
    where ${named} returning id`),
  remove: quick(`delete from storage.objects where ${named} returning version`),
  removeMany: statement(
    `with gone as (delete from storage.objects
        where bucket_id operator(pg_catalog.=) $1::text and name operator(pg_catalog.=) any ($2::text[]) returning *)
      select version, ${objectJson} from gone`,
    false,
  ),
  count: statement(
    'select pg_catalog.count(*) from storage.objects where bucket_id operator(pg_catalog.=) $1::text',
    false,
  ),
  removeSome: statement(
    `delete from storage.objects where id operator(pg_catalog.=) any (array(
        select id from storage.objects where bucket_id operator(pg_catalog.=) $1::text limit 1000)) returning version`,
    false,
  ),
  namedVersions: quick(
    `select version from storage.objects where version operator(pg_catalog.=) any ($1::text[])`,
  ),
} as const

const text = (cell: Cell | undefined) => cell?.toString() ?? null

export function createStore(databases: Databases) {
  async function ask(
    { caller, facts, asService }: RequestContext,
    what: 'object' | 'bucket',
    asked: CallerStatement,
    values: readonly Value[],
  ): Promise<(string | null)[][]> {
    try {
      const { rows } = asService
        ? await databases.asService(caller.tenant, asked, values)
        : await databases.asCaller(caller, facts, asked, values)
      return rows.map(row => row.map(text))
    } catch (error) {
      throw fromSql(error, what)
    }
  }
  const askService = async (tenant: Tenant, asked: CallerStatement, values: readonly Value[]) =>
    (await databases.asService(tenant, asked, values)).rows.map(row => row.map(text))

  const parsed = <T>(rows: (string | null)[][]): T[] => rows.map(([json]) => JSON.parse(json!) as T)

  const valuesOf = ({ id, bucket, name, userId, version, metadata, userMetadata }: NewObject): Value[] => [
    id,
    bucket,
    name,
    isUuid(userId) ? userId : null,
    userId || null,
    version,
    JSON.stringify(metadata),
    userMetadata && JSON.stringify(userMetadata),
  ]

  return {
    ask,

    /** Ignores policies, because the limits of a bucket apply to every caller. */
    bucketOf: async (tenant: Tenant, bucket: string) =>
      parsed<BucketRow>(await askService(tenant, statements.findBucket, [bucket])).map(sanitized)[0],
    ensureBucket: async (tenant: Tenant, bucket: string) =>
      void (await askService(tenant, statements.ensureBucket, [bucket])),
    findBucket: async (context: RequestContext, bucket: string) =>
      parsed<BucketRow>(await ask(context, 'bucket', statements.findBucket, [bucket]))[0],
    insertBucket: async (
      context: RequestContext,
      { id, name, isPublic, fileSizeLimit, mimeTypes }: NewBucket,
    ): Promise<void> => {
      const { userId } = context.caller
      await ask(context, 'bucket', statements.insertBucket, [
        id,
        name,
        isUuid(userId) ? userId : null,
        userId || null,
        String(isPublic),
        fileSizeLimit === null ? null : String(fileSizeLimit),
        mimeTypes && arrayOf(mimeTypes),
      ])
    },
    updateBucket: async (context: RequestContext, id: string, change: BucketChange): Promise<boolean> => {
      const { isPublic, fileSizeLimit, mimeTypes } = change
      const rows = await ask(context, 'bucket', statements.updateBucket, [
        id,
        isPublic === undefined ? null : String(isPublic),
        String(fileSizeLimit !== undefined),
        fileSizeLimit === undefined || fileSizeLimit === null ? null : String(fileSizeLimit),
        String(mimeTypes !== undefined),
        mimeTypes ? arrayOf(mimeTypes) : null,
      ])
      return rows.length === 1
    },
    deleteBucket: async (context: RequestContext, id: string): Promise<boolean> =>
      (await ask(context, 'bucket', statements.deleteBucket, [id])).length === 1,

    find: async (context: RequestContext, bucket: string, name: string) =>
      parsed<ObjectRow>(await ask(context, 'object', statements.find, [bucket, name]))[0],
    /** Finds the object only in a public bucket. */
    findPublic: async (context: RequestContext, bucket: string, name: string) =>
      parsed<ObjectRow>(await ask(context, 'object', statements.findPublic, [bucket, name]))[0],
    /** Returns those of the names that the caller may see. */
    findMany: async (context: RequestContext, bucket: string, names: readonly string[]) =>
      new Set(
        (await ask(context, 'object', statements.findMany, [bucket, arrayOf(names)])).map(([name]) => name),
      ),
    insert: async (context: RequestContext, object: NewObject): Promise<void> =>
      void (await ask(context, 'object', statements.insert, valuesOf(object))),
    /** Returns the id of the object and the version it replaced. */
    upsert: async (
      context: RequestContext,
      object: NewObject,
    ): Promise<{ id: string; replaced: string | null }> => {
      const [row] = await ask(context, 'object', statements.upsert, valuesOf(object))
      return { id: row![0]!, replaced: row![1] ?? null }
    },
    move: async (
      context: RequestContext,
      from: [string, string],
      to: [string, string],
    ): Promise<string | undefined> =>
      (await ask(context, 'object', statements.move, [...from, ...to]))[0]?.[0] ?? undefined,
    /** Returns the version of the removed object, or undefined if there was none. */
    remove: async (context: RequestContext, bucket: string, name: string) =>
      (await ask(context, 'object', statements.remove, [bucket, name]))[0]?.[0] ?? undefined,
    /** Returns the objects as JSON text, because parsing the metadata of 1000 objects can block the event loop. */
    async removeMany(context: RequestContext, bucket: string, names: readonly string[]) {
      const rows = await ask(context, 'object', statements.removeMany, [bucket, arrayOf(names)])
      const objects = new JsonText(Buffer.from(`[${rows.map(row => row[1]).join()}]`))
      return { versions: rows.map(row => row[0]!), objects }
    },
    count: async (context: RequestContext, bucket: string) =>
      Number((await ask(context, 'object', statements.count, [bucket]))[0]![0]),
    removeSome: async (context: RequestContext, bucket: string) =>
      (await ask(context, 'object', statements.removeSome, [bucket])).map(([version]) => version!),
    /** Returns those of the versions that objects reference. */
    namedVersions: async (tenant: Tenant, versions: readonly string[]) =>
      new Set(
        (await askService(tenant, statements.namedVersions, [arrayOf(versions)])).map(
          ([version]) => version!,
        ),
      ),
  }
}

/** The project owner can change the column types, so values may have any type. */
const sanitized = (bucket: BucketRow): BucketRow => ({
  ...bucket,
  file_size_limit: Number.isSafeInteger(bucket.file_size_limit) ? bucket.file_size_limit : null,
  allowed_mime_types: Array.isArray(bucket.allowed_mime_types) ? bucket.allowed_mime_types.map(String) : null,
})

export interface NewBucket {
  id: string
  name: string
  isPublic: boolean
  fileSizeLimit: number | null
  mimeTypes: string[] | null
}
export interface BucketChange {
  isPublic?: boolean | undefined
  fileSizeLimit?: number | null | undefined
  mimeTypes?: string[] | null | undefined
}

/** Encodes a Postgres text array. */
export const arrayOf = (texts: readonly string[]) =>
  `{${texts.map(each => `"${each.replace(/["\\]/g, '\\$&')}"`).join(',')}}`
