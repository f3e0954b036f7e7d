// Direct uploads. Policies are checked by a dry run before the body is read, and again by the statement that publishes the
// object.
import { Refusal } from '#src/kernel/errors.ts'
import { jsonReply, type RawRequest } from '#src/kernel/http/request.ts'
import type { Caller } from '#src/tenancy/databases.ts'
import { checkFolder, contextOf } from './access.ts'
import { headBytes, typeOf, unknownType } from './file-type.ts'
import type { Files } from './files.ts'
import { checkBucketName, checkKey, isTypeAllowed, isUserBucket } from './names.ts'
import { noSuchBucket, storageRefusal, tooLarge } from './refusals.ts'
import type { BucketRow, NewObject, RequestContext, Store } from './store.ts'
import { peek, type Upload, uploadFrom } from './upload-body.ts'

const maxDirectBytes = 50 * 1024 * 1024
const directHint = 'Larger files go by resumable uploads: POST upload/resumable.'
const folderMark = '.emptyFolderPlaceholder'

/** Maximum size of what a form adds to its file: boundaries, fields, user metadata. */
const formSlack = 2 * 1024 * 1024

export type Uploads = ReturnType<typeof createUploads>

export interface ObjectAttributes {
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
  { contentType, cacheControl, userMetadata, robots }: ObjectAttributes,
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

/** Used for dry runs before the attributes are known. */
const defaultAttributes: ObjectAttributes = {
  contentType: unknownType,
  cacheControl: 'no-cache',
  userMetadata: null,
}

interface PublishOptions {
  /** Called if Postgres or the bucket rejects the object. By default it removes the file. */
  onRefused?: (refusal: Refusal) => Promise<void>
  /** The bucket, if it has not been asked yet whether it takes the type. */
  uncheckedIn?: BucketRow | undefined
}

/** Policies and the bucket decide on the type that is stored, so the first bytes are read before both. */
async function typed(upload: Upload): Promise<Upload & ObjectAttributes & { abandon(): Promise<void> }> {
  const { contentType } = upload
  if (contentType !== undefined) return { ...upload, contentType, abandon: async () => {} }
  const { head, ...rest } = await peek(upload.source, headBytes)
  return { ...upload, contentType: typeOf(head) ?? unknownType, ...rest }
}

export function createUploads(store: Store, files: Files) {
  /** The first upload by service_role, or to a `user-` bucket, creates the bucket. */
  async function bucketFor({ tenant, role }: Caller, bucket: string): Promise<BucketRow> {
    const found = await store.bucketOf(tenant, bucket)
    if (found) return found
    if (role !== 'service_role' && !isUserBucket(bucket)) throw noSuchBucket()
    await store.ensureBucket(tenant, bucket)
    return (await store.bucketOf(tenant, bucket)) ?? noBucket()
  }

  const place = (context: RequestContext, object: NewObject, isUpsert: boolean) =>
    isUpsert
      ? store.upsert(context, object)
      : store.insert(context, object).then(() => ({ id: object.id, replaced: null }))

  /** Inserts the object, rolls back, and throws the error the insert would cause. */
  async function dryRun(
    context: RequestContext,
    bucket: string,
    name: string,
    isUpsert: boolean,
    attributes: ObjectAttributes = defaultAttributes,
    size = 0,
  ): Promise<void> {
    if (context.asService) {
      if (!isUpsert && (await store.find(context, bucket, name)))
        throw storageRefusal('KeyAlreadyExists', 'The resource already exists')
      return
    }
    const object = newObject(bucket, name, context.caller.userId, { version: 'none', size }, attributes)
    await place({ ...context, facts: { ...context.facts, rollsBack: true } }, object, isUpsert)
  }

  /**
   * Inserts the object of a stored file, which makes it visible. If Postgres rejects the insert, the file is removed. If the
   * outcome is unknown, the sweeper removes the file unless the object exists.
   */
  async function publish(
    context: RequestContext,
    object: NewObject,
    isUpsert: boolean,
    { onRefused = () => discard(context, object), uncheckedIn }: PublishOptions = {},
  ): Promise<string> {
    try {
      if (uncheckedIn) checkType(uncheckedIn, object.name, object.metadata.mimetype)
      const { id, replaced } = await place(context, object, isUpsert)
      if (replaced !== null && replaced !== object.version)
        files.dropLater(context.caller.tenant.id, replaced)
      return id
    } catch (error) {
      if (error instanceof Refusal && error.status < 500) await onRefused(error)
      throw error
    }
  }

  const discard = ({ caller }: RequestContext, { version, metadata }: NewObject) =>
    files.tryDrop(caller.tenant.id, [{ version, size: metadata.size }])

  async function receive(
    context: RequestContext,
    request: RawRequest,
    bucket: string,
    name: string,
    { isUpsert, owner }: { isUpsert: boolean; owner: string },
  ): Promise<{ id: string; key: string }> {
    checkBucketName(bucket)
    checkKey(name)
    if (!context.asService) checkFolder(context.caller, bucket, name)
    const found = context.asService
      ? ((await store.bucketOf(context.caller.tenant, bucket)) ?? noBucket())
      : await bucketFor(context.caller, bucket)
    const maxBytes = Math.min(found.file_size_limit ?? maxDirectBytes, maxDirectBytes)
    const hint = maxBytes === maxDirectBytes ? directHint : undefined
    // Reject early if the declared size is too large.
    if (Number(request.headers['content-length'] ?? 0) > maxBytes + formSlack) throw tooLarge(maxBytes, hint)
    const upload = await typed(await uploadFrom(request))
    const { announcedBytes: announced, isForm } = upload
    const storeFile = async () => {
      await dryRun(context, bucket, name, isUpsert, upload, announced)
      checkType(found, name, upload.contentType)
      return files.receive({
        tenant: context.caller.tenant,
        bucket,
        source: upload.source,
        announcedBytes: isForm && (announced ?? 0) > maxBytes ? maxBytes : announced,
        maxBytes,
        tooLargeHint: hint,
      })
    }
    const file = await storeFile().finally(upload.abandon)
    try {
      await upload.ended()
    } catch (error) {
      await files.tryDrop(context.caller.tenant.id, [file])
      throw error
    }
    const object = newObject(bucket, name, owner, file, upload)
    return { id: await publish(context, object, isUpsert), key: `${bucket}/${name}` }
  }

  return {
    bucketFor,
    dryRun,
    publish,
    receive,

    async upload(caller: Caller, request: RawRequest, bucket: string, name: string, isUpsert: boolean) {
      const context = contextOf(caller, request, isUpsert ? 'object.upload_update' : 'object.upload')
      const { id, key } = await receive(context, request, bucket, name, { isUpsert, owner: caller.userId })
      return jsonReply(200, { Id: id, Key: key })
    },
  }
}

const noBucket = (): never => {
  throw noSuchBucket()
}
