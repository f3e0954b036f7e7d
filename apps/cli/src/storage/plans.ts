// Which files go where. As with cp, a folder copied into one that exists keeps its name there.
import { readdir, stat } from 'node:fs/promises'
import { basename, join, resolve } from 'node:path'
import { Failure } from '../failure.ts'
import type { Screen } from '../print.ts'
import { clean } from '../print.ts'
import { addressOf, joined, keyFor, lastPart, type Remote } from './address.ts'
import { everyFileIn, lookAt, needsRecursive, nothingAt, type StoredFile } from './area.ts'
import { download } from './download.ts'
import { mimeTypeOf } from './mime-types.ts'
import type { Transfer } from './transfers.ts'
import { chunkBytes, unreadable, upload } from './upload.ts'
import type { Wire } from './wire.ts'

export interface Wish {
  isRecursive: boolean
  /** Null for what the name says, or what the file has already. */
  contentType: string | null
  cacheControl: string | null
}

/** What was found at the source: one file, or what is in a folder. */
export interface Found<F> {
  /** What it is called where it is copied into a folder; null when only what is in it goes there. */
  name: string | null
  isFolder: boolean
  files: { relative: string; file: F }[]
}

export interface LocalFile {
  path: string
  size: number
}

export async function findLocal(source: string, wish: Wish, screen: Screen): Promise<Found<LocalFile>> {
  const there = await reading(source, () => stat(source))
  const isBare = /(^|\/)\.{1,2}\/?$/.test(source)
  const name = isBare ? null : basename(resolve(source))
  if (there.isFile())
    return { name, isFolder: false, files: [{ relative: name!, file: { path: source, size: there.size } }] }
  if (!there.isDirectory()) throw unreadable(source, new Error('it is neither a file nor a directory'))
  if (!wish.isRecursive) throw needsRecursive(`${source} is a directory`)
  const files: Found<LocalFile>['files'] = []
  for await (const relative of filesBelow(source, '', screen)) {
    const path = join(source, relative)
    files.push({ relative, file: { path, size: (await reading(path, () => stat(path))).size } })
  }
  if (files.length > 0) return { name, isFolder: true, files }
  throw new Failure('directory_empty', `There are no files in ${source}.`, 'Name another directory.')
}

/** Links are not followed: they may lead in circles, or to files nobody meant to publish. */
async function* filesBelow(root: string, folder: string, screen: Screen): AsyncGenerator<string> {
  const directory = join(root, folder)
  const entries = await reading(directory, () => readdir(directory, { withFileTypes: true }))
  for (const entry of entries.toSorted((a, b) => (a.name < b.name ? -1 : 1))) {
    const relative = joined(folder, entry.name)
    if (entry.isDirectory()) yield* filesBelow(root, relative, screen)
    else if (entry.isFile()) yield relative
    else screen.warn(clean(`${join(root, relative)} is left out: it is not a file itself.`))
  }
}

export async function findRemote(wire: Wire, from: Remote, wish: Wish): Promise<Found<StoredFile>> {
  const { file, isFolder } = await lookAt(wire, from)
  const name = lastPart(from.path) || from.bucket
  if (file && !(isFolder && wish.isRecursive))
    return { name, isFolder: false, files: [{ relative: name, file }] }
  if (!isFolder) throw await nothingAt(wire, from)
  if (!wish.isRecursive) throw needsRecursive(`${addressOf(from.bucket, from.path)} is a folder`)
  const start = from.path === '' ? 0 : from.path.length + 1
  const files = await everyFileIn(wire, from)
  return { name, isFolder: true, files: files.map(each => ({ relative: each.key.slice(start), file: each })) }
}

/** TUS knows the seconds alone, and a large file must not silently be kept otherwise than it is asked to. */
export function checkCacheControl({ cacheControl }: Wish, found: Found<LocalFile>): void {
  if (cacheControl === null || /^(max-age=\d+|no-cache)$/.test(cacheControl)) return
  const large = found.files.find(({ file }) => file.size > chunkBytes)
  if (!large) return
  throw new Failure(
    'usage_invalid_value',
    `--cache-control cannot be "${cacheControl}" for ${large.file.path}: files over 6 MiB take seconds or no-cache.`,
    'Give its seconds, such as --cache-control 3600, or copy the large files apart.',
  )
}

export async function planUploads(
  wire: Wire,
  found: Found<LocalFile>,
  to: Remote,
  wish: Wish,
): Promise<Transfer[]> {
  const keyOf = await keysBelow(wire, found, to)
  return found.files.map(({ relative, file: { path, size } }) => {
    const key = keyOf(relative)
    const contentType = wish.contentType ?? mimeTypeOf(mimeTypeOf(path) === bytesType ? key : path)
    const cacheControl = wish.cacheControl ?? 'max-age=3600'
    const job = { from: path, bucket: to.bucket, key, contentType, cacheControl }
    return {
      from: path,
      to: addressOf(to.bucket, key),
      bytes: size,
      contentType,
      run: moved => upload(wire, job, moved),
    }
  })
}

const bytesType = mimeTypeOf('')

export async function planCopies(
  wire: Wire,
  found: Found<StoredFile>,
  to: Remote,
  wish: Wish,
): Promise<Transfer[]> {
  const keyOf = await keysBelow(wire, found, to)
  return found.files.map(({ relative, file }) => {
    const key = keyOf(relative)
    if (to.bucket === file.bucket && key === file.key)
      throw new Failure('usage_invalid_value', `${addressOf(file.bucket, key)} cannot be copied onto itself.`)
    const contentType = wish.contentType ?? file.contentType
    const cacheControl = wish.cacheControl ?? file.cacheControl
    const isChanged = wish.contentType !== null || wish.cacheControl !== null
    const metadata = { ...(contentType && { mimetype: contentType }), ...(cacheControl && { cacheControl }) }
    return {
      from: addressOf(file.bucket, file.key),
      to: addressOf(to.bucket, key),
      bytes: file.size,
      contentType,
      async run() {
        await wire.json({
          method: 'POST',
          path: 'object/copy',
          headers: { 'x-upsert': 'true' },
          body: {
            bucketId: file.bucket,
            sourceKey: file.key,
            destinationBucket: to.bucket,
            destinationKey: key,
            ...(isChanged && { copyMetadata: false, metadata }),
          },
        })
        return file.size
      },
    }
  })
}

/** The key of each file found, by its relative name. */
async function keysBelow(
  wire: Wire,
  { isFolder, name }: Found<unknown>,
  to: Remote,
): Promise<(relative: string) => string> {
  if (!isFolder) return relative => keyFor(to, relative)
  const goesInto = to.path === '' || to.endsInSlash || (name !== null && (await lookAt(wire, to)).isFolder)
  const root = name !== null && goesInto ? joined(to.path, name) : to.path
  return relative => joined(root, relative)
}

export async function planDownloads(wire: Wire, found: Found<StoredFile>, to: string): Promise<Transfer[]> {
  const goesInto = /[/\\]$/.test(to) || (await stat(to).catch(() => null))?.isDirectory() === true
  const root = found.isFolder && goesInto ? join(to, found.name!) : to
  return found.files.map(({ relative, file }) => {
    const path = found.isFolder || goesInto ? join(root, relative) : to
    const from = addressOf(file.bucket, file.key)
    return {
      from,
      to: path,
      bytes: file.size,
      contentType: file.contentType,
      async run(moved) {
        if (!isPlain(relative))
          throw new Failure('name_unsafe', `${from} has a name that would lead out of ${to}.`)
        return download(wire, { bucket: file.bucket, key: file.key, to: path }, moved)
      },
    }
  })
}

/** The platform allows no other names; this is for one that does not keep to that. */
const isPlain = (relative: string) =>
  !/[\\\0]/.test(relative) && relative.split('/').every(each => each !== '' && each !== '.' && each !== '..')

async function reading<T>(path: string, work: () => Promise<T>): Promise<T> {
  try {
    return await work()
  } catch (cause) {
    throw unreadable(path, cause)
  }
}
