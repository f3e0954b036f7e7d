// Turns the files of a source into transfers to a destination.
import { stat } from 'node:fs/promises'
import { join, resolve } from 'node:path'
import type { Context } from '../context.ts'
import { Failure } from '../failure.ts'
import { addressOf, joined, keyFor, type Remote } from './address.ts'
import { inspectPath, type StoredFile } from './buckets.ts'
import type { StorageClient } from './client.ts'
import { download } from './download.ts'
import type { CopyOptions, LocalFile, SourceFiles } from './sources.ts'
import type { Transfer } from './transfers.ts'
import { chunkBytes, upload } from './upload.ts'

/** TUS stores only the seconds, and a large file must not silently get another Cache-Control than requested. */
export function checkCacheControl({ cacheControl }: CopyOptions, found: SourceFiles<LocalFile>): void {
  if (cacheControl === null || /^(max-age=\d+|no-cache)$/.test(cacheControl)) return
  const large = found.files.find(({ file }) => file.size > chunkBytes)
  if (!large) return
  throw new Failure(
    'usage_invalid_value',
    `--cache-control cannot be "${cacheControl}" for ${large.file.shown}: files over 6 MiB accept only seconds or no-cache.`,
    'Give seconds, such as --cache-control 3600, or copy the large files separately.',
  )
}

export async function planUploads(
  client: StorageClient,
  found: SourceFiles<LocalFile>,
  to: Remote,
  options: CopyOptions,
): Promise<Transfer[]> {
  const keyOf = await keysBelow(client, found, to)
  // Only uploads need the table of types, so only they load it.
  const { mimeTypeOf, unknownType } = await import('./mime-types.ts')
  return found.files.map(({ relative, file: { path, shown, size } }) => {
    const key = keyOf(relative)
    const contentType = options.contentType ?? mimeTypeOf(mimeTypeOf(path) === unknownType ? key : path)
    const cacheControl = options.cacheControl ?? 'max-age=3600'
    const job = { path, from: shown, bucket: to.bucket, key, contentType, cacheControl }
    return {
      from: shown,
      to: addressOf(to.bucket, key),
      bytes: size,
      contentType,
      run: onProgress => upload(client, job, onProgress),
    }
  })
}

export async function planCopies(
  client: StorageClient,
  found: SourceFiles<StoredFile>,
  to: Remote,
  options: CopyOptions,
): Promise<Transfer[]> {
  const keyOf = await keysBelow(client, found, to)
  return found.files.map(({ relative, file }) => {
    const key = keyOf(relative)
    if (to.bucket === file.bucket && key === file.key)
      throw new Failure('usage_invalid_value', `${addressOf(file.bucket, key)} cannot be copied onto itself.`)
    const contentType = options.contentType ?? file.contentType
    const cacheControl = options.cacheControl ?? file.cacheControl
    const isChanged = options.contentType !== null || options.cacheControl !== null
    const metadata = { ...(contentType && { mimetype: contentType }), ...(cacheControl && { cacheControl }) }
    return {
      from: addressOf(file.bucket, file.key),
      to: addressOf(to.bucket, key),
      bytes: file.size,
      contentType,
      async run() {
        await client.json({
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

/** Maps relative names to keys. As with cp, a folder copied into an existing folder keeps its name there. */
async function keysBelow(
  client: StorageClient,
  { isFolder, name }: SourceFiles<unknown>,
  to: Remote,
): Promise<(relative: string) => string> {
  if (!isFolder) return relative => keyFor(to, relative)
  const goesInto =
    to.path === '' || to.endsInSlash || (name !== null && (await inspectPath(client, to)).isFolder)
  const root = name !== null && goesInto ? joined(to.path, name) : to.path
  return relative => joined(root, relative)
}

export async function planDownloads(
  client: StorageClient,
  found: SourceFiles<StoredFile>,
  to: string,
  { cwd, temporaryFiles }: Context,
): Promise<Transfer[]> {
  const goesInto =
    /[/\\]$/.test(to) || (await stat(resolve(cwd, to)).catch(() => null))?.isDirectory() === true
  const root = found.isFolder && goesInto ? join(to, found.name!) : to
  return found.files.map(({ relative, file }) => {
    const shown = found.isFolder || goesInto ? join(root, relative) : to
    const from = addressOf(file.bucket, file.key)
    return {
      from,
      to: shown,
      bytes: file.size,
      contentType: file.contentType,
      async run(onProgress) {
        if (!isSafe(relative))
          throw new Failure('name_unsafe', `The name of ${from} would write outside of ${to}.`)
        const { bucket, key } = file
        return download(
          client,
          { bucket, key, path: resolve(cwd, shown), to: shown, temporaryFiles },
          onProgress,
        )
      },
    }
  })
}

/** A second check of the names from the platform, so that no download is written outside of its folder. */
const isSafe = (relative: string) =>
  !/[\\\0]/.test(relative) && relative.split('/').every(each => each !== '' && each !== '.' && each !== '..')
