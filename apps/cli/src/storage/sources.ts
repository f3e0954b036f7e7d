// Finds the files to copy, on this machine or in a project.
import { readdir, stat } from 'node:fs/promises'
import { basename, join, resolve } from 'node:path'
import type { Context } from '../context.ts'
import { Failure } from '../failure.ts'
import { clean } from '../print.ts'
import { addressOf, joined, lastPart, type Remote } from './address.ts'
import { everyFileIn, inspectPath, needsRecursive, notFoundAt, type StoredFile } from './buckets.ts'
import type { StorageClient } from './client.ts'
import { unreadable } from './upload.ts'

export interface CopyOptions {
  isRecursive: boolean
  /** Null for the type of the extension, or of the remote file. */
  contentType: string | null
  cacheControl: string | null
}

/** One file, or the files of a folder. */
export interface SourceFiles<F> {
  /** Its name inside a destination folder; null when only its content is copied. */
  name: string | null
  isFolder: boolean
  files: { relative: string; file: F }[]
}

export interface LocalFile {
  /** Absolute. */
  path: string
  /** As the user wrote it. */
  shown: string
  size: number
}

export async function findLocal(
  source: string,
  options: CopyOptions,
  { cwd, screen }: Context,
): Promise<SourceFiles<LocalFile>> {
  const root = resolve(cwd, source)
  const there = await withReadError(source, () => stat(root))
  const isContentOnly = /(^|\/)\.{1,2}\/?$/.test(source)
  const name = isContentOnly ? null : basename(root)
  if (there.isFile())
    return {
      name,
      isFolder: false,
      files: [{ relative: name!, file: { path: root, shown: source, size: there.size } }],
    }
  if (!there.isDirectory()) throw unreadable(source, new Error('it is neither a file nor a directory'))
  if (!options.isRecursive) throw needsRecursive(`${source} is a directory`)
  const files: SourceFiles<LocalFile>['files'] = []
  const onSkipped = (relative: string) =>
    screen.warn(clean(`${join(source, relative)} is skipped: it is not a regular file.`))
  for await (const relative of filesBelow(source, root, '', onSkipped)) {
    const [path, shown] = [join(root, relative), join(source, relative)]
    files.push({ relative, file: { path, shown, size: (await withReadError(shown, () => stat(path))).size } })
  }
  if (files.length > 0) return { name, isFolder: true, files }
  throw new Failure('directory_empty', `There are no files in ${source}.`, 'Name another directory.')
}

/** Symbolic links are not followed: they may form a loop, or lead to files outside of the folder. */
async function* filesBelow(
  source: string,
  root: string,
  folder: string,
  onSkipped: (relative: string) => void,
): AsyncGenerator<string> {
  const entries = await withReadError(join(source, folder), () =>
    readdir(join(root, folder), { withFileTypes: true }),
  )
  for (const entry of entries.toSorted((a, b) => (a.name < b.name ? -1 : 1))) {
    const relative = joined(folder, entry.name)
    if (entry.isDirectory()) yield* filesBelow(source, root, relative, onSkipped)
    else if (entry.isFile()) yield relative
    else onSkipped(relative)
  }
}

export async function findRemote(
  client: StorageClient,
  from: Remote,
  options: CopyOptions,
): Promise<SourceFiles<StoredFile>> {
  const { file, isFolder } = await inspectPath(client, from)
  const name = lastPart(from.path) || from.bucket
  if (file && !(isFolder && options.isRecursive))
    return { name, isFolder: false, files: [{ relative: name, file }] }
  if (!isFolder) throw await notFoundAt(client, from)
  if (!options.isRecursive) throw needsRecursive(`${addressOf(from.bucket, from.path)} is a folder`)
  const start = from.path === '' ? 0 : from.path.length + 1
  const files = await everyFileIn(client, from)
  return { name, isFolder: true, files: files.map(each => ({ relative: each.key.slice(start), file: each })) }
}

async function withReadError<T>(path: string, work: () => Promise<T>): Promise<T> {
  try {
    return await work()
  } catch (cause) {
    throw unreadable(path, cause)
  }
}
