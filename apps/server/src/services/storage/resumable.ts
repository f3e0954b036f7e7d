// Resumable uploads (TUS 1.0.0): begun, asked about, continued, given up. Whoever may upload the object may work on its
// upload; that is asked of Postgres each time.
import { Refusal } from '#src/kernel/errors.ts'
import type { RawReply, RawRequest } from '#src/kernel/http/request.ts'
import type { Database } from '#src/kernel/postgres/database.ts'
import { isUuid } from '#src/kernel/uuid.ts'
import type { Caller } from '#src/tenancy/databases.ts'
import type { Tenant } from '#src/tenancy/directory.ts'
import { actOf, checkFolder } from './access.ts'
import { beyond, createAppend, offsetOf } from './appending.ts'
import type { Files } from './files.ts'
import { checkBucketName, checkKey } from './names.ts'
import { noSuchBucket, storageRefusal, tooLarge } from './refusals.ts'
import { readGrant, type UploadGrant } from './signing.ts'
import type { Act, BucketRow, NewObject, Store } from './store.ts'
import * as tus from './tus.ts'
import type { UploadRow } from './upload-store.ts'
import * as uploads from './upload-store.ts'
import { checkType, type Described, newObject, type Uploads } from './uploads.ts'

const expiryMs = 24 * 3_600_000
/** What a request that has begun before the end may still need. */
const graceMs = 3_600_000

/** With a credential, or with a token in x-signature. */
export type Kind = 'plain' | 'signed'

export type Resumable = ReturnType<typeof createResumable>

interface ResumableDeps {
  control: Database
  store: Store
  files: Files
  objects: Uploads
  baseUrl(): string
}

/** By which right something is done. */
interface Way {
  act: Act
  grant: UploadGrant | undefined
}

export function createResumable(deps: ResumableDeps) {
  const { control, store, files, objects, baseUrl } = deps
  const append = createAppend(control, files)

  async function bucketOf({ act, grant }: Way, bucket: string): Promise<BucketRow> {
    if (!grant) return objects.bucketFor(act.caller, bucket)
    const found = await store.bucketOf(act.caller.tenant, bucket)
    if (!found) throw noSuchBucket()
    return found
  }

  /** The upload, if the caller may work on it; to give it up, nothing need be free for it any more. */
  async function find(caller: Caller, request: RawRequest, id: string, kind: Kind, isGivenUp = false) {
    tus.checkVersion(request.headers)
    const upload = isUuid(id) && (await uploads.findUpload(control, caller.tenant.id, id.toLowerCase()))
    if (!upload) throw noUpload()
    return { upload, way: await allow(caller, request, upload, kind, isGivenUp) }
  }

  async function allow(
    caller: Caller,
    request: RawRequest,
    upload: UploadRow,
    kind: Kind,
    isGivenUp: boolean,
  ): Promise<Way> {
    const way = wayOf(caller, request, kind, upload.bucket, upload.name)
    if (way.grant && way.grant.upsert !== upload.is_upsert)
      throw storageRefusal('InvalidSignature', 'The token is for another upload')
    if (upload.is_finished || (await isDone(caller, upload))) return way
    try {
      const { bucket, name, is_upsert, length } = upload
      await objects.rehearse(way.act, bucket, name, is_upsert, describedBy(upload), length ?? 0)
    } catch (error) {
      // It may have been finished meanwhile.
      if (!(await isDone(caller, upload)) && !(isGivenUp && hasNoPlace(error))) throw error
    }
    return way
  }

  /** The object is there, and it is this upload's: whoever finished it died before noting so. */
  async function isDone({ tenant }: Caller, upload: UploadRow): Promise<boolean> {
    if (upload.length === null) return false
    const named = await store.namedVersions(tenant, [upload.version])
    if (!named.has(upload.version)) return false
    await uploads.markFinished(control, upload.id)
    upload.is_finished = true
    return true
  }

  /** Appends the body, and makes the object visible when that was the last of it. */
  async function receive(
    { act, grant }: Way,
    request: RawRequest,
    upload: UploadRow,
    holder: string,
    maxBytes: number,
  ) {
    const { tenant, userId } = act.caller
    if ((await files.find(tenant.id, upload.version)) === undefined) {
      await uploads.deleteUpload(control, upload.id)
      throw noUpload()
    }
    const size = await append(tenant, request, upload, holder, maxBytes)
    if (size !== upload.length) return size
    const object = objectOf(upload, size, grant ? (grant.owner ?? '') : userId)
    await objects.reveal(act, object, upload.is_upsert, async ({ status }) => {
      // Too many at once is no verdict: it can be finished later. And what an object names is somebody's.
      if (status === 429 || (await store.namedVersions(tenant, [upload.version])).size > 0) return
      await uploads.deleteUpload(control, upload.id)
      await files.dropInPeace(tenant.id, [{ version: upload.version, size }])
    })
    await uploads.markFinished(control, upload.id)
    return size
  }

  /** Of an upload that was begun without a length it may be told now. Answers how long it can be in the end. */
  async function learnLength(way: Way, request: RawRequest, upload: UploadRow, holder: string) {
    if (upload.length !== null) return upload.length
    const most = maxLength(await bucketOf(way, upload.bucket))
    if (request.headers['upload-length'] === undefined) return most
    const length = tus.wholeNumber('Upload-Length', request.headers['upload-length'])
    if (length > most) throw tooLarge(most)
    if (length < offsetOf(upload)) throw beyond(length)
    await files.resize(way.act.caller.tenant, upload.bucket, { version: upload.version, size: length })
    await uploads.setLength(control, upload.id, holder, length)
    upload.length = length
    return length
  }

  return {
    async create(caller: Caller, request: RawRequest, kind: Kind): Promise<RawReply> {
      tus.checkVersion(request.headers)
      const wish = tus.wishFrom(request.headers)
      const length = tus.lengthFrom(request.headers)
      checkBucketName(wish.bucket)
      checkKey(wish.name)
      const way = wayOf(caller, request, kind, wish.bucket, wish.name)
      const bucket = await bucketOf(way, wish.bucket)
      if ((length ?? 0) > maxLength(bucket)) throw tooLarge(maxLength(bucket))
      checkType(bucket, wish.name, wish.contentType)
      const isUpsert = way.grant ? way.grant.upsert : request.headers['x-upsert'] === 'true'
      await objects.rehearse(way.act, wish.bucket, wish.name, isUpsert, wish, length ?? 0)
      const { id, expiresAt } = await begin(deps, caller.tenant, wish, length, isUpsert)
      const location = `${originOf(request, baseUrl())}${request.path.replace(/\/+$/, '')}/${id}`
      const headers = { ...tus.tusHeaders, ...expiry(expiresAt), location }
      if (length !== 0 && !tus.isChunk(request.headers)) return { status: 201, headers, body: null }
      const offset = await uploads.whileHeld(control, caller.tenant.id, id, (upload, holder) =>
        receive(way, request, upload, holder, maxLength(bucket)),
      )
      return { status: 201, headers: { ...headers, ...standing(offset, length) }, body: null }
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
        ...expiry(new Date(upload.expires_at)),
      }
      return { status: 200, headers, body: null }
    },

    async append(caller: Caller, request: RawRequest, given: string, kind: Kind): Promise<RawReply> {
      tus.checkVersion(request.headers)
      if (!tus.isChunk(request.headers))
        throw new Refusal('unsupported_media_type', `Content-Type must be ${tus.chunkType}`)
      const offset = tus.offsetFrom(request.headers)
      const { upload: found, way } = await find(caller, request, given, kind)
      return uploads.whileHeld(control, caller.tenant.id, found.id, async (upload, holder) => {
        if (offset !== offsetOf(upload) || upload.is_finished) throw wrongOffset(offsetOf(upload))
        const most = await learnLength(way, request, upload, holder)
        const size = await receive(way, request, upload, holder, most)
        const headers = {
          ...tus.tusHeaders,
          ...expiry(new Date(upload.expires_at)),
          ...standing(size, upload.length),
        }
        return { status: 204, headers, body: null }
      })
    },

    async remove(caller: Caller, request: RawRequest, given: string, kind: Kind): Promise<RawReply> {
      const { upload: found } = await find(caller, request, given, kind, true)
      return uploads.whileHeld(control, caller.tenant.id, found.id, async upload => {
        if (upload.is_finished)
          throw storageRefusal('InvalidRequest', 'The upload is complete; delete the object instead')
        await uploads.deleteUpload(control, upload.id)
        await files.dropVersions(caller.tenant.id, [upload.version])
        return { status: 204, headers: tus.tusHeaders, body: null }
      })
    },
  }
}

/** Room is taken for all of it, so that whoever begins can finish. */
async function begin(
  { control, files }: ResumableDeps,
  tenant: Tenant,
  wish: tus.UploadWish,
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
    bucket: wish.bucket,
    name: wish.name,
    length,
    content_type: wish.contentType,
    cache_control: wish.cacheControl,
    user_metadata: wish.userMetadata,
    upload_metadata: wish.metadata,
    is_upsert: isUpsert,
    expiresAt,
  }
  // Room is taken last: after a crash, room for an upload that nobody has heard of would stay taken.
  await files.take(tenant, wish.bucket, { version, size: 0 }, until)
  try {
    await uploads.insertUpload(control, upload)
    if (length) await files.resize(tenant, wish.bucket, { version, size: length })
  } catch (error) {
    await uploads.deleteUpload(control, upload.id)
    await files.dropInPeace(tenant.id, [{ version, size: 0 }])
    throw error
  }
  return upload
}

function wayOf(caller: Caller, request: RawRequest, kind: Kind, bucket: string, name: string): Way {
  const act = actOf(caller, request, 'object.upload')
  if (kind === 'plain') {
    checkFolder(caller, bucket, name)
    return { act, grant: undefined }
  }
  const token = request.headers['x-signature']
  const given = typeof token === 'string' ? token : undefined
  const grant = readGrant(caller.tenant, given, 'upload', `${bucket}/${name}`)
  return { act: { ...act, asService: true }, grant }
}

const describedBy = (upload: UploadRow): Described => ({
  contentType: upload.content_type,
  cacheControl: upload.cache_control,
  userMetadata: upload.user_metadata,
})

const objectOf = (upload: UploadRow, size: number, owner: string): NewObject =>
  newObject(upload.bucket, upload.name, owner, { version: upload.version, size }, describedBy(upload))

const maxLength = (bucket: BucketRow) => bucket.file_size_limit ?? Number.MAX_SAFE_INTEGER

const expiry = (at: Date) => ({ 'upload-expires': at.toUTCString() })
const standing = (offset: number, length: number | null) => ({
  'upload-offset': String(offset),
  ...(offset === length && { 'tus-complete': '1' }),
})

/** The name was taken meanwhile, or the bucket is gone. */
const hasNoPlace = (error: unknown) =>
  error instanceof Refusal && (error.code === 'KeyAlreadyExists' || error.code === 'NoSuchBucket')

const noUpload = () =>
  storageRefusal('NoSuchUpload', 'There is no such upload; it may have expired, begin a new one')
const wrongOffset = (offset: number) =>
  storageRefusal('OffsetConflict', `The upload stands at ${offset}; go on from there`, {
    headers: { 'upload-offset': String(offset), 'tus-resumable': tus.tusVersion },
  })

/** As the client sees the platform; of another name it has for it, the path is enough. */
function originOf({ headers }: RawRequest, baseUrl: string): string {
  const { host, origin } = new URL(baseUrl)
  return headers.host === host ? origin : ''
}
