// Resumable uploads (TUS 1.0.0): create, read, append, delete. Every request checks in Postgres that the caller may upload
// the object.
import { readAll } from '#src/kernel/byte-source.ts'
import { Refusal } from '#src/kernel/errors.ts'
import type { RawReply, RawRequest } from '#src/kernel/http/request.ts'
import type { Database } from '#src/kernel/postgres/database.ts'
import { isUuid } from '#src/kernel/uuid.ts'
import type { Caller } from '#src/tenancy/databases.ts'
import type { Tenant } from '#src/tenancy/directory.ts'
import { checkFolder, contextOf } from './access.ts'
import { headBytes, typeOf, unknownType } from './file-type.ts'
import type { Files } from './files.ts'
import { checkBucketName, checkKey } from './names.ts'
import { noSuchBucket, storageRefusal, tooLarge } from './refusals.ts'
import { readGrant, type UploadGrant } from './signing.ts'
import type { BucketRow, NewObject, RequestContext, Store } from './store.ts'
import * as tus from './tus.ts'
import { createAppend, longerThanDeclared, offsetOf } from './upload-append.ts'
import type { UploadRow } from './upload-store.ts'
import * as uploads from './upload-store.ts'
import { checkType, newObject, type ObjectAttributes, type Uploads } from './uploads.ts'

const expiryMs = 24 * 3_600_000
/** Time for requests that began before the upload expired. */
const graceMs = 3_600_000

/** `plain` requests have a credential, `signed` ones a token in x-signature. */
export type Kind = 'plain' | 'signed'

export type Resumable = ReturnType<typeof createResumable>

interface ResumableDeps {
  control: Database
  store: Store
  files: Files
  objects: Uploads
  baseUrl(): string
}

/** How the request is authorized. */
interface Access {
  context: RequestContext
  grant: UploadGrant | undefined
}

export function createResumable(deps: ResumableDeps) {
  const { control, store, files, objects, baseUrl } = deps
  const append = createAppend(control, files)

  async function bucketOf({ context, grant }: Access, bucket: string): Promise<BucketRow> {
    if (!grant) return objects.bucketFor(context.caller, bucket)
    const found = await store.bucketOf(context.caller.tenant, bucket)
    if (!found) throw noSuchBucket()
    return found
  }

  /** Finds the upload if the caller may use it. Termination is allowed even if the target name is taken by now. */
  async function find(caller: Caller, request: RawRequest, id: string, kind: Kind, isTermination = false) {
    tus.checkVersion(request.headers)
    const upload = isUuid(id) && (await uploads.findUpload(control, caller.tenant.id, id.toLowerCase()))
    if (!upload) throw noUpload()
    return { upload, access: await allow(caller, request, upload, kind, isTermination) }
  }

  async function allow(
    caller: Caller,
    request: RawRequest,
    upload: UploadRow,
    kind: Kind,
    isTermination: boolean,
  ): Promise<Access> {
    const access = accessOf(caller, request, kind, upload.bucket, upload.name)
    if (access.grant && access.grant.upsert !== upload.is_upsert)
      throw storageRefusal('InvalidSignature', 'The token is for another upload')
    if (upload.is_finished || (await isPublished(caller, upload))) return access
    try {
      const { bucket, name, is_upsert, length } = upload
      await objects.dryRun(access.context, bucket, name, is_upsert, attributesOf(upload), length ?? 0)
    } catch (error) {
      // A concurrent request may have finished it.
      if (!(await isPublished(caller, upload)) && !(isTermination && isTargetTakenOrGone(error))) throw error
    }
    return access
  }

  /** True if the object of this upload exists. A process may have crashed between publishing it and marking the upload. */
  async function isPublished({ tenant }: Caller, upload: UploadRow): Promise<boolean> {
    if (upload.length === null) return false
    const named = await store.namedVersions(tenant, [upload.version])
    if (!named.has(upload.version)) return false
    await uploads.markFinished(control, upload.id)
    upload.is_finished = true
    return true
  }

  /** Appends the body. After the last byte, publishes the object. */
  async function receive(
    { context, grant }: Access,
    request: RawRequest,
    upload: UploadRow,
    holder: string,
    maxBytes: number,
  ) {
    const { tenant, userId } = context.caller
    if (!upload.is_stored) {
      await uploads.deleteUpload(control, upload.id)
      throw noUpload()
    }
    const size = await append(tenant, request, upload, holder, maxBytes)
    if (size !== upload.length) return size
    const object = await objectOf(files, tenant, upload, size, grant ? (grant.owner ?? '') : userId)
    await objects.publish(context, object, upload.is_upsert, {
      uncheckedIn: isTyped(upload) ? undefined : await bucketOf({ context, grant }, upload.bucket),
      onRefused: async ({ status }) => {
        // After a 429 the client can retry. A version that an object references must stay.
        if (status === 429 || (await store.namedVersions(tenant, [upload.version])).size > 0) return
        await uploads.deleteUpload(control, upload.id)
        await files.tryDrop(tenant.id, [{ version: upload.version, size }])
      },
    })
    await uploads.markFinished(control, upload.id)
    upload.is_finished = true
    return size
  }

  /** Reads a deferred Upload-Length. Returns the maximum final size. */
  async function resolveLength(access: Access, request: RawRequest, upload: UploadRow, holder: string) {
    if (upload.length !== null) return upload.length
    const maxBytes = maxLength(await bucketOf(access, upload.bucket))
    if (request.headers['upload-length'] === undefined) return maxBytes
    const length = tus.wholeNumber('Upload-Length', request.headers['upload-length'])
    if (length > maxBytes) throw tooLarge(maxBytes)
    if (length < offsetOf(upload)) throw longerThanDeclared(length)
    await files.resize(access.context.caller.tenant, upload.bucket, { version: upload.version, size: length })
    await uploads.setLength(control, upload.id, holder, length)
    upload.length = length
    return length
  }

  return {
    async create(caller: Caller, request: RawRequest, kind: Kind): Promise<RawReply> {
      tus.checkVersion(request.headers)
      const metadata = tus.uploadMetadataFrom(request.headers)
      const length = tus.lengthFrom(request.headers)
      checkBucketName(metadata.bucket)
      checkKey(metadata.name)
      const access = accessOf(caller, request, kind, metadata.bucket, metadata.name)
      const bucket = await bucketOf(access, metadata.bucket)
      if ((length ?? 0) > maxLength(bucket)) throw tooLarge(maxLength(bucket))
      if (metadata.contentType !== undefined) checkType(bucket, metadata.name, metadata.contentType)
      const isUpsert = access.grant ? access.grant.upsert : request.headers['x-upsert'] === 'true'
      const attributes = { ...metadata, contentType: metadata.contentType ?? unknownType }
      await objects.dryRun(access.context, metadata.bucket, metadata.name, isUpsert, attributes, length ?? 0)
      const { id, expiresAt } = await begin(deps, caller.tenant, attributes, length, isUpsert)
      const location = `${originOf(request, baseUrl())}${request.path.replace(/\/+$/, '')}/${id}`
      const headers = { ...tus.tusHeaders, ...expiryHeader(expiresAt), location }
      if (length !== 0 && !tus.isChunk(request.headers)) return { status: 201, headers, body: null }
      const offset = await uploads.withLease(control, caller.tenant.id, id, (upload, holder) =>
        receive(access, request, upload, holder, maxLength(bucket)),
      )
      return { status: 201, headers: { ...headers, ...offsetHeaders(offset, length) }, body: null }
    },

    async read(caller: Caller, request: RawRequest, id: string, kind: Kind): Promise<RawReply> {
      const { upload } = await find(caller, request, id, kind)
      const length =
        upload.length === null ? { 'upload-defer-length': '1' } : { 'upload-length': String(upload.length) }
      const headers = {
        ...tus.tusHeaders,
        'upload-offset': String(offsetOf(upload)),
        ...length,
        ...(upload.upload_metadata && { 'upload-metadata': upload.upload_metadata }),
        ...expiryHeader(new Date(upload.expires_at)),
      }
      return { status: 200, headers, body: null }
    },

    async append(caller: Caller, request: RawRequest, given: string, kind: Kind): Promise<RawReply> {
      tus.checkVersion(request.headers)
      if (!tus.isChunk(request.headers))
        throw new Refusal('unsupported_media_type', `Content-Type must be ${tus.chunkType}`)
      const offset = tus.offsetFrom(request.headers)
      const { upload: found, access } = await find(caller, request, given, kind)
      return uploads.withLease(control, caller.tenant.id, found.id, async (upload, holder) => {
        if (offset !== offsetOf(upload) || upload.is_finished) throw wrongOffset(offsetOf(upload))
        const maxBytes = await resolveLength(access, request, upload, holder)
        const size = await receive(access, request, upload, holder, maxBytes)
        const headers = {
          ...tus.tusHeaders,
          ...expiryHeader(new Date(upload.expires_at)),
          ...offsetHeaders(size, upload.length),
        }
        return { status: 204, headers, body: null }
      })
    },

    async remove(caller: Caller, request: RawRequest, given: string, kind: Kind): Promise<RawReply> {
      const { upload: found } = await find(caller, request, given, kind, true)
      return uploads.withLease(control, caller.tenant.id, found.id, async upload => {
        if (upload.is_finished)
          throw storageRefusal('InvalidRequest', 'The upload is complete; delete the object instead')
        await uploads.deleteUpload(control, upload.id)
        await files.dropVersions(caller.tenant.id, [upload.version])
        return { status: 204, headers: tus.tusHeaders, body: null }
      })
    },
  }
}

/** Reserves quota for the whole length, so that an upload that was accepted can be finished. */
async function begin(
  { control, files }: ResumableDeps,
  tenant: Tenant,
  metadata: tus.UploadMetadata & ObjectAttributes,
  length: number | null,
  isUpsert: boolean,
) {
  const version = crypto.randomUUID()
  const expiresAt = new Date(Date.now() + expiryMs)
  const until = new Date(expiresAt.getTime() + graceMs)
  const upload = {
    project: tenant.id,
    id: crypto.randomUUID(),
    version,
    bucket: metadata.bucket,
    name: metadata.name,
    length,
    content_type: metadata.contentType,
    cache_control: metadata.cacheControl,
    user_metadata: metadata.userMetadata,
    upload_metadata: metadata.metadata,
    is_upsert: isUpsert,
    expiresAt,
  }
  // Reserve the length after the upload row exists. A crash in between would otherwise leave reserved bytes for an upload
  // that no client knows.
  await files.reserve(tenant, metadata.bucket, { version, size: 0 }, until)
  try {
    await uploads.insertUpload(control, upload)
    if (length) await files.resize(tenant, metadata.bucket, { version, size: length })
  } catch (error) {
    await uploads.deleteUpload(control, upload.id)
    await files.tryDrop(tenant.id, [{ version, size: 0 }])
    throw error
  }
  return upload
}

function accessOf(caller: Caller, request: RawRequest, kind: Kind, bucket: string, name: string): Access {
  const context = contextOf(caller, request, 'object.upload')
  if (kind === 'plain') {
    checkFolder(caller, bucket, name)
    return { context, grant: undefined }
  }
  const token = request.headers['x-signature']
  const given = typeof token === 'string' ? token : undefined
  const grant = readGrant(caller.tenant, given, 'upload', `${bucket}/${name}`)
  return { context: { ...context, asService: true }, grant }
}

const attributesOf = (upload: UploadRow): ObjectAttributes => ({
  contentType: upload.content_type,
  cacheControl: upload.cache_control,
  userMetadata: upload.user_metadata,
})

/** If the client sent no type, the first of the stored bytes decide. */
async function objectOf(
  files: Files,
  tenant: Tenant,
  upload: UploadRow,
  size: number,
  owner: string,
): Promise<NewObject> {
  const file = { version: upload.version, size }
  const attributes = attributesOf(upload)
  if (!isTyped(upload)) {
    const head = await files.open(tenant.id, file, 0, Math.min(size, headBytes))
    attributes.contentType = typeOf(await readAll(head)) ?? unknownType
  }
  return newObject(upload.bucket, upload.name, owner, file, attributes)
}

const isTyped = (upload: UploadRow) => tus.hasContentType(upload.upload_metadata)

const maxLength = (bucket: BucketRow) => bucket.file_size_limit ?? Number.MAX_SAFE_INTEGER

const expiryHeader = (at: Date) => ({ 'upload-expires': at.toUTCString() })
const offsetHeaders = (offset: number, length: number | null) => ({
  'upload-offset': String(offset),
  ...(offset === length && { 'tus-complete': '1' }),
})

/** Another object has the name by now, or the bucket was deleted. */
const isTargetTakenOrGone = (error: unknown) =>
  error instanceof Refusal && (error.code === 'KeyAlreadyExists' || error.code === 'NoSuchBucket')

const noUpload = () =>
  storageRefusal('NoSuchUpload', 'There is no such upload; it may have expired, begin a new one')
const wrongOffset = (offset: number) =>
  storageRefusal('OffsetConflict', `The upload stands at ${offset}; go on from there`, {
    headers: { 'upload-offset': String(offset), 'tus-resumable': tus.tusVersion },
  })

/** The public origin if the client used it. With another host name, a relative Location works. */
function originOf({ headers }: RawRequest, baseUrl: string): string {
  const { host, origin } = new URL(baseUrl)
  return headers.host === host ? origin : ''
}
