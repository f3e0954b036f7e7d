// Data plane options that storage clients expect.
import type { DataPlaneOptions } from '#src/planes/data/plane.ts'
import type { UnknownPaths } from '#src/planes/service.ts'
import { storageWording } from './refusals.ts'
import { tusHeaders } from './tus.ts'

const storagePath = /^\/v1\/(?:storage\/|[0-9a-f-]{36}\/storage\/v1(?:\/|$))/i

/** Unknown paths under /storage get errors in the format of this service. */
export const unknownStoragePaths: UnknownPaths = {
  isOwn: path => storagePath.test(path),
  word: storageWording,
}

const uploadPath = /^\/v1\/(?:storage\/[^/]+|[^/]+\/storage\/v1)\/upload\/resumable(?:\/|$)/

/** TUS requires its headers on error answers as well. */
const worded: DataPlaneOptions['word'] = (body, failure, { path }) => ({
  ...storageWording(body, failure),
  headers: uploadPath.test(path) ? tusHeaders : {},
})

/** POST on an upload with X-HTTP-Method-Override may be a read or a delete, which need no free space. */
const needsSpace: DataPlaneOptions['needsSpace'] = ({ method, path, needsSpace }, { headers }) => {
  const isOverride = method === 'POST' && path.endsWith('/{upload_id}')
  const isHarmless = /^(?:delete|head)$/i.test(String(headers['x-http-method-override']))
  return isOverride && isHarmless ? undefined : needsSpace
}

/** A page may load many images at once, so open routes use the limit for authenticated callers. */
export const storagePlane: DataPlaneOptions = { word: worded, openLike: 'authenticated', needsSpace }
