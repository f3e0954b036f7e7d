// Buckets, by the policies on storage.buckets; without any, they are the service role's.
import type { Bucket, BucketWish } from '@plinth/contract/storage.ts'
import type { RequestHead } from '#src/kernel/http/request.ts'
import { type Caller, statement } from '#src/tenancy/databases.ts'
import type { Tenant } from '#src/tenancy/directory.ts'
import { actOf } from './access.ts'
import { type Files, quotaBytes } from './files.ts'
import { bytesFrom, checkBucketName, isUserBucket } from './names.ts'
import { noSuchBucket, storageRefusal, tooLarge, userBucketIsPrivate } from './refusals.ts'
import { type BucketRow, bucketJson, type Store } from './store.ts'
import { checkContentType } from './upload-body.ts'

export interface BucketsWish {
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
    async list(caller: Caller, request: RequestHead, wish: BucketsWish): Promise<Bucket[]> {
      const column = wish.sortColumn ?? 'name'
      const order = (wish.sortOrder ?? 'asc').toLowerCase()
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
      const values = [wish.search || null, count('limit', wish.limit), count('offset', wish.offset) ?? '0']
      const act = actOf(caller, request, 'bucket.list', { isReadOnly: true })
      return (await store.ask(act, 'bucket', asked, values)).map(([json]) => JSON.parse(json!) as BucketRow)
    },

    async read(caller: Caller, request: RequestHead, id: string): Promise<Bucket> {
      const found = await store.findBucket(actOf(caller, request, 'bucket.get'), id)
      if (!found) throw noSuchBucket()
      return found
    },

    async create(caller: Caller, request: RequestHead, wish: BucketWish): Promise<{ name: string }> {
      const id = checkBucketName(wish.id ?? wish.name ?? '')
      const isPublic = wish.public ?? false
      if (isPublic && isUserBucket(id)) throw userBucketIsPrivate()
      if (wish.type !== undefined && wish.type !== 'STANDARD')
        throw storageRefusal('InvalidRequest', 'Buckets are of type STANDARD')
      const { fileSizeLimit = null, mimeTypes = null } = limitsFrom(caller.tenant, wish)
      await store.insertBucket(actOf(caller, request, 'bucket.create'), {
        id,
        name: wish.name === undefined ? id : checkBucketName(wish.name),
        isPublic,
        fileSizeLimit,
        mimeTypes,
      })
      return { name: id }
    },

    async update(caller: Caller, request: RequestHead, id: string, wish: BucketWish) {
      if (wish.public && isUserBucket(id)) throw userBucketIsPrivate()
      const change = { isPublic: wish.public ?? undefined, ...limitsFrom(caller.tenant, wish) }
      if (!(await store.updateBucket(actOf(caller, request, 'bucket.update'), id, change)))
        throw noSuchBucket()
      return { message: 'Successfully updated' }
    },

    async remove(caller: Caller, request: RequestHead, id: string) {
      if (!(await store.deleteBucket(actOf(caller, request, 'bucket.delete'), id))) throw noSuchBucket()
      return { message: 'Successfully deleted' }
    },

    async empty(caller: Caller, request: RequestHead, id: string) {
      const act = actOf(caller, request, 'bucket.empty')
      if (!(await store.findBucket(act, id))) throw noSuchBucket()
      // A trigger may put new ones in their place: it ends all the same.
      for (let left = await store.count(act, id); left > 0 && !request.signal.aborted; ) {
        const versions = await store.removeSome(act, id)
        await files.dropVersions(caller.tenant.id, versions)
        left = versions.length === 0 ? 0 : left - versions.length
      }
      return { message: 'Successfully emptied' }
    },
  }
}

function limitsFrom(tenant: Tenant, { file_size_limit, allowed_mime_types }: BucketWish) {
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
