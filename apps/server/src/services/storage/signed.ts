// Signed URLs: a caller with access creates one, and anyone who has the URL can use it until it expires.
import type { RawRequest, RequestHead } from '#src/kernel/http/request.ts'
import type { Caller } from '#src/tenancy/databases.ts'
import { checkFolder, contextOf } from './access.ts'
import { checkBucketName, checkKey, isKey } from './names.ts'
import type { Objects } from './objects.ts'
import { storageRefusal } from './refusals.ts'
import { fromToken, type TransformationInput, toToken, transformationFrom } from './render/transformation.ts'
import { readGrant, signGrant } from './signing.ts'
import type { RequestContext, Store } from './store.ts'
import type { Uploads } from './uploads.ts'

interface SignOptions {
  expiresIn?: number
  expires_in?: number
  transform?: TransformationInput | null
}

const uploadSeconds = 7200
const notVisible = 'Either the object does not exist or you do not have access to it'

export type Signed = ReturnType<typeof createSigned>

export function createSigned(store: Store, objects: Objects, uploads: Uploads) {
  const granted = (caller: Caller, request: RequestHead, operation: string): RequestContext => ({
    ...contextOf(caller, request, operation),
    asService: true,
  })

  return {
    async sign(caller: Caller, request: RequestHead, bucket: string, name: string, options: SignOptions) {
      const seconds = lifetime(options)
      const transformation = options.transform ? transformationFrom(options.transform) : undefined
      await objects.found(contextOf(caller, request, 'object.sign'), bucket, name)
      const url = `${bucket}/${name}`
      const token = signGrant(
        caller.tenant,
        {
          scope: 'download',
          url,
          ...(transformation && { transformations: toToken(transformation) }),
          ...(transformation?.format && { format: transformation.format }),
        },
        seconds,
      )
      const place = transformation ? 'render/image/sign' : 'object/sign'
      return { signedURL: `/${place}/${url}?token=${token}` }
    },

    async signMany(
      caller: Caller,
      request: RequestHead,
      bucket: string,
      options: SignOptions & { paths: readonly string[] },
    ) {
      const seconds = lifetime(options)
      checkBucketName(bucket)
      const visible = await store.findMany(
        contextOf(caller, request, 'object.sign_many'),
        bucket,
        options.paths.filter(path => isReachable(caller, bucket, path)),
      )
      return options.paths.map(path => {
        if (!visible.has(path)) return { error: notVisible, path, signedURL: null }
        const token = signGrant(caller.tenant, { scope: 'download', url: `${bucket}/${path}` }, seconds)
        return { error: null, path, signedURL: `/object/sign/${bucket}/${path}?token=${token}` }
      })
    },

    async signUpload(caller: Caller, request: RequestHead, bucket: string, name: string) {
      checkBucketName(bucket)
      checkKey(name)
      checkFolder(caller, bucket, name)
      const upsert = request.headers['x-upsert'] === 'true'
      await uploads.bucketFor(caller, bucket)
      await uploads.dryRun(contextOf(caller, request, 'object.sign_upload'), bucket, name, upsert)
      const token = signGrant(
        caller.tenant,
        { scope: 'upload', url: `${bucket}/${name}`, owner: caller.userId || null, upsert },
        uploadSeconds,
      )
      return { url: `/object/upload/sign/${bucket}/${name}?token=${token}`, token }
    },

    /** Verifies the token of a signed URL. Returns the object it grants and its transformation. */
    granted(caller: Caller, request: RawRequest, bucket: string, name: string, token: string | undefined) {
      const grant = readGrant(caller.tenant, token, 'download', `${bucket}/${name}`)
      const context = granted(caller, request, 'object.get_signed')
      return {
        find: () => objects.found(context, bucket, name),
        isRendered: grant.transformations !== undefined,
        transformation: fromToken(grant.transformations ?? '', grant.format),
        expires: new Date(grant.exp * 1000),
      }
    },

    grantedUpload(
      caller: Caller,
      request: RawRequest,
      bucket: string,
      name: string,
      token: string | undefined,
    ) {
      const grant = readGrant(caller.tenant, token, 'upload', `${bucket}/${name}`)
      return { context: granted(caller, request, 'object.upload_signed'), grant }
    },
  }
}

function lifetime({ expiresIn, expires_in }: SignOptions): number {
  const seconds = expiresIn ?? expires_in
  if (seconds === undefined)
    throw storageRefusal('InvalidRequest', 'expiresIn must say for how many seconds the URL is good')
  return seconds
}

/** An invalid name is reported like a missing object. */
function isReachable(caller: Caller, bucket: string, path: string): boolean {
  try {
    checkFolder(caller, bucket, path)
    return isKey(path)
  } catch {
    return false
  }
}
