// Files on their way in. Whether the caller may is asked of Postgres before the file is read, and again by the statement
// that makes the object visible.
import { Refusal } from '#src/kernel/errors.ts'
import { jsonReply, type RawRequest } from '#src/kernel/http/request.ts'
import type { Caller } from '#src/tenancy/databases.ts'
import { actOf, checkFolder } from './access.ts'
import type { Files } from './files.ts'
import { checkBucketName, checkKey, isTypeAllowed, isUserBucket } from './names.ts'
import { noSuchBucket, storageRefusal, tooLarge } from './refusals.ts'
import type { Act, BucketRow, NewObject, Store } from './store.ts'
import { type Upload, uploadFrom } from './upload-body.ts'

const maxDirectBytes = 50 * 1024 * 1024
const directHint = 'Larger files go by resumable uploads: POST upload/resumable.'
const folderMark = '.emptyFolderPlaceholder'

/** What a form may add to its file: boundaries, fields, user metadata. */
const formSlack = 2 * 1024 * 1024

export type Uploads = ReturnType<typeof createUploads>

export interface Described {
  contentType: string
  cacheControl: string
  userMetadata: object | null
  robots?: string | undefined
}

export function newObject(
  bucket: string,
  name: string,
  userId: string,
  file: { version: string; size: number },
  { contentType, cacheControl, userMetadata, robots }: Described,
): NewObject {
  return {
    id: crypto.randomUUID(),
    bucket,
    name,
    userId,
    version: file.version,
    metadata: {
      eTag: `"${file.version}"`,
      size: file.size,
      mimetype: contentType,
      cacheControl,
      lastModified: new Date().toISOString(),
      contentLength: file.size,
      httpStatusCode: 200,
      ...(robots !== undefined && { xRobotsTag: robots }),
    },
    userMetadata,
  }
}

export function checkType(bucket: BucketRow, name: string, contentType: string): void {
  const allowed = bucket.allowed_mime_types
  if (!allowed || allowed.length === 0 || name.endsWith(folderMark)) return
  if (!isTypeAllowed(contentType, allowed))
    throw storageRefusal('InvalidMimeType', `mime type ${contentType} is not supported`, {
      hint: `The bucket takes ${allowed.join(', ')}.`,
    })
}

/** As long as nothing is known of it. */
const undescribed: Described = {
  contentType: 'application/octet-stream',
  cacheControl: 'no-cache',
  userMetadata: null,
}

export function createUploads(store: Store, files: Files) {
  /** A bucket is made by the first upload to it where nothing is to be decided about it. */
  async function bucketFor({ tenant, role }: Caller, bucket: string): Promise<BucketRow> {
    const found = await store.bucketOf(tenant, bucket)
    if (found) return found
    if (role !== 'service_role' && !isUserBucket(bucket)) throw noSuchBucket()
    await store.ensureBucket(tenant, bucket)
    return (await store.bucketOf(tenant, bucket)) ?? noBucket()
  }

  const place = (act: Act, object: NewObject, isUpsert: boolean) =>
    isUpsert
      ? store.upsert(act, object)
      : store.insert(act, object).then(() => ({ id: object.id, replaced: null }))

  /** Does it, undoes it, and throws what it would have thrown. */
  async function rehearse(
    act: Act,
    bucket: string,
    name: string,
    isUpsert: boolean,
    described: Described = undescribed,
    size = 0,
  ): Promise<void> {
    if (act.asService) {
      if (!isUpsert && (await store.find(act, bucket, name)))
        throw storageRefusal('KeyAlreadyExists', 'The resource already exists')
      return
    }
    const object = newObject(bucket, name, act.caller.userId, { version: 'none', size }, described)
    await place({ ...act, facts: { ...act.facts, rollsBack: true } }, object, isUpsert)
  }

  /**
   * Makes a stored file visible. What Postgres refuses leaves nothing, unless the caller sees to that; what it did not
   * answer is found out later.
   */
  async function reveal(
    act: Act,
    object: NewObject,
    isUpsert: boolean,
    onRefused: (refusal: Refusal) => Promise<void> = () => discard(act, object),
  ): Promise<string> {
    try {
      const { id, replaced } = await place(act, object, isUpsert)
      if (replaced !== null && replaced !== object.version) files.dropSoon(act.caller.tenant.id, replaced)
      return id
    } catch (error) {
      if (error instanceof Refusal && error.status < 500) await onRefused(error)
      throw error
    }
  }

  const discard = ({ caller }: Act, { version, metadata }: NewObject) =>
    files.dropInPeace(caller.tenant.id, [{ version, size: metadata.size }])

  async function receive(
    act: Act,
    request: RawRequest,
    bucket: string,
    name: string,
    { isUpsert, owner }: { isUpsert: boolean; owner: string },
  ): Promise<{ id: string; key: string }> {
    checkBucketName(bucket)
    checkKey(name)
    if (!act.asService) checkFolder(act.caller, bucket, name)
    const found = act.asService
      ? ((await store.bucketOf(act.caller.tenant, bucket)) ?? noBucket())
      : await bucketFor(act.caller, bucket)
    const maxBytes = Math.min(found.file_size_limit ?? maxDirectBytes, maxDirectBytes)
    const hint = maxBytes === maxDirectBytes ? directHint : undefined
    // Where it is known that it does not fit, nothing else matters.
    if (Number(request.headers['content-length'] ?? 0) > maxBytes + formSlack) throw tooLarge(maxBytes, hint)
    const upload: Upload = await uploadFrom(request)
    const { announcedBytes: announced, isForm } = upload
    await rehearse(act, bucket, name, isUpsert, upload, announced)
    checkType(found, name, upload.contentType)
    const file = await files.receive({
      tenant: act.caller.tenant,
      bucket,
      source: upload.source,
      announcedBytes: isForm && (announced ?? 0) > maxBytes ? maxBytes : announced,
      maxBytes,
      tooLargeHint: hint,
    })
    try {
      await upload.ended()
    } catch (error) {
      await files.dropInPeace(act.caller.tenant.id, [file])
      throw error
    }
    const object = newObject(bucket, name, owner, file, upload)
    return { id: await reveal(act, object, isUpsert), key: `${bucket}/${name}` }
  }

  return {
    bucketFor,
    rehearse,
    reveal,
    receive,

    async upload(caller: Caller, request: RawRequest, bucket: string, name: string, isUpsert: boolean) {
      const act = actOf(caller, request, isUpsert ? 'object.upload_update' : 'object.upload')
      const { id, key } = await receive(act, request, bucket, name, { isUpsert, owner: caller.userId })
      return jsonReply(200, { Id: id, Key: key })
    },
  }
}

const noBucket = (): never => {
  throw noSuchBucket()
}
