// Images in another size or format: whoever may read the original may read them.
import { wholeOf } from '#src/kernel/byte-source.ts'
import type { RawReply, RawRequest } from '#src/kernel/http/request.ts'
import { fileHeaders, isUnchanged, type Showing } from './download.ts'
import { type Files, told } from './files.ts'
import { ofCurrent, sizeOf } from './objects.ts'
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

const tell = (error: unknown): never => {
  throw told(error)
}

export type Images = ReturnType<typeof createImages>

export function createImages(files: Files, renderer: Renderer, cache: RenderCache) {
  async function source(project: string, object: ObjectRow): Promise<Buffer> {
    const size = sizeOf(object)
    return wholeOf(await files.open(project, { version: object.version, size }, 0, size))
  }

  async function reply(
    request: RawRequest,
    project: string,
    object: ObjectRow,
    wanted: Transformation,
    showing: Showing,
  ): Promise<RawReply> {
    if (!/^image\//i.test(object.metadata?.mimetype ?? ''))
      throw storageRefusal('InvalidRequest', 'Only images can be transformed', {
        hint: 'The object was not uploaded with a content type of image/….',
      })
    if (sizeOf(object) > maxSourceBytes)
      throw storageRefusal(
        'InvalidRequest',
        `Images of more than ${maxSourceBytes} bytes are not transformed`,
      )
    const format = outputFormat(wanted, request.headers.accept)
    const key = renderKey(wanted, format)
    // Another one for every way it is rendered.
    const rendered = { ...object, version: `${object.version}-${Buffer.from(key).toString('base64url')}` }
    const headersOf = (mimetype: string): Record<string, string> => ({
      ...fileHeaders({ ...rendered, metadata: { ...object.metadata!, mimetype } }, showing),
      'accept-ranges': 'none',
      'x-transformations': transformationsHeader(wanted),
      vary: 'Accept',
    })
    if (isUnchanged(rendered, showing.headers)) {
      // What it is was said when it was sent; a cache would take over whatever is said now.
      const { 'content-type': _type, 'content-disposition': _disposition, ...headers } = headersOf('')
      return { status: 304, headers, body: null }
    }
    const { bytes, contentType } = await cache.through(project, object.version, key, () =>
      renderer.render(project, () => source(project, object).catch(tell), wanted, format),
    )
    const headers = { ...headersOf(contentType), 'content-length': String(bytes.length) }
    return { status: 200, headers, body: request.method === 'HEAD' ? null : bytes }
  }

  return {
    /** While a render waits for its turn, the original may be replaced. */
    show: (
      request: RawRequest,
      project: string,
      find: () => Promise<ObjectRow>,
      wanted: Transformation,
      showing: Showing,
    ): Promise<RawReply> => ofCurrent(find, object => reply(request, project, object, wanted, showing)),

    forget: (project: string, version?: string) => cache.forget(project, version),
  }
}
