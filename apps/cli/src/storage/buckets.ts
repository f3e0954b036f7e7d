// Buckets and listings of a project.
import type { Bucket, BucketInput } from '@plinth/contract/storage.ts'
import { Failure } from '../failure.ts'
import { addressOf, type Remote } from './address.ts'
import type { StorageClient } from './client.ts'

export interface StoredFile {
  bucket: string
  key: string
  size: number
  contentType: string | null
  cacheControl: string | null
  updatedAt: string | null
}

export interface Listing {
  /** The full path, with the slash at the end. */
  folders: string[]
  files: StoredFile[]
}

export const encoded = (...parts: string[]): string =>
  parts
    .flatMap(part => part.split('/'))
    .map(encodeURIComponent)
    .join('/')

const bucketPageSize = 100

export async function everyBucket(client: StorageClient): Promise<Bucket[]> {
  const found: Bucket[] = []
  for (;;) {
    const query = `limit=${bucketPageSize}&offset=${found.length}&sortColumn=name&sortOrder=asc`
    const page = await client.json<Bucket[]>({ method: 'GET', path: `bucket?${query}` })
    found.push(...page)
    if (page.length < bucketPageSize) return found
  }
}

export const readBucket = (client: StorageClient, bucket: string): Promise<Bucket> =>
  client.json({ method: 'GET', path: `bucket/${encoded(bucket)}` })

export const createBucket = (client: StorageClient, body: BucketInput): Promise<{ name: string }> =>
  client.json({ method: 'POST', path: 'bucket', body })

export const deleteBucket = (client: StorageClient, bucket: string): Promise<{ message: string }> =>
  client.json({ method: 'DELETE', path: `bucket/${encoded(bucket)}` })

interface Page {
  hasNext: boolean
  folders: { name: string }[]
  objects: { name: string; updated_at: string | null; metadata: Metadata | null }[]
  nextCursor?: string
}
interface Metadata {
  size?: number
  mimetype?: string
  cacheControl?: string
}

export interface ListOptions {
  /** The prefix of every key. */
  prefix: string
  /** Lists everything below instead of one level with its folders. */
  isDeep: boolean
  /** At most this many files. */
  limit?: number
}

export async function list(
  client: StorageClient,
  bucket: string,
  { prefix, isDeep, limit }: ListOptions,
): Promise<Listing> {
  const found: Listing = { folders: [], files: [] }
  let cursor: string | undefined
  do {
    const body = { prefix, with_delimiter: !isDeep, limit: limit ?? 1000, ...(cursor && { cursor }) }
    const path = `object/list-v2/${encoded(bucket)}`
    const page: Page = await client.json<Page>({ method: 'POST', path, body })
    found.folders.push(...page.folders.map(({ name }) => name))
    found.files.push(...page.objects.map(each => storedFile(bucket, each)))
    cursor = page.hasNext && limit === undefined ? page.nextCursor : undefined
  } while (cursor)
  return found
}

const storedFile = (bucket: string, { name, updated_at, metadata }: Page['objects'][number]): StoredFile => ({
  bucket,
  key: name,
  size: metadata?.size ?? 0,
  contentType: metadata?.mimetype ?? null,
  cacheControl: metadata?.cacheControl ?? null,
  updatedAt: updated_at,
})

/** Whether a path is a file, a folder or both. */
export async function inspectPath(
  client: StorageClient,
  { bucket, path, endsInSlash }: Remote,
): Promise<{ file: StoredFile | null; isFolder: boolean }> {
  const first = async (prefix: string) =>
    (await list(client, bucket, { prefix, isDeep: true, limit: 1 })).files[0] ?? null
  if (path === '' || endsInSlash)
    return { file: null, isFolder: (await first(path === '' ? '' : `${path}/`)) !== null }
  const [nearest, within] = await Promise.all([first(path), first(`${path}/`)])
  // In byte order a key comes before every longer key with this prefix.
  return { file: nearest?.key === path ? nearest : null, isFolder: within !== null }
}

/** All files in a folder or a bucket, recursively. */
export const everyFileIn = async (client: StorageClient, { bucket, path }: Remote): Promise<StoredFile[]> =>
  (await list(client, bucket, { prefix: path === '' ? '' : `${path}/`, isDeep: true })).files

/** An unknown bucket lists like an empty one. Reading the bucket fails if it does not exist. */
export async function notFoundAt(client: StorageClient, { bucket, path }: Remote): Promise<Failure> {
  await readBucket(client, bucket)
  return new Failure(
    'object_not_found',
    path === ''
      ? `There is nothing in ${addressOf(bucket)}.`
      : `There is nothing at ${addressOf(bucket, path)}.`,
    `plinth storage ls ${addressOf(bucket)} -r lists the files.`,
  )
}

export const needsRecursive = (what: string): Failure =>
  new Failure('recursive_missing', `${what}.`, 'Run it again with -r to include everything in it.')

const deleteBatchSize = 1000

/** Removes in batches of the size the server accepts, and returns the keys that existed. */
export async function removeFiles(
  client: StorageClient,
  bucket: string,
  keys: readonly string[],
  onProgress: (count: number) => void = () => {},
): Promise<string[]> {
  const removed: string[] = []
  for (let at = 0; at < keys.length; at += deleteBatchSize) {
    const prefixes = keys.slice(at, at + deleteBatchSize)
    const path = `object/${encoded(bucket)}`
    const gone = await client.json<{ name: string }[]>({ method: 'DELETE', path, body: { prefixes } })
    removed.push(...gone.map(({ name }) => name))
    if (at + deleteBatchSize < keys.length) onProgress(removed.length)
  }
  return removed
}
