// Uploads to a project with the unmodified tus-js-client.
import assert from 'node:assert/strict'
import { createHash, randomBytes } from 'node:crypto'
import type { CreatedProject } from '@plinth/contract/projects.ts'
import { Upload, type UploadOptions } from 'tus-js-client'

export const mebibyte = 1024 * 1024
/** The chunk size that hosted storage requires. */
export const chunkSize = 6 * mebibyte

export type Source = ConstructorParameters<typeof Upload>[0]

export interface Sending {
  upload: Upload
  /** Methods and statuses in order, such as `PATCH 204`. */
  requests: string[]
  /** The last answer, or the error of the client. */
  over: Promise<{ headers(name: string): string | undefined }>
}

export interface TusProject extends CreatedProject {
  /** Base URL of the storage routes. */
  base: string
  /** Prepares an upload, by default as service_role, without starting it. */
  sending(source: Source, name: string, options?: Partial<UploadOptions>): Sending
  /** Uploads and waits for the end. */
  send(source: Source, name: string, options?: Partial<UploadOptions>): Promise<Sending>
  fetch(method: string, path: string, headers?: Record<string, string>): Promise<Response>
  /** The hash of the downloaded file. */
  hashOf(path: string): Promise<string>
}

export const sha256 = (bytes: Buffer): string => createHash('sha256').update(bytes).digest('hex')
export const randomFile = (size: number): Buffer => randomBytes(size)

export function tusProject(project: CreatedProject, base: string, bucket = 'files'): TusProject {
  const key = project.service_role_key
  const sending: TusProject['sending'] = (source, name, { metadata, ...options } = {}) => {
    const requests: string[] = []
    const { promise, resolve, reject } = Promise.withResolvers<Awaited<Sending['over']>>()
    // A test that aborts does not wait for the promise, so its rejection must not be unhandled.
    promise.catch(() => {})
    const upload = new Upload(source, {
      endpoint: `${base}/upload/resumable`,
      headers: { apikey: key, authorization: `Bearer ${key}` },
      chunkSize,
      retryDelays: null,
      metadata: { bucketName: bucket, objectName: name, ...metadata },
      onError: reject,
      onSuccess: ({ lastResponse }) => resolve({ headers: header => lastResponse.getHeader(header) }),
      ...options,
      onAfterResponse: async (request, response) => {
        requests.push(`${request.getMethod()} ${response.getStatus()}`)
        await options.onAfterResponse?.(request, response)
      },
    })
    return { upload, requests, over: promise }
  }
  const ask: TusProject['fetch'] = (method, path, headers = {}) =>
    fetch(`${base}/${path}`, { method, headers: { apikey: key, ...headers } })
  return {
    ...project,
    base,
    sending,
    fetch: ask,
    send: async (source, name, options) => {
      const begun = sending(source, name, options)
      begun.upload.start()
      await begun.over
      return begun
    },
    hashOf: async path => {
      const reply = await ask('GET', `object/${bucket}/${path}`)
      assert.equal(reply.status, 200, path)
      const hash = createHash('sha256')
      for await (const chunk of reply.body!) hash.update(chunk)
      return hash.digest('hex')
    },
  }
}

/** The status and body of an upload that must fail. */
export async function rejectionOf(
  sent: Promise<unknown>,
): Promise<[status: number | undefined, text: string]> {
  const error = await sent.then(
    () => assert.fail('the upload was not rejected'),
    caught => caught,
  )
  const { originalResponse } = error
  return [originalResponse?.getStatus(), originalResponse?.getBody() ?? String(error)]
}
