// What is in the files of a project: buckets and listings, and what is done to them without moving bytes.
import type { Bucket, BucketWish } from '@plinth/contract/storage.ts'
import { Failure } from '../failure.ts'
import { addressOf, type Remote } from './address.ts'
import type { Wire } from './wire.ts'

export interface StoredFile {
  bucket: string
  key: string
  size: number
  contentType: string | null
  cacheControl: string | null
  updatedAt: string | null
}

export interface Listing {
  /** Whole, with the slash at the end. */
  folders: string[]
  files: StoredFile[]
}

export const encoded = (...parts: string[]): string =>
  parts
    .flatMap(part => part.split('/'))
    .map(encodeURIComponent)
    .join('/')

const bucketsAtOnce = 100

export async function everyBucket(wire: Wire): Promise<Bucket[]> {
  const found: Bucket[] = []
  for (;;) {
    const query = `limit=${bucketsAtOnce}&offset=${found.length}&sortColumn=name&sortOrder=asc`
    const page = await wire.json<Bucket[]>({ method: 'GET', path: `bucket?${query}` })
    found.push(...page)
    if (page.length < bucketsAtOnce) return found
  }
}

export const readBucket = (wire: Wire, bucket: string): Promise<Bucket> =>
  wire.json({ method: 'GET', path: `bucket/${encoded(bucket)}` })

export const createBucket = (wire: Wire, body: BucketWish): Promise<{ name: string }> =>
  wire.json({ method: 'POST', path: 'bucket', body })

export const deleteBucket = (wire: Wire, bucket: string): Promise<{ message: string }> =>
  wire.json({ method: 'DELETE', path: `bucket/${encoded(bucket)}` })

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

export interface Within {
  /** What every key begins with. */
  prefix: string
  /** All below, instead of one level with its folders. */
  isDeep: boolean
  /** Of a look whether there is anything. */
  limit?: number
}

export async function list(wire: Wire, bucket: string, { prefix, isDeep, limit }: Within): Promise<Listing> {
  const found: Listing = { folders: [], files: [] }
  let cursor: string | undefined
  do {
    const body = { prefix, with_delimiter: !isDeep, limit: limit ?? 1000, ...(cursor && { cursor }) }
    const path = `object/list-v2/${encoded(bucket)}`
    const page: Page = await wire.json<Page>({ method: 'POST', path, body })
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

/** What a path stands for; it may be a file and a folder at once. */
export async function lookAt(
  wire: Wire,
  { bucket, path, endsInSlash }: Remote,
): Promise<{ file: StoredFile | null; isFolder: boolean }> {
  const first = async (prefix: string) =>
    (await list(wire, bucket, { prefix, isDeep: true, limit: 1 })).files[0] ?? null
  if (path === '' || endsInSlash)
    return { file: null, isFolder: (await first(path === '' ? '' : `${path}/`)) !== null }
  const [nearest, within] = await Promise.all([first(path), first(`${path}/`)])
  // In byte order nothing that begins with a key comes before it.
  return { file: nearest?.key === path ? nearest : null, isFolder: within !== null }
}

/** Everything in a folder or a bucket, however deep. */
export const everyFileIn = async (wire: Wire, { bucket, path }: Remote): Promise<StoredFile[]> =>
  (await list(wire, bucket, { prefix: path === '' ? '' : `${path}/`, isDeep: true })).files

/** An unknown bucket lists as an empty one does: asked for by its name it is refused. */
export async function nothingAt(wire: Wire, { bucket, path }: Remote): Promise<Failure> {
  await readBucket(wire, bucket)
  return new Failure(
    'object_not_found',
    path === ''
      ? `There is nothing in ${addressOf(bucket)}.`
      : `There is nothing at ${addressOf(bucket, path)}.`,
    `plinth storage ls ${addressOf(bucket)} -r shows the files there are.`,
  )
}

export const needsRecursive = (what: string): Failure =>
  new Failure('recursive_missing', `${what}.`, 'Run it again with -r for everything in it.')

const keysAtOnce = 1000

/** The keys that were there, removed as many at once as the server takes. */
export async function removeFiles(
  wire: Wire,
  bucket: string,
  keys: readonly string[],
  removedSoFar: (count: number) => void = () => {},
): Promise<string[]> {
  const removed: string[] = []
  for (let at = 0; at < keys.length; at += keysAtOnce) {
    const prefixes = keys.slice(at, at + keysAtOnce)
    const path = `object/${encoded(bucket)}`
    const gone = await wire.json<{ name: string }[]>({ method: 'DELETE', path, body: { prefixes } })
    removed.push(...gone.map(({ name }) => name))
    if (at + keysAtOnce < keys.length) removedSoFar(removed.length)
  }
  return removed
}
