// Serves images in another size or format to callers who may read the original.
import { readAll } from '#src/kernel/byte-source.ts'
import type { RawReply, RawRequest } from '#src/kernel/http/request.ts'
import { type DownloadOptions, fileHeaders, isUnchanged } from './download.ts'
import { headBytes, typeOf } from './file-type.ts'
import { type Files, storageErrorFrom } from './files.ts'
import { retryIfReplaced, sizeOf } from './objects.ts'
import { storageRefusal } from './refusals.ts'
import type { RenderCache } from './render/cache.ts'
import { maxSourceBytes, type Renderer } from './render/renderer.ts'
import {
  outputFormat,
  renderKey,
  type Transformation,
  transformationsHeader,
} from './render/transformation.ts'
import type { ObjectRow } from './store.ts'

const throwStorageError = (error: unknown): never => {
  throw storageErrorFrom(error)
}

export type Images = ReturnType<typeof createImages>

export function createImages(files: Files, renderer: Renderer, cache: RenderCache) {
  async function read(project: string, object: ObjectRow, to: number): Promise<Buffer> {
    return readAll(await files.open(project, { version: object.version, size: sizeOf(object) }, 0, to))
  }

  /** The bytes decide, because many clients upload without a type. Other files do not take a slot of the renderer. */
  async function requireImage(project: string, object: ObjectRow): Promise<void> {
    if (/^image\//i.test(object.metadata?.mimetype ?? '')) return
    const head = await read(project, object, Math.min(sizeOf(object), headBytes)).catch(throwStorageError)
    if (typeOf(head)?.startsWith('image/')) return
    throw storageRefusal('InvalidRequest', 'Only images can be transformed', {
      hint: 'The object is neither stored with a content type of image/… nor does it begin like an image.',
    })
  }

  async function reply(
    request: RawRequest,
    project: string,
    object: ObjectRow,
    transformation: Transformation,
    options: DownloadOptions,
  ): Promise<RawReply> {
    if (sizeOf(object) > maxSourceBytes)
      throw storageRefusal(
        'InvalidRequest',
        `Images of more than ${maxSourceBytes} bytes are not transformed`,
      )
    const format = outputFormat(transformation, request.headers.accept)
    const key = renderKey(transformation, format)
    // Every transformation has its own ETag.
    const rendered = { ...object, version: `${object.version}-${Buffer.from(key).toString('base64url')}` }
    const headersOf = (mimetype: string): Record<string, string> => ({
      ...fileHeaders({ ...rendered, metadata: { ...object.metadata!, mimetype } }, options),
      'accept-ranges': 'none',
      'x-transformations': transformationsHeader(transformation),
      vary: 'Accept',
    })
    if (isUnchanged(rendered, options.headers)) {
      // A cache would replace its stored headers with those of the 304, and the content type is not known here.
      const { 'content-type': _type, 'content-disposition': _disposition, ...headers } = headersOf('')
      return { status: 304, headers, body: null }
    }
    const { bytes, contentType } = await cache.getOrRender(project, object.version, key, async () => {
      await requireImage(project, object)
      return renderer.render(
        project,
        () => read(project, object, sizeOf(object)).catch(throwStorageError),
        transformation,
        format,
      )
    })
    const headers = { ...headersOf(contentType), 'content-length': String(bytes.length) }
    return { status: 200, headers, body: request.method === 'HEAD' ? null : bytes }
  }

  return {
    /** The original may be replaced while a render waits in the queue. */
    show: (
      request: RawRequest,
      project: string,
      find: () => Promise<ObjectRow>,
      transformation: Transformation,
      options: DownloadOptions,
    ): Promise<RawReply> =>
      retryIfReplaced(find, object => reply(request, project, object, transformation, options)),

    forget: (project: string, version?: string) => cache.forget(project, version),
  }
}
