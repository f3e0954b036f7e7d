// Pieces as objects of an S3 bucket. A piece is put whole, when it is finished; none is ever half there.
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
  /** Where the service is; AWS's own of the region when absent. */
  endpoint: string | undefined
  bucket: string
  accessKeyId: string
  secretAccessKey: string
  region: string
  /** The bucket in the path of the URL rather than in its host. */
  forcePathStyle: boolean
}

type Library = typeof import('@aws-sdk/client-s3')

const connectTimeoutMs = 5000
/** Until an answer begins; a piece of 8 MiB is sent in that time over a slow line, too. */
const requestTimeoutMs = 120_000
/** A slow reader holds one for as long as its piece takes. */
const maxSockets = 512
const removedAtOnce = 1000

/** Throws a sentence for the operator when the bucket cannot be used. */
export async function openS3Pieces(settings: S3Settings): Promise<Pieces> {
  // Loaded here: it is large, and most platforms keep files in a directory.
  const library = await import('@aws-sdk/client-s3')
  const client = createClient(library, settings)
  try {
    await client.send(new library.ListObjectsV2Command({ Bucket: settings.bucket, MaxKeys: 1 }))
  } catch (error) {
    client.destroy()
    throw unusable(settings, error)
  }
  return createS3Pieces(library, client, settings.bucket)
}

function createClient({ S3Client }: Library, settings: S3Settings): S3Client {
  const { endpoint, region, forcePathStyle, accessKeyId, secretAccessKey } = settings
  return new S3Client({
    region,
    ...(endpoint === undefined ? {} : { endpoint }),
    forcePathStyle,
    credentials: { accessKeyId, secretAccessKey },
    // What others than AWS do not know; the pieces carry a seal of their own.
    requestChecksumCalculation: 'WHEN_REQUIRED',
    responseChecksumValidation: 'WHEN_REQUIRED',
    // It would take a connection of its own for every piece.
    expectContinueHeader: false,
    requestHandler: {
      connectionTimeout: connectTimeoutMs,
      requestTimeout: requestTimeoutMs,
      throwOnRequestTimeout: true,
      // None: a socket is idle as well while a slow client takes what was read.
      socketTimeout: 0,
      httpAgent: { maxSockets },
      httpsAgent: { maxSockets },
    },
  })
}

function createS3Pieces(library: Library, client: S3Client, Bucket: string): Pieces {
  const {
    DeleteObjectsCommand,
    GetObjectCommand,
    HeadObjectCommand,
    ListObjectsV2Command,
    PutObjectCommand,
  } = library

  /** The bytes asked for; of a range behind the end, none. */
  async function get(name: string, from: number, to: number): Promise<Answer> {
    try {
      if (to <= from) return { size: await sizeOf(name) }
      const Range = `bytes=${from}-${Number.isSafeInteger(to) ? to - 1 : ''}`
      const answer = await client.send(new GetObjectCommand({ Bucket, Key: name, Range }))
      const given = /^bytes (\d+)-\d+\/(\d+)$/.exec(answer.ContentRange ?? '')
      // A service that does not know ranges answers with the whole.
      const [start, size] = given ? [Number(given[1]), Number(given[2])] : [0, answer.ContentLength]
      const body = answer.Body as NodeJS.ReadableStream & Answer['body']
      if (start === from && size !== undefined) return { size, body }
      body?.destroy()
      throw new Error(`${name} came from byte ${start}, not from ${from}`)
    } catch (error) {
      if (statusOf(error) === 416) return { size: await sizeOf(name) }
      throw explained(error, name)
    }
  }

  async function sizeOf(name: string): Promise<number> {
    try {
      const { ContentLength = 0 } = await client.send(new HeadObjectCommand({ Bucket, Key: name }))
      return ContentLength
    } catch (error) {
      throw explained(error, name)
    }
  }

  const open = async (name: string, from: number, to: number) => {
    assertName(name)
    return createReader(await get(name, from, to), from, to, at => get(name, at, to))
  }

  /** The promised beginning of a piece that goes on. */
  async function beginning(name: string, at: number): Promise<Buffer> {
    const buffer = Buffer.allocUnsafe(at)
    const reader = await open(name, 0, at)
    try {
      if ((await reader.fill(buffer)) < at)
        throw new Error(`${name} holds ${reader.size} bytes, not the ${at} it should go on from`)
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
    await client.send(command).catch(error => {
      throw explained(error, name)
    })
  }

  async function removeSome(names: readonly string[]): Promise<void> {
    const command = new DeleteObjectsCommand({
      Bucket,
      Delete: { Objects: names.map(Key => ({ Key })), Quiet: true },
    })
    withDigest(command)
    const { Errors = [] } = await client.send(command).catch(error => {
      throw explained(error)
    })
    const failed = Errors.find(({ Code }) => Code !== 'NoSuchKey')
    if (failed) throw new ObjectsUnavailable(new Error(`${failed.Key}: ${failed.Code}`))
  }

  async function remove(names: readonly string[]): Promise<void> {
    names.forEach(assertName)
    for (let start = 0; start < names.length; start += removedAtOnce)
      await removeSome(names.slice(start, start + removedAtOnce))
  }

  async function* pages(folder: string): AsyncGenerator<PieceFound[]> {
    assertFolder(folder)
    let ContinuationToken: string | undefined
    do {
      const command = new ListObjectsV2Command({
        Bucket,
        Prefix: `${folder}/`,
        ...(ContinuationToken === undefined ? {} : { ContinuationToken }),
      })
      const page = await client.send(command).catch(error => {
        throw explained(error)
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
      return createWriter(at > 0 ? await beginning(name, at) : Buffer.alloc(0), whole => put(name, whole))
    },
    open,
    remove,
    async removeFolder(folder) {
      for await (const page of pages(folder)) await remove(page.map(({ name }) => name))
    },
    async *folders() {
      let ContinuationToken: string | undefined
      do {
        const command = new ListObjectsV2Command({
          Bucket,
          Delimiter: '/',
          ...(ContinuationToken === undefined ? {} : { ContinuationToken }),
        })
        const page = await client.send(command).catch(error => {
          throw explained(error)
        })
        for (const { Prefix = '' } of page.CommonPrefixes ?? [])
          if (isFolder(Prefix.slice(0, -1))) yield Prefix.slice(0, -1)
        ContinuationToken = page.IsTruncated ? page.NextContinuationToken : undefined
      } while (ContinuationToken !== undefined)
    },
    async *list(folder) {
      for await (const page of pages(folder)) yield* page
    },
    close: async () => client.destroy(),
  }
}

/** Gathers the piece in memory, which grows by doubling: what is not used of it takes up none. */
function createWriter(start: Buffer, put: (whole: Buffer) => Promise<void>): PieceWriter {
  let gathered = start
  let length = start.length
  let isOpen = true

  function add(chunk: Buffer): void {
    if (length + chunk.length > gathered.length) {
      const larger = Buffer.allocUnsafeSlow(Math.max(2 * gathered.length, length + chunk.length))
      gathered.copy(larger, 0, 0, length)
      gathered = larger
    }
    length += chunk.copy(gathered, length)
  }
  function end(): void {
    isOpen = false
    gathered = Buffer.alloc(0)
  }
  return {
    async append(chunks) {
      if (!isOpen) throw new Error('the piece is written no more')
      chunks.forEach(add)
    },
    async finish() {
      if (!isOpen) throw new Error('the piece is written no more')
      const whole = gathered.subarray(0, length)
      end()
      await put(whole)
    },
    abort: async () => end(),
  }
}

/** Removing many needs a digest, and older services know no other than this. */
function withDigest(command: DeleteObjectsCommand): void {
  command.middlewareStack.add(
    next => async given => {
      const { headers, body } = given.request as { headers: Record<string, string>; body: string }
      headers['content-md5'] = createHash('md5').update(body).digest('base64')
      return next(given)
    },
    { step: 'build', name: 'contentMd5' },
  )
}

interface Failure {
  name?: string
  code?: string
  $metadata?: { httpStatusCode?: number }
}

const statusOf = (error: unknown) => (error as Failure).$metadata?.httpStatusCode

/** Which of our errors a failure is; what the service said goes along as its cause, for the log. */
function explained(error: unknown, name?: string): Error {
  if (error instanceof MissingPiece || error instanceof ObjectsUnavailable) return error
  const status = statusOf(error)
  const kind = (error as Failure).name ?? ''
  if (status === 404 && name !== undefined && kind !== 'NoSuchBucket') return new MissingPiece(name, error)
  if (status === 507 || /StorageFull|QuotaExceeded/.test(kind)) return new NoSpace(error)
  return new ObjectsUnavailable(error)
}

/** Names and codes alone: the text of an error may quote a signature. */
function unusable({ bucket, endpoint, region }: S3Settings, error: unknown): Error {
  const { name, code } = error as Failure
  const place = endpoint === undefined ? `AWS in ${region}` : `S3_ENDPOINT ${endpoint}`
  const reason = code ?? (name && name !== 'Error' ? name : `status ${statusOf(error)}`)
  return new Error(`S3_BUCKET ${bucket} at ${place} cannot be used: ${reason}.`, { cause: error })
}
