// URLs that carry their own right: made by whoever has it, used by whoever is given them.
import type { RawRequest, RequestHead } from '#src/kernel/http/request.ts'
import type { Caller } from '#src/tenancy/databases.ts'
import { actOf, checkFolder } from './access.ts'
import { checkBucketName, checkKey, isKey } from './names.ts'
import type { Objects } from './objects.ts'
import { storageRefusal } from './refusals.ts'
import { fromToken, toToken, transformationFrom, type Wish } from './render/transformation.ts'
import { readGrant, signGrant } from './signing.ts'
import type { Act, Store } from './store.ts'
import type { Uploads } from './uploads.ts'

interface SignWish {
  expiresIn?: number
  expires_in?: number
  transform?: Wish | null
}

const uploadSeconds = 7200
const unseen = 'Either the object does not exist or you do not have access to it'

export type Signed = ReturnType<typeof createSigned>

export function createSigned(store: Store, objects: Objects, uploads: Uploads) {
  const granted = (caller: Caller, request: RequestHead, operation: string): Act => ({
    ...actOf(caller, request, operation),
    asService: true,
  })

  return {
    async sign(caller: Caller, request: RequestHead, bucket: string, name: string, wish: SignWish) {
      const seconds = lifetime(wish)
      const wanted = wish.transform ? transformationFrom(wish.transform) : undefined
      await objects.found(actOf(caller, request, 'object.sign'), bucket, name)
      const url = `${bucket}/${name}`
      const token = signGrant(
        caller.tenant,
        {
          scope: 'download',
          url,
          ...(wanted && { transformations: toToken(wanted) }),
          ...(wanted?.format && { format: wanted.format }),
        },
        seconds,
      )
      const place = wanted ? 'render/image/sign' : 'object/sign'
      return { signedURL: `/${place}/${url}?token=${token}` }
    },

    async signMany(
      caller: Caller,
      request: RequestHead,
      bucket: string,
      wish: SignWish & { paths: readonly string[] },
    ) {
      const seconds = lifetime(wish)
      checkBucketName(bucket)
      const seen = await store.findMany(
        actOf(caller, request, 'object.sign_many'),
        bucket,
        wish.paths.filter(path => isReachable(caller, bucket, path)),
      )
      return wish.paths.map(path => {
        if (!seen.has(path)) return { error: unseen, path, signedURL: null }
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
      await uploads.rehearse(actOf(caller, request, 'object.sign_upload'), bucket, name, upsert)
      const token = signGrant(
        caller.tenant,
        { scope: 'upload', url: `${bucket}/${name}`, owner: caller.userId || null, upsert },
        uploadSeconds,
      )
      return { url: `/object/upload/sign/${bucket}/${name}?token=${token}`, token }
    },

    /** What the token of a URL grants, and how it is to be shown. */
    granted(caller: Caller, request: RawRequest, bucket: string, name: string, token: string | undefined) {
      const grant = readGrant(caller.tenant, token, 'download', `${bucket}/${name}`)
      const act = granted(caller, request, 'object.get_signed')
      return {
        find: () => objects.found(act, bucket, name),
        isRendered: grant.transformations !== undefined,
        wanted: fromToken(grant.transformations ?? '', grant.format),
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
      return { act: granted(caller, request, 'object.upload_signed'), grant }
    },
  }
}

function lifetime({ expiresIn, expires_in }: SignWish): number {
  const seconds = expiresIn ?? expires_in
  if (seconds === undefined)
    throw storageRefusal('InvalidRequest', 'expiresIn must say for how many seconds the URL is good')
  return seconds
}

/** A name that cannot be is one of nobody's. */
function isReachable(caller: Caller, bucket: string, path: string): boolean {
  try {
    checkFolder(caller, bucket, path)
    return isKey(path)
  } catch {
    return false
  }
}
