// Stores pieces as objects of an S3 bucket. `finish` uploads the whole piece in one request, so no object is incomplete.
import { createHash } from 'node:crypto'
import type { DeleteObjectsCommand, S3Client } from '@aws-sdk/client-s3'
import {
  assertFolder,
  assertName,
  isFolder,
  isName,
  MissingPiece,
  NoSpace,
  ObjectsUnavailable,
  type PieceFound,
  type Pieces,
  type PieceWriter,
} from './pieces.ts'
import { type Answer, createReader } from './s3-reader.ts'

export interface S3Settings {
  /** URL of the service. Without it, AWS in the region. */
  endpoint: string | undefined
  bucket: string
  accessKeyId: string
  secretAccessKey: string
  region: string
  /** Puts the bucket into the path of URLs instead of the host name. */
  forcePathStyle: boolean
}

type Library = typeof import('@aws-sdk/client-s3')

/** A service that accepts connections and then hangs would otherwise keep its caller forever. */
export interface S3Timeouts {
  /** From the begin of a request until its whole answer, or until the first byte of an object that is read. */
  requestMs: number
  /** Between two chunks of an object that is read. */
  idleMs: number
}

/** Long enough to upload a piece of 8 MiB over a slow connection. */
export const usualTimeouts: S3Timeouts = { requestMs: 120_000, idleMs: 30_000 }
const connectTimeoutMs = 5000
/** A slow client keeps one socket until its piece is read. */
const maxSockets = 512
/** The limit of DeleteObjects. */
const maxKeysPerDelete = 1000

/** Throws an error with a message for the operator if the bucket cannot be used. */
export async function openS3Pieces(
  settings: S3Settings,
  timeouts: S3Timeouts = usualTimeouts,
): Promise<Pieces> {
  // Loaded on demand, because the library is large and most platforms store files in a directory.
  const library = await import('@aws-sdk/client-s3')
  const client = createClient(library, settings)
  const requests = boundedRequests(client, timeouts)
  try {
    await requests.send(new library.ListObjectsV2Command({ Bucket: settings.bucket, MaxKeys: 1 }))
  } catch (error) {
    requests.close()
    throw unusableBucket(settings, error)
  }
  return createS3Pieces(library, requests, settings.bucket, timeouts)
}

interface Requests {
  send: S3Client['send']
  /** Ends the requests that are under way, and lets later ones fail. */
  close(): void
}

/** The timeouts of the library end with the head of an answer, and apply to each of its attempts. */
function boundedRequests(client: S3Client, timeouts: S3Timeouts): Requests {
  const underWay = new Set<AbortController>()
  let isClosed = false
  async function send(command: Parameters<S3Client['send']>[0], given?: { abortSignal?: AbortSignal }) {
    const abort = new AbortController()
    if (isClosed) abort.abort()
    const { requestMs } = timeouts
    const timer = setTimeout(() => abort.abort(), requestMs)
    underWay.add(abort)
    try {
      const signals = [abort.signal, ...(given?.abortSignal ? [given.abortSignal] : [])]
      return await client.send(command, { abortSignal: AbortSignal.any(signals) })
    } catch (error) {
      throw abort.signal.aborted && !isClosed
        ? Object.assign(new Error(`no answer for ${requestMs} ms`, { cause: error }), { name: 'Timeout' })
        : error
    } finally {
      clearTimeout(timer)
      underWay.delete(abort)
    }
  }
  return {
    send: send as S3Client['send'],
    close() {
      isClosed = true
      for (const abort of underWay) abort.abort()
      client.destroy()
    },
  }
}

function createClient({ S3Client }: Library, settings: S3Settings): S3Client {
  const { endpoint, region, forcePathStyle, accessKeyId, secretAccessKey } = settings
  return new S3Client({
    region,
    ...(endpoint === undefined ? {} : { endpoint }),
    forcePathStyle,
    credentials: { accessKeyId, secretAccessKey },
    // Other services than AWS may not support these checksums. The frames are authenticated anyway.
    requestChecksumCalculation: 'WHEN_REQUIRED',
    responseChecksumValidation: 'WHEN_REQUIRED',
    // With `Expect: 100-continue`, every upload would open a new connection.
    expectContinueHeader: false,
    requestHandler: {
      connectionTimeout: connectTimeoutMs,
      // No timeout: a socket is also idle while a slow client receives what was read.
      socketTimeout: 0,
      httpAgent: { maxSockets },
      httpsAgent: { maxSockets },
    },
  })
}

function createS3Pieces(library: Library, requests: Requests, Bucket: string, timeouts: S3Timeouts): Pieces {
  const {
    CopyObjectCommand,
    DeleteObjectsCommand,
    GetObjectCommand,
    HeadObjectCommand,
    ListObjectsV2Command,
    PutObjectCommand,
  } = library

  /** The range of an object. A range after its end has no body. */
  async function get(name: string, from: number, to: number): Promise<Answer> {
    try {
      if (to <= from) return { size: await sizeOf(name) }
      const Range = `bytes=${from}-${Number.isSafeInteger(to) ? to - 1 : ''}`
      const answer = await requests.send(new GetObjectCommand({ Bucket, Key: name, Range }))
      const given = /^bytes (\d+)-\d+\/(\d+)$/.exec(answer.ContentRange ?? '')
      // A service without range support answers with the whole object.
      const [start, size] = given ? [Number(given[1]), Number(given[2])] : [0, answer.ContentLength]
      const body = answer.Body as NodeJS.ReadableStream & Answer['body']
      if (start === from && size !== undefined) return { size, body }
      body?.destroy()
      throw new Error(`the answer for ${name} starts at byte ${start} instead of ${from}`)
    } catch (error) {
      if (statusOf(error) === 416) return { size: await sizeOf(name) }
      throw toPiecesError(error, name)
    }
  }

  async function sizeOf(name: string): Promise<number> {
    try {
      const { ContentLength = 0 } = await requests.send(new HeadObjectCommand({ Bucket, Key: name }))
      return ContentLength
    } catch (error) {
      throw toPiecesError(error, name)
    }
  }

  const open = async (name: string, from: number, to: number) => {
    assertName(name)
    return createReader(await get(name, from, to), from, to, at => get(name, at, to), timeouts.idleMs)
  }

  /** The first `at` bytes of an existing piece, to be uploaded again with the appended ones. */
  async function readPrefix(name: string, at: number): Promise<Buffer> {
    const buffer = Buffer.allocUnsafe(at)
    const reader = await open(name, 0, at)
    try {
      if ((await reader.fill(buffer)) < at)
        throw new Error(`${name} has ${reader.size} bytes, cannot continue after ${at}`)
      return buffer
    } finally {
      await reader.close()
    }
  }

  async function put(name: string, Body: Buffer): Promise<void> {
    const command = new PutObjectCommand({
      Bucket,
      Key: name,
      Body,
      ContentLength: Body.length,
      ContentType: 'application/octet-stream',
    })
    await requests.send(command).catch(error => {
      throw toPiecesError(error, name)
    })
  }

  async function removeBatch(names: readonly string[], signal: AbortSignal | undefined): Promise<void> {
    const command = new DeleteObjectsCommand({
      Bucket,
      Delete: { Objects: names.map(Key => ({ Key })), Quiet: true },
    })
    addContentMd5(command)
    const { Errors = [] } = await requests.send(command, until(signal)).catch(error => {
      throw toPiecesError(error)
    })
    const failed = Errors.find(({ Code }) => Code !== 'NoSuchKey')
    if (failed) throw new ObjectsUnavailable(new Error(`${failed.Key}: ${failed.Code}`))
  }

  async function remove(names: readonly string[], signal?: AbortSignal): Promise<void> {
    names.forEach(assertName)
    for (let start = 0; start < names.length; start += maxKeysPerDelete)
      await removeBatch(names.slice(start, start + maxKeysPerDelete), signal)
  }

  async function* pages(folder: string, signal?: AbortSignal): AsyncGenerator<PieceFound[]> {
    assertFolder(folder)
    let ContinuationToken: string | undefined
    do {
      const command = new ListObjectsV2Command({
        Bucket,
        Prefix: `${folder}/`,
        ...(ContinuationToken === undefined ? {} : { ContinuationToken }),
      })
      const page = await requests.send(command, until(signal)).catch(error => {
        throw toPiecesError(error)
      })
      yield (page.Contents ?? [])
        .map(({ Key = '', Size = 0, LastModified }) => ({
          name: Key,
          size: Size,
          modifiedAt: LastModified ?? new Date(),
        }))
        .filter(({ name }) => isName(name))
      ContinuationToken = page.IsTruncated ? page.NextContinuationToken : undefined
    } while (ContinuationToken !== undefined)
  }

  return {
    async write(name, at) {
      assertName(name)
      return createWriter(at > 0 ? await readPrefix(name, at) : Buffer.alloc(0), whole => put(name, whole))
    },
    open,
    remove,
    async copy(from, to) {
      assertName(from)
      assertName(to)
      const command = new CopyObjectCommand({ Bucket, CopySource: `${Bucket}/${from}`, Key: to })
      await requests.send(command).catch(error => {
        throw toPiecesError(error, from)
      })
    },
    async removeFolder(folder, signal) {
      for await (const page of pages(folder, signal))
        await remove(
          page.map(({ name }) => name),
          signal,
        )
    },
    async *folders() {
      let ContinuationToken: string | undefined
      do {
        const command = new ListObjectsV2Command({
          Bucket,
          Delimiter: '/',
          ...(ContinuationToken === undefined ? {} : { ContinuationToken }),
        })
        const page = await requests.send(command).catch(error => {
          throw toPiecesError(error)
        })
        for (const { Prefix = '' } of page.CommonPrefixes ?? [])
          if (isFolder(Prefix.slice(0, -1))) yield Prefix.slice(0, -1)
        ContinuationToken = page.IsTruncated ? page.NextContinuationToken : undefined
      } while (ContinuationToken !== undefined)
    },
    async *list(folder) {
      for await (const page of pages(folder)) yield* page
    },
    close: async () => requests.close(),
  }
}

/** Collects the piece in a buffer that grows by doubling. Pages that were never written take no physical memory. */
function createWriter(start: Buffer, put: (whole: Buffer) => Promise<void>): PieceWriter {
  let buffer = start
  let length = start.length
  let isOpen = true

  function add(chunk: Buffer): void {
    if (length + chunk.length > buffer.length) {
      const larger = Buffer.allocUnsafeSlow(Math.max(2 * buffer.length, length + chunk.length))
      buffer.copy(larger, 0, 0, length)
      buffer = larger
    }
    length += chunk.copy(buffer, length)
  }
  function close(): void {
    isOpen = false
    buffer = Buffer.alloc(0)
  }
  return {
    async append(chunks) {
      if (!isOpen) throw new Error('the piece is closed')
      chunks.forEach(add)
    },
    async finish() {
      if (!isOpen) throw new Error('the piece is closed')
      const whole = buffer.subarray(0, length)
      close()
      await put(whole)
    },
    abort: async () => close(),
  }
}

/** DeleteObjects requires a digest, and older services support only this one. */
function addContentMd5(command: DeleteObjectsCommand): void {
  command.middlewareStack.add(
    next => async given => {
      const { headers, body } = given.request as { headers: Record<string, string>; body: string }
      headers['content-md5'] = createHash('md5').update(body).digest('base64')
      return next(given)
    },
    { step: 'build', name: 'contentMd5' },
  )
}

const until = (signal: AbortSignal | undefined) => (signal ? { abortSignal: signal } : {})

interface Failure {
  name?: string
  code?: string
  $metadata?: { httpStatusCode?: number }
}

const statusOf = (error: unknown) => (error as Failure).$metadata?.httpStatusCode

/** Converts an error of the service to one of ours. The original is its cause, for the log. */
function toPiecesError(error: unknown, name?: string): Error {
  if (error instanceof MissingPiece || error instanceof ObjectsUnavailable) return error
  const status = statusOf(error)
  const kind = (error as Failure).name ?? ''
  if (status === 404 && name !== undefined && kind !== 'NoSuchBucket') return new MissingPiece(name, error)
  if (status === 507 || /StorageFull|QuotaExceeded/.test(kind)) return new NoSpace(error)
  return new ObjectsUnavailable(error)
}

/** With the name or code of the error only, because its message may contain a signature. */
function unusableBucket({ bucket, endpoint, region }: S3Settings, error: unknown): Error {
  const { name, code } = error as Failure
  const place = endpoint === undefined ? `AWS in ${region}` : `S3_ENDPOINT ${endpoint}`
  const reason = code ?? (name && name !== 'Error' ? name : `status ${statusOf(error)}`)
  return new Error(`S3_BUCKET ${bucket} at ${place} cannot be used: ${reason}.`, { cause: error })
}
