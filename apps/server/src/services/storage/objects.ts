// Reads, lists, moves, copies and removes objects.
import type { MoveOrCopy } from '@plinth/contract/storage.ts'
import { Refusal } from '#src/kernel/errors.ts'
import { jsonReply, type RawReply, type RawRequest, type RequestHead } from '#src/kernel/http/request.ts'
import type { Caller } from '#src/tenancy/databases.ts'
import { checkFolder, checkListed, contextOf } from './access.ts'
import {
  type ByteRange,
  type DownloadOptions,
  fileHeaders,
  isUnchanged,
  modifiedAt,
  rangeOf,
} from './download.ts'
import type { Files } from './files.ts'
import { type FolderListOptions, listFolder, listPage, type PageListOptions } from './listing.ts'
import { checkBucketName, checkKey, isKey } from './names.ts'
import { noSuchKey, tooLarge } from './refusals.ts'
import type { ObjectRow, RequestContext, Store } from './store.ts'
import { checkContentType, checkHeader, metadataFromHeader } from './upload-body.ts'
import { checkType, newObject, type ObjectAttributes, type Uploads } from './uploads.ts'

export type Objects = ReturnType<typeof createObjects>

export function createObjects(store: Store, files: Files, uploads: Uploads) {
  const { bucketFor, dryRun, publish } = uploads

  async function found(context: RequestContext, bucket: string, name: string): Promise<ObjectRow> {
    checkBucketName(bucket)
    checkKey(name)
    if (!context.asService) checkFolder(context.caller, bucket, name)
    return (await store.find(context, bucket, name)) ?? missing()
  }

  async function foundPublic(context: RequestContext, bucket: string, name: string): Promise<ObjectRow> {
    checkBucketName(bucket)
    checkKey(name)
    return (await store.findPublic(context, bucket, name)) ?? missing()
  }

  async function reply(
    request: RawRequest,
    tenantId: string,
    object: ObjectRow,
    options: DownloadOptions,
  ): Promise<RawReply> {
    const headers = fileHeaders(object, options)
    if (isUnchanged(object, options.headers)) return { status: 304, headers, body: null }
    const size = sizeOf(object)
    const range = rangeOf(object, size, options.headers)
    const { from, to }: ByteRange = range ?? { from: 0, to: size }
    const sent = {
      ...headers,
      'content-length': String(to - from),
      ...(range && { 'content-range': `bytes ${from}-${to - 1}/${size}` }),
    }
    const status = range ? 206 : 200
    if (request.method === 'HEAD') return { status, headers: sent, body: null }
    const body = await files.open(tenantId, { version: object.version, size }, from, to)
    return { status, headers: sent, body }
  }

  const show = (
    request: RawRequest,
    tenantId: string,
    find: () => Promise<ObjectRow>,
    options: DownloadOptions,
  ): Promise<RawReply> => retryIfReplaced(find, object => reply(request, tenantId, object, options))

  async function copyOf(
    context: RequestContext,
    source: ObjectRow,
    to: [string, string],
    input: MoveOrCopy,
    request: RequestHead,
  ) {
    const { tenant, userId } = context.caller
    const isUpsert = request.headers['x-upsert'] === 'true'
    const target = await bucketFor(context.caller, to[0])
    const size = sizeOf(source)
    const attributes = copiedAttributes(source, input, request)
    checkType(target, to[1], attributes.contentType)
    const maxBytes = target.file_size_limit ?? Number.MAX_SAFE_INTEGER
    if (size > maxBytes) throw tooLarge(maxBytes)
    await dryRun(context, to[0], to[1], isUpsert, attributes, size)
    const file = await files.receive({
      tenant,
      bucket: to[0],
      source: files.read(tenant.id, { version: source.version, size }),
      announcedBytes: size,
      maxBytes,
    })
    const object = newObject(to[0], to[1], userId, file, attributes)
    return { id: await publish(context, object, isUpsert), object }
  }

  return {
    found,
    foundPublic,
    show,

    info,

    async remove(caller: Caller, request: RequestHead, bucket: string, name: string): Promise<void> {
      checkBucketName(bucket)
      checkKey(name)
      checkFolder(caller, bucket, name)
      const version = await store.remove(contextOf(caller, request, 'object.delete'), bucket, name)
      if (version === undefined) throw noSuchKey()
      await files.dropVersions(caller.tenant.id, [version])
    },

    async removeMany(caller: Caller, request: RequestHead, bucket: string, names: readonly string[]) {
      checkBucketName(bucket)
      // An invalid name is treated like a missing object.
      const possible = names.filter(isKey)
      for (const name of possible) checkFolder(caller, bucket, name)
      const removed = await store.removeMany(
        contextOf(caller, request, 'object.delete_many'),
        bucket,
        possible,
      )
      await files.dropVersions(caller.tenant.id, removed.versions)
      return removed.objects
    },

    async listFolder(caller: Caller, request: RequestHead, bucket: string, options: FolderListOptions) {
      checkListed(caller, bucket, options.prefix)
      return listFolder(
        store,
        contextOf(caller, request, 'object.list', { isReadOnly: true }),
        bucket,
        options,
      )
    },

    async listPage(caller: Caller, request: RequestHead, bucket: string, options: PageListOptions) {
      checkListed(caller, bucket, options.prefix)
      return listPage(
        store,
        contextOf(caller, request, 'object.list_v2', { isReadOnly: true }),
        bucket,
        options,
      )
    },

    async move(caller: Caller, request: RequestHead, input: MoveOrCopy) {
      const { from, to } = sourceAndTarget(caller, input)
      const context = contextOf(caller, request, 'object.move')
      if (from[0] !== to[0]) {
        const target = await bucketFor(caller, to[0])
        const object = (await store.find(context, ...from)) ?? missing()
        checkType(target, to[1], object.metadata?.mimetype ?? '')
        if (sizeOf(object) > (target.file_size_limit ?? Number.POSITIVE_INFINITY))
          throw tooLarge(target.file_size_limit!)
      }
      const id = (await store.move(context, from, to)) ?? missing()
      return { message: 'Successfully moved', Id: id, Key: to[1] }
    },

    async copy(caller: Caller, request: RequestHead, input: MoveOrCopy) {
      const { from, to } = sourceAndTarget(caller, input)
      const context = contextOf(caller, request, 'object.copy')
      const find = async () => (await store.find(context, ...from)) ?? missing()
      const { id, object } = await retryIfReplaced(find, async source => {
        const unpin = files.pin(caller.tenant.id, source.version)
        return copyOf(context, source, to, input, request).finally(unpin)
      })
      const { metadata, userMetadata, version } = object
      return {
        Id: id,
        Key: `${to[0]}/${to[1]}`,
        id,
        name: to[1],
        bucket_id: to[0],
        version,
        metadata,
        user_metadata: userMetadata,
      }
    },
  }
}

async function info(object: ObjectRow): Promise<RawReply> {
  const { id, name, version, bucket_id, metadata, user_metadata, created_at } = object
  return jsonReply(200, {
    id,
    name,
    version,
    bucket_id,
    size: metadata?.size ?? 0,
    content_type: metadata?.mimetype ?? null,
    cache_control: metadata?.cacheControl ?? null,
    etag: `"${version}"`,
    metadata: user_metadata ?? {},
    last_modified: modifiedAt(object).toISOString(),
    created_at,
  })
}

const attempts = 5

/** An upload may replace the object and remove its bytes before they are read. Then retry with the new version. */
export async function retryIfReplaced<T>(
  find: () => Promise<ObjectRow>,
  use: (object: ObjectRow) => Promise<T>,
): Promise<T> {
  let object = await find()
  for (let attempt = 1; ; attempt++)
    try {
      return await use(object)
    } catch (error) {
      if (!(error instanceof Refusal && error.code === 'FileDamaged') || attempt === attempts) throw error
      const now = await find()
      if (now.version === object.version) throw error
      object = now
    }
}

const missing = (): never => {
  throw noSuchKey()
}

/** The project owner can change this value by SQL. With a wrong size, decryption fails. */
export function sizeOf({ metadata }: ObjectRow): number {
  const size = metadata?.size
  return typeof size === 'number' && Number.isSafeInteger(size) && size >= 0 ? size : 0
}

function sourceAndTarget(
  caller: Caller,
  input: MoveOrCopy,
): { from: [string, string]; to: [string, string] } {
  const from: [string, string] = [checkBucketName(input.bucketId), checkKey(input.sourceKey)]
  const to: [string, string] = [
    checkBucketName(input.destinationBucket || input.bucketId),
    checkKey(input.destinationKey),
  ]
  checkFolder(caller, ...from)
  checkFolder(caller, ...to)
  return { from, to }
}

function copiedAttributes(
  { metadata, user_metadata }: ObjectRow,
  input: MoveOrCopy,
  request: RequestHead,
): ObjectAttributes {
  const given = metadataFromHeader(request.headers['x-metadata'])
  const keeps = input.copyMetadata !== false
  return {
    contentType: checkContentType(
      input.metadata?.mimetype ?? metadata?.mimetype ?? 'application/octet-stream',
    ),
    cacheControl: checkHeader(
      'cacheControl',
      input.metadata?.cacheControl ?? (keeps ? metadata?.cacheControl : undefined) ?? 'no-cache',
    ),
    userMetadata: given ?? (keeps ? user_metadata : null),
    robots: keeps ? metadata?.xRobotsTag : undefined,
  }
}
