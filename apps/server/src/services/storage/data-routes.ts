import type { storageApi } from '@plinth/contract/storage.ts'
import type { Handlers } from '#src/kernel/http/plane.ts'
import { jsonReply, type RawReply, type RawRequest } from '#src/kernel/http/request.ts'
import type { Caller } from '#src/tenancy/databases.ts'
import { contextOf } from './access.ts'
import { storageRefusal } from './refusals.ts'
import { transformationFrom } from './render/transformation.ts'
import type { Kind } from './resumable.ts'
import type { StorageService } from './service.ts'
import { servedHeaders } from './tus.ts'

type StorageHandlers = Handlers<typeof storageApi, Caller>

export const storageRoutes = (storage: StorageService): StorageHandlers => ({
  ...bucketRoutes(storage),
  ...objectRoutes(storage),
  ...signedRoutes(storage),
  ...imageRoutes(storage),
  ...resumableRoutes(storage),
})

const bucketRoutes = ({ buckets }: StorageService) =>
  ({
    listBuckets: ({ query }, caller, request) => buckets.list(caller, request, query),
    createBucket: ({ body }, caller, request) => buckets.create(caller, request, body),
    readBucket: ({ params }, caller, request) => buckets.read(caller, request, params.bucket),
    updateBucket: ({ params, body }, caller, request) => buckets.update(caller, request, params.bucket, body),
    deleteBucket: ({ params }, caller, request) => buckets.remove(caller, request, params.bucket),
    emptyBucket: ({ params }, caller, request) => buckets.empty(caller, request, params.bucket),
  }) satisfies Partial<StorageHandlers>

const readOnly = { isReadOnly: true }

const objectRoutes = ({ objects, uploads }: StorageService) => {
  const found = (caller: Caller, request: RawRequest, { bucket, path }: Place, operation: string) =>
    objects.found(contextOf(caller, request, operation, readOnly), bucket, path)
  const foundPublic = (caller: Caller, request: RawRequest, { bucket, path }: Place, operation: string) =>
    objects.foundPublic(contextOf(caller, request, operation, readOnly), bucket, path)
  const isUpsert = ({ headers }: RawRequest) => headers['x-upsert'] === 'true'
  return {
    upload: ({ params }, caller, request) =>
      uploads.upload(caller, request, params.bucket, params.path, isUpsert(request)),
    put: ({ params }, caller, request) => uploads.upload(caller, request, params.bucket, params.path, true),
    download: async ({ params, query }, caller, request) =>
      objects.show(request, caller.tenant.id, () => found(caller, request, params, 'object.get'), {
        headers: request.headers,
        download: query.download,
      }),
    downloadAuthenticated: async ({ params, query }, caller, request) =>
      objects.show(
        request,
        caller.tenant.id,
        () => found(caller, request, params, 'object.get_authenticated'),
        {
          headers: request.headers,
          download: query.download,
        },
      ),
    downloadPublic: async ({ params, query }, caller, request) =>
      objects.show(
        request,
        caller.tenant.id,
        () => foundPublic(caller, request, params, 'object.get_public'),
        {
          headers: request.headers,
          download: query.download,
        },
      ),
    info: async ({ params }, caller, request) =>
      objects.info(await found(caller, request, params, 'object.get_info')),
    infoAuthenticated: async ({ params }, caller, request) =>
      objects.info(await found(caller, request, params, 'object.get_authenticated_info')),
    infoPublic: async ({ params }, caller, request) =>
      objects.info(await foundPublic(caller, request, params, 'object.get_public_info')),
    remove: async ({ params }, caller, request) => {
      await objects.remove(caller, request, params.bucket, params.path)
      return { message: 'Successfully deleted' }
    },
    removeMany: ({ params, body }, caller, request) =>
      objects.removeMany(caller, request, params.bucket, body.prefixes),
    list: ({ params, body }, caller, request) => objects.listFolder(caller, request, params.bucket, body),
    listV2: ({ params, body }, caller, request) => objects.listPage(caller, request, params.bucket, body),
    move: ({ body }, caller, request) => objects.move(caller, request, body),
    copy: ({ body }, caller, request) => objects.copy(caller, request, body),
  } satisfies Partial<StorageHandlers>
}

interface Place {
  bucket: string
  path: string
}

const signedRoutes = ({ objects, uploads, signed }: StorageService) =>
  ({
    sign: ({ params, body }, caller, request) =>
      signed.sign(caller, request, params.bucket, params.path, body),
    signMany: ({ params, body }, caller, request) => signed.signMany(caller, request, params.bucket, body),
    signUpload: ({ params }, caller, request) =>
      signed.signUpload(caller, request, params.bucket, params.path),
    downloadSigned: async ({ params, query }, caller, request) => {
      const granted = signed.granted(caller, request, params.bucket, params.path, query.token)
      if (granted.isRendered)
        throw storageRefusal('InvalidSignature', 'The token is for a rendered image, not for the original')
      return objects.show(request, caller.tenant.id, granted.find, {
        headers: request.headers,
        download: query.download,
        expires: granted.expires,
      })
    },
    uploadSigned: async ({ params, query }, caller, request) => {
      const { context, grant } = signed.grantedUpload(
        caller,
        request,
        params.bucket,
        params.path,
        query.token,
      )
      const { key } = await uploads.receive(context, request, params.bucket, params.path, {
        isUpsert: grant.upsert,
        owner: grant.owner ?? '',
      })
      return jsonReply(200, { Key: key })
    },
  }) satisfies Partial<StorageHandlers>

const imageRoutes = ({ objects, images, signed, store }: StorageService) =>
  ({
    renderAuthenticated: async ({ params, query }, caller, request) => {
      const transformation = transformationFrom(query)
      const context = contextOf(caller, request, 'object.get_render_authenticated', readOnly)
      const find = () => objects.found(context, params.bucket, params.path)
      const options = { headers: request.headers, download: query.download }
      return images.show(request, caller.tenant.id, find, transformation, options)
    },
    renderPublic: async ({ params, query }, caller, request) => {
      const transformation = transformationFrom(query)
      const context = contextOf(caller, request, 'object.get_render_public', readOnly)
      const find = () => objects.foundPublic(context, params.bucket, params.path)
      const options = { headers: request.headers, download: query.download }
      return images.show(request, caller.tenant.id, find, transformation, options)
    },
    renderSigned: async ({ params, query }, caller, request) => {
      const granted = signed.granted(caller, request, params.bucket, params.path, query.token)
      return images.show(request, caller.tenant.id, granted.find, granted.transformation, {
        headers: request.headers,
        download: query.download,
        expires: granted.expires,
      })
    },
    purgeBucket: async (_input, caller) => {
      await images.forget(caller.tenant.id)
      return { message: 'success' }
    },
    purgeObject: async ({ params }, caller, request) => {
      const found = await store.find(contextOf(caller, request, 'object.purge'), params.bucket, params.path)
      if (found) await images.forget(caller.tenant.id, found.version)
      return { message: 'success' }
    },
  }) satisfies Partial<StorageHandlers>

const resumableRoutes = ({ resumable }: StorageService) => {
  const served = async (): Promise<RawReply> => ({ status: 204, headers: servedHeaders, body: null })
  const override = (caller: Caller, request: RawRequest, id: string, kind: Kind): Promise<RawReply> => {
    switch (String(request.headers['x-http-method-override']).toUpperCase()) {
      case 'PATCH':
        return resumable.append(caller, request, id, kind)
      case 'DELETE':
        return resumable.remove(caller, request, id, kind)
      case 'HEAD':
        return resumable.read(caller, request, id, kind)
      default:
        throw storageRefusal('InvalidRequest', 'Send PATCH, or name it in X-HTTP-Method-Override')
    }
  }
  return {
    resumable: served,
    createUpload: (_input, caller, request) => resumable.create(caller, request, 'plain'),
    readUpload: ({ params }, caller, request) => resumable.read(caller, request, params.upload_id, 'plain'),
    appendUpload: ({ params }, caller, request) =>
      resumable.append(caller, request, params.upload_id, 'plain'),
    overrideUpload: async ({ params }, caller, request) =>
      override(caller, request, params.upload_id, 'plain'),
    deleteUpload: ({ params }, caller, request) =>
      resumable.remove(caller, request, params.upload_id, 'plain'),
    resumableSigned: served,
    createSignedUpload: (_input, caller, request) => resumable.create(caller, request, 'signed'),
    readSignedUpload: ({ params }, caller, request) =>
      resumable.read(caller, request, params.upload_id, 'signed'),
    appendSignedUpload: ({ params }, caller, request) =>
      resumable.append(caller, request, params.upload_id, 'signed'),
    overrideSignedUpload: async ({ params }, caller, request) =>
      override(caller, request, params.upload_id, 'signed'),
    deleteSignedUpload: ({ params }, caller, request) =>
      resumable.remove(caller, request, params.upload_id, 'signed'),
  } satisfies Partial<StorageHandlers>
}
