// Objects that are there: read, listed, moved, copied, removed.
import type { Carrying } from '@plinth/contract/storage.ts'
import { Refusal } from '#src/kernel/errors.ts'
import { jsonReply, type RawReply, type RawRequest, type RequestHead } from '#src/kernel/http/request.ts'
import type { Caller } from '#src/tenancy/databases.ts'
import { actOf, checkFolder, checkListed } from './access.ts'
import { type ByteRange, fileHeaders, isUnchanged, modifiedAt, rangeOf, type Showing } from './download.ts'
import type { Files } from './files.ts'
import { type FolderWish, listFolder, listPage, type PageWish } from './listing.ts'
import { checkBucketName, checkKey, isKey } from './names.ts'
import { noSuchKey, tooLarge } from './refusals.ts'
import type { Act, ObjectRow, Store } from './store.ts'
import { checkContentType, checkHeader, metadataFromHeader } from './upload-body.ts'
import { checkType, type Described, newObject, type Uploads } from './uploads.ts'

export type Objects = ReturnType<typeof createObjects>

export function createObjects(store: Store, files: Files, uploads: Uploads) {
  const { bucketFor, rehearse, reveal } = uploads

  async function found(act: Act, bucket: string, name: string): Promise<ObjectRow> {
    checkBucketName(bucket)
    checkKey(name)
    if (!act.asService) checkFolder(act.caller, bucket, name)
    return (await store.find(act, bucket, name)) ?? missing()
  }

  async function foundPublic(act: Act, bucket: string, name: string): Promise<ObjectRow> {
    checkBucketName(bucket)
    checkKey(name)
    return (await store.findPublic(act, bucket, name)) ?? missing()
  }

  async function reply(
    request: RawRequest,
    tenantId: string,
    object: ObjectRow,
    showing: Showing,
  ): Promise<RawReply> {
    const headers = fileHeaders(object, showing)
    if (isUnchanged(object, showing.headers)) return { status: 304, headers, body: null }
    const size = sizeOf(object)
    const range = rangeOf(object, size, showing.headers)
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
    showing: Showing,
  ): Promise<RawReply> => ofCurrent(find, object => reply(request, tenantId, object, showing))

  async function copyOf(
    act: Act,
    source: ObjectRow,
    to: [string, string],
    wish: Carrying,
    request: RequestHead,
  ) {
    const { tenant, userId } = act.caller
    const isUpsert = request.headers['x-upsert'] === 'true'
    const target = await bucketFor(act.caller, to[0])
    const size = sizeOf(source)
    const described = copied(source, wish, request)
    checkType(target, to[1], described.contentType)
    const maxBytes = target.file_size_limit ?? Number.MAX_SAFE_INTEGER
    if (size > maxBytes) throw tooLarge(maxBytes)
    await rehearse(act, to[0], to[1], isUpsert, described, size)
    const file = await files.receive({
      tenant,
      bucket: to[0],
      source: files.read(tenant.id, { version: source.version, size }),
      announcedBytes: size,
      maxBytes,
    })
    const object = newObject(to[0], to[1], userId, file, described)
    return { id: await reveal(act, object, isUpsert), object }
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
      const version = await store.remove(actOf(caller, request, 'object.delete'), bucket, name)
      if (version === undefined) throw noSuchKey()
      await files.dropVersions(caller.tenant.id, [version])
    },

    async removeMany(caller: Caller, request: RequestHead, bucket: string, names: readonly string[]) {
      checkBucketName(bucket)
      // What no object can be called is missing like any other.
      const possible = names.filter(isKey)
      for (const name of possible) checkFolder(caller, bucket, name)
      const removed = await store.removeMany(actOf(caller, request, 'object.delete_many'), bucket, possible)
      await files.dropVersions(caller.tenant.id, removed.versions)
      return removed.objects
    },

    async listFolder(caller: Caller, request: RequestHead, bucket: string, wish: FolderWish) {
      checkListed(caller, bucket, wish.prefix)
      return listFolder(store, actOf(caller, request, 'object.list', { isReadOnly: true }), bucket, wish)
    },

    async listPage(caller: Caller, request: RequestHead, bucket: string, wish: PageWish) {
      checkListed(caller, bucket, wish.prefix)
      return listPage(store, actOf(caller, request, 'object.list_v2', { isReadOnly: true }), bucket, wish)
    },

    async move(caller: Caller, request: RequestHead, wish: Carrying) {
      const { from, to } = bothEnds(caller, wish)
      const act = actOf(caller, request, 'object.move')
      if (from[0] !== to[0]) {
        const target = await bucketFor(caller, to[0])
        const object = (await store.find(act, ...from)) ?? missing()
        checkType(target, to[1], object.metadata?.mimetype ?? '')
        if (sizeOf(object) > (target.file_size_limit ?? Number.POSITIVE_INFINITY))
          throw tooLarge(target.file_size_limit!)
      }
      const id = (await store.move(act, from, to)) ?? missing()
      return { message: 'Successfully moved', Id: id, Key: to[1] }
    },

    async copy(caller: Caller, request: RequestHead, wish: Carrying) {
      const { from, to } = bothEnds(caller, wish)
      const act = actOf(caller, request, 'object.copy')
      const find = async () => (await store.find(act, ...from)) ?? missing()
      const { id, object } = await ofCurrent(find, async source => {
        const letGo = files.hold(caller.tenant.id, source.version)
        return copyOf(act, source, to, wish, request).finally(letGo)
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
    metadata: user_metadata,
    last_modified: modifiedAt(object).toISOString(),
    created_at,
  })
}

const attempts = 5

/** What is found may be replaced before its bytes are read, and they be gone: then it is what it is now. */
export async function ofCurrent<T>(
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

/** As written by an upload; an owner can change it, and then the file does not open. */
export function sizeOf({ metadata }: ObjectRow): number {
  const size = metadata?.size
  return typeof size === 'number' && Number.isSafeInteger(size) && size >= 0 ? size : 0
}

function bothEnds(caller: Caller, wish: Carrying): { from: [string, string]; to: [string, string] } {
  const from: [string, string] = [checkBucketName(wish.bucketId), checkKey(wish.sourceKey)]
  const to: [string, string] = [
    checkBucketName(wish.destinationBucket || wish.bucketId),
    checkKey(wish.destinationKey),
  ]
  checkFolder(caller, ...from)
  checkFolder(caller, ...to)
  return { from, to }
}

function copied({ metadata, user_metadata }: ObjectRow, wish: Carrying, request: RequestHead): Described {
  const given = metadataFromHeader(request.headers['x-metadata'])
  const keeps = wish.copyMetadata !== false
  return {
    contentType: checkContentType(
      wish.metadata?.mimetype ?? metadata?.mimetype ?? 'application/octet-stream',
    ),
    cacheControl: checkHeader(
      'cacheControl',
      wish.metadata?.cacheControl ?? (keeps ? metadata?.cacheControl : undefined) ?? 'no-cache',
    ),
    userMetadata: given ?? (keeps ? user_metadata : null),
    robots: keeps ? metadata?.xRobotsTag : undefined,
  }
}
