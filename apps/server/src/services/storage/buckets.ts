// Bucket operations. Policies on storage.buckets decide; without policies only service_role may use them.
import type { Bucket, BucketInput } from '@plinth/contract/storage.ts'
import type { RequestHead } from '#src/kernel/http/request.ts'
import { type Caller, statement } from '#src/tenancy/databases.ts'
import type { Tenant } from '#src/tenancy/directory.ts'
import { contextOf } from './access.ts'
import { type Files, quotaBytes } from './files.ts'
import { bytesFrom, checkBucketName, isUserBucket } from './names.ts'
import { noSuchBucket, storageRefusal, tooLarge, userBucketIsPrivate } from './refusals.ts'
import { type BucketRow, bucketJson, type Store } from './store.ts'
import { checkContentType } from './upload-body.ts'

export interface BucketListOptions {
  limit?: string
  offset?: string
  search?: string
  sortColumn?: string
  sortOrder?: string
}

export type Buckets = ReturnType<typeof createBuckets>

const sortColumns = ['id', 'name', 'created_at', 'updated_at']

export function createBuckets(store: Store, files: Files) {
  return {
    async list(caller: Caller, request: RequestHead, options: BucketListOptions): Promise<Bucket[]> {
      const column = options.sortColumn ?? 'name'
      const order = (options.sortOrder ?? 'asc').toLowerCase()
      if (!sortColumns.includes(column))
        throw storageRefusal('InvalidRequest', `sortColumn must be one of ${sortColumns.join(', ')}`)
      if (order !== 'asc' && order !== 'desc')
        throw storageRefusal('InvalidRequest', 'sortOrder must be asc or desc')
      const asked = statement(
        `select ${bucketJson} from storage.buckets
          where $1::text is null or pg_catalog.strpos(pg_catalog.lower(name), pg_catalog.lower($1::text)) > 0
          order by ${column} ${order}, id limit $2::bigint offset $3::bigint`,
        true,
      )
      const values = [
        options.search || null,
        count('limit', options.limit),
        count('offset', options.offset) ?? '0',
      ]
      const context = contextOf(caller, request, 'bucket.list', { isReadOnly: true })
      return (await store.ask(context, 'bucket', asked, values)).map(
        ([json]) => JSON.parse(json!) as BucketRow,
      )
    },

    async read(caller: Caller, request: RequestHead, id: string): Promise<Bucket> {
      const found = await store.findBucket(contextOf(caller, request, 'bucket.get'), id)
      if (!found) throw noSuchBucket()
      return found
    },

    async create(caller: Caller, request: RequestHead, input: BucketInput): Promise<{ name: string }> {
      const id = checkBucketName(input.id ?? input.name ?? '')
      const isPublic = input.public ?? false
      if (isPublic && isUserBucket(id)) throw userBucketIsPrivate()
      if (input.type !== undefined && input.type !== 'STANDARD')
        throw storageRefusal('InvalidRequest', 'Buckets are of type STANDARD')
      const { fileSizeLimit = null, mimeTypes = null } = limitsFrom(caller.tenant, input)
      await store.insertBucket(contextOf(caller, request, 'bucket.create'), {
        id,
        name: input.name === undefined ? id : checkBucketName(input.name),
        isPublic,
        fileSizeLimit,
        mimeTypes,
      })
      return { name: id }
    },

    async update(caller: Caller, request: RequestHead, id: string, input: BucketInput) {
      if (input.public && isUserBucket(id)) throw userBucketIsPrivate()
      const change = { isPublic: input.public ?? undefined, ...limitsFrom(caller.tenant, input) }
      if (!(await store.updateBucket(contextOf(caller, request, 'bucket.update'), id, change)))
        throw noSuchBucket()
      return { message: 'Successfully updated' }
    },

    async remove(caller: Caller, request: RequestHead, id: string) {
      if (!(await store.deleteBucket(contextOf(caller, request, 'bucket.delete'), id))) throw noSuchBucket()
      return { message: 'Successfully deleted' }
    },

    async empty(caller: Caller, request: RequestHead, id: string) {
      const context = contextOf(caller, request, 'bucket.empty')
      if (!(await store.findBucket(context, id))) throw noSuchBucket()
      // A trigger may insert new objects meanwhile. The count at the start bounds the loop.
      for (let left = await store.count(context, id); left > 0 && !request.signal.aborted; ) {
        const versions = await store.removeSome(context, id)
        await files.dropVersions(caller.tenant.id, versions)
        left = versions.length === 0 ? 0 : left - versions.length
      }
      return { message: 'Successfully emptied' }
    },
  }
}

function limitsFrom(tenant: Tenant, { file_size_limit, allowed_mime_types }: BucketInput) {
  return {
    ...(file_size_limit !== undefined && {
      fileSizeLimit: file_size_limit === null ? null : limitFrom(tenant, file_size_limit),
    }),
    ...(allowed_mime_types !== undefined && {
      mimeTypes: allowed_mime_types?.map(checkContentType) ?? null,
    }),
  }
}

function limitFrom(tenant: Tenant, given: number | string): number {
  const limit = bytesFrom(given)
  if (limit > quotaBytes(tenant))
    throw tooLarge(quotaBytes(tenant), 'A bucket cannot take more than its project.')
  return limit
}

function count(name: string, given: string | undefined): string | null {
  if (given === undefined || given === '') return null
  if (!/^\d{1,15}$/.test(given)) throw storageRefusal('InvalidRequest', `${name} must be a whole number`)
  return given
}
