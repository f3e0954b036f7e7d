// The files of a deployment: their paths and bytes, before anything is written.
import { createHash } from 'node:crypto'
import { type Files, maxCodeBytes, maxFiles } from '@plinth/contract/functions.ts'
import { Refusal } from '#src/kernel/errors.ts'
import { inSlices, type Sliced } from '#src/kernel/slices.ts'

export type SourceFiles = ReadonlyMap<string, Buffer>

export interface Source {
  readonly entrypoint: string
  readonly files: SourceFiles
}

export interface GivenSource {
  code?: string
  files?: Files
  entrypoint?: string
}

const defaultEntrypoints = ['index.ts', 'index.js', 'index.mjs', 'index.tsx', 'index.jsx']
const maxPathBytes = 500
const maxParts = 50
const maxFolders = 1000
/** Decoded or hashed in one slice. */
const bytesPerSlice = 256 * 1024
const filesPerSlice = 50
/** A multiple of four characters, which are three bytes. */
const base64PerSlice = 256 * 1024

/** Undefined if neither code nor files are given. `current` is the entrypoint of the version before. */
export async function readSource(
  { code, files, entrypoint }: GivenSource,
  current?: string,
): Promise<Source | undefined> {
  if (code !== undefined && files !== undefined)
    throw new Refusal(
      'invalid_request',
      'Send the code of a single file in "code", or all files in "files", not both',
    )
  if (code !== undefined) return single(code, entrypoint)
  if (files === undefined) {
    if (entrypoint !== undefined)
      throw new Refusal('invalid_request', 'Send the files together with "entrypoint"')
    return
  }
  const decoded = await inSlices(decode(files))
  const usual = current === undefined ? defaultEntrypoints : [current, ...defaultEntrypoints]
  const found = entrypoint ?? usual.find(path => decoded.has(path))
  if (found === undefined)
    throw invalid('The files have no index.ts; name the file with the handler in "entrypoint"')
  if (!decoded.has(found))
    throw invalid(`The files have no ${JSON.stringify(found)}, which "entrypoint" names`)
  return { entrypoint: found, files: decoded }
}

function single(code: string, entrypoint = 'index.ts'): Source {
  checkPath(entrypoint)
  const bytes = Buffer.from(code)
  if (bytes.length > maxCodeBytes) throw tooLarge()
  return { entrypoint, files: new Map([[entrypoint, bytes]]) }
}

function* decode(files: Files): Sliced<SourceFiles> {
  const decoded = new Map<string, Buffer>()
  const folders = new Set<string>()
  let total = 0
  let inSlice = 0
  if (Object.keys(files).length > maxFiles) throw invalid(`A function has at most ${maxFiles} files`)
  for (const [path, content] of Object.entries(files)) {
    checkPath(path)
    const bytes = typeof content === 'string' ? Buffer.from(content) : yield* fromBase64(path, content.base64)
    total += bytes.length
    inSlice += bytes.length
    if (total > maxCodeBytes) throw tooLarge()
    decoded.set(path, bytes)
    addFolders(folders, path)
    if (folders.size > maxFolders) throw invalid(`A function has at most ${maxFolders} folders`)
    if (inSlice > bytesPerSlice || decoded.size % filesPerSlice === 0) {
      inSlice = 0
      yield
    }
  }
  const both = [...decoded.keys()].find(path => folders.has(path))
  if (both !== undefined) throw invalid(`${JSON.stringify(both)} is both a file and a folder`)
  return decoded
}

/** Those above a known one are known, too. */
function addFolders(folders: Set<string>, path: string): void {
  for (let end = path.lastIndexOf('/'); end > 0; end = path.lastIndexOf('/', end - 1)) {
    const folder = path.slice(0, end)
    if (folders.has(folder)) return
    folders.add(folder)
  }
}

/** Relative, without steps upwards, and without names that the platform or Deno uses itself. */
function checkPath(path: string): void {
  const parts = path.split('/')
  const problem =
    path.startsWith('/') || /^[A-Za-z]:/.test(path)
      ? 'is absolute; paths are relative to the folder of the function'
      : problemOf(path, parts)
  if (problem) throw invalid(`The path ${JSON.stringify(path.slice(0, 200))} ${problem}`)
}

function problemOf(path: string, parts: readonly string[]): string | undefined {
  if (parts.includes('..') || parts.includes('.') || parts.includes(''))
    return 'has an empty part, "." or ".."'
  if (/[\\\p{Cc}]/u.test(path)) return 'has a backslash or a control character'
  if (Buffer.byteLength(path) > maxPathBytes || parts.some(part => Buffer.byteLength(part) > 255))
    return 'is too long'
  if (parts.length > maxParts) return `has more than ${maxParts} parts`
  if (parts.includes('node_modules')) return 'is in node_modules; import packages with npm: instead'
  return
}

function* fromBase64(path: string, text: string): Sliced<Buffer> {
  const parts: Buffer[] = []
  for (let at = 0; at < text.length; at += base64PerSlice) {
    const part = text.slice(at, at + base64PerSlice)
    const isLast = at + base64PerSlice >= text.length
    if (!(isLast ? /^[A-Za-z0-9+/]*={0,2}$/ : /^[A-Za-z0-9+/]*$/).test(part))
      throw invalid(`The content of ${JSON.stringify(path)} is not base64`)
    parts.push(Buffer.from(part, 'base64'))
    if (!isLast) yield
  }
  return Buffer.concat(parts)
}

/** Of the files with their paths, and of what they are combined with. */
export const hashOf = (source: Source, more: readonly string[]): Promise<string> =>
  inSlices(digest(source, more))

function* digest({ files, entrypoint }: Source, more: readonly string[]): Sliced<string> {
  const hash = createHash('sha256')
  hash.update(JSON.stringify([entrypoint, ...more]))
  for (const path of [...files.keys()].sort()) {
    const bytes = files.get(path)!
    hash.update(`${JSON.stringify(path)} ${bytes.length}\n`)
    for (let at = 0; at < bytes.length; at += bytesPerSlice) {
      hash.update(bytes.subarray(at, at + bytesPerSlice))
      yield
    }
  }
  return hash.digest('hex')
}

export const invalid = (message: string) => new Refusal('function_code_invalid', message)
const tooLarge = () =>
  new Refusal('function_too_large', `The files have more than ${maxCodeBytes / 1024 / 1024} MB`)
