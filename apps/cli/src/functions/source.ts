// Reads the code of a function from a file or a folder, as the platform takes it.
import { isUtf8 } from 'node:buffer'
import { readdir, readFile, stat } from 'node:fs/promises'
import { basename, join, resolve } from 'node:path'
import type { Files } from '@plinth/contract/functions.ts'
import { Failure } from '../failure.ts'
import { entrypoints } from './folder.ts'

/** The same as in the contract, which is not loaded because of TypeBox. */
export const maxCodeBytes = 10 * 1024 * 1024
export const maxFiles = 1000

export interface Source {
  body: { code: string; entrypoint: string } | { files: Files; entrypoint?: string }
  files: number
  bytes: number
}

export interface SourceRequest {
  cwd: string
  /** As the user wrote it, for messages. */
  path: string
  entrypoint: string | undefined
}

export async function readSource({ cwd, path, entrypoint }: SourceRequest): Promise<Source> {
  const root = resolve(cwd, path)
  const there = await withReadError(path, () => stat(root))
  if (there.isDirectory()) return readFolder(root, path, entrypoint)
  if (!there.isFile()) throw unsupported(path, 'neither a file nor a folder')
  if (entrypoint !== undefined)
    throw new Failure(
      'usage_invalid_value',
      `--entrypoint names a file of a folder, and ${path} is a file.`,
      'Name the folder with --path, or omit --entrypoint.',
    )
  return readSingle(root, path, there.size)
}

async function readSingle(file: string, shown: string, size: number): Promise<Source> {
  if (size > maxCodeBytes) throw tooLarge(shown)
  const bytes = await withReadError(shown, () => readFile(file))
  if (!isUtf8(bytes))
    throw new Failure('file_invalid', `${shown} is not text in UTF-8.`, 'Name the file with the handler.')
  return { body: { code: bytes.toString(), entrypoint: basename(file) }, files: 1, bytes: bytes.length }
}

async function readFolder(root: string, shown: string, entrypoint: string | undefined): Promise<Source> {
  const found = new Map<string, Buffer>()
  let total = 0
  for await (const path of filesBelow(root, shown, '')) {
    if (found.size === maxFiles)
      throw new Failure(
        'too_many_files',
        `${shown} has more than ${maxFiles} files, the most that a function may have.`,
        'Remove files that the function does not need. Folders node_modules and hidden files are not deployed.',
      )
    const at = join(shown, path)
    // Before it is read, because it may not fit into memory.
    total += (await withReadError(at, () => stat(join(root, path)))).size
    if (total > maxCodeBytes) throw tooLarge(shown)
    found.set(path, await withReadError(at, () => readFile(join(root, path))))
  }
  if (found.size === 0)
    throw new Failure(
      'directory_empty',
      `There are no files in ${shown}.`,
      'Name another folder with --path.',
    )
  const named = entrypoint?.replace(/^(\.\/)+/, '')
  checkEntrypoint(found, shown, named)
  const files = Object.fromEntries([...found].map(([path, bytes]) => [path, contentOf(bytes)]))
  return {
    body: { files, ...(named !== undefined && { entrypoint: named }) },
    files: found.size,
    bytes: total,
  }
}

const contentOf = (bytes: Buffer): Files[string] =>
  isUtf8(bytes) ? bytes.toString() : { base64: bytes.toString('base64') }

/** Paths with `/`, in a fixed order, without `node_modules` and hidden files. */
async function* filesBelow(root: string, shown: string, folder: string): AsyncGenerator<string> {
  const entries = await withReadError(join(shown, folder), () =>
    readdir(join(root, folder), { withFileTypes: true }),
  )
  for (const entry of entries.toSorted((a, b) => (a.name < b.name ? -1 : 1))) {
    if (entry.name.startsWith('.') || entry.name === 'node_modules') continue
    const path = folder === '' ? entry.name : `${folder}/${entry.name}`
    if (entry.isDirectory()) yield* filesBelow(root, shown, path)
    else if (entry.isFile()) yield path
    else
      throw unsupported(join(shown, path), entry.isSymbolicLink() ? 'a symbolic link' : 'not a regular file')
  }
}

function checkEntrypoint(files: ReadonlyMap<string, Buffer>, shown: string, named: string | undefined): void {
  if (named !== undefined && !files.has(named))
    throw new Failure(
      'entrypoint_missing',
      `There is no file ${named} in ${shown}, which --entrypoint names.`,
      `Write the path relative to ${shown}.`,
    )
  if (named === undefined && !entrypoints.some(each => files.has(each)))
    throw new Failure(
      'entrypoint_missing',
      `There is no index.ts in ${shown}.`,
      'Name the file with the handler with --entrypoint.',
    )
}

const unsupported = (shown: string, what: string) =>
  new Failure(
    'file_unsupported',
    `${shown} is ${what}, which cannot be deployed.`,
    'Replace it by the files that the function needs.',
  )

const tooLarge = (shown: string) =>
  new Failure(
    'function_too_large',
    `${shown} has more than ${maxCodeBytes / 1024 / 1024} MB, the most that a function may have.`,
    'Remove files that the function does not need. Folders node_modules and hidden files are not deployed.',
  )

async function withReadError<T>(shown: string, work: () => Promise<T>): Promise<T> {
  try {
    return await work()
  } catch (cause) {
    throw new Failure(
      'file_unreadable',
      `${shown} cannot be read: ${(cause as Error).message}.`,
      'Name another folder or file with --path.',
      cause,
    )
  }
}
