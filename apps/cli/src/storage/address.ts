// Addresses of files of a project have the form ss:///bucket/path, as in the Supabase CLI. Anything else is a local path.
import { Failure } from '../failure.ts'

export interface Remote {
  /** Empty in `ss:///` alone. */
  bucket: string
  /** A file, or a folder without its last slash; empty for a whole bucket. */
  path: string
  /** Has a slash at the end, so it names a folder. */
  endsInSlash: boolean
}

/** Null for a local path. */
export function parseAddress(text: string): Remote | null {
  if (!/^ss:/i.test(text)) return null
  const named = /^ss:\/\/\/(.*)$/is.exec(text)?.[1]
  if (named === undefined)
    throw invalid(text, `Write it with three slashes: ss:///${text.replace(/^ss:\/*/i, '') || 'bucket/path'}`)
  const endsInSlash = named.endsWith('/')
  const segments = named.replace(/\/$/, '').split('/')
  // The server rejects such keys, and URL resolution would change them on the way to it.
  const isInvalid = named !== '' && segments.some(each => each === '' || each === '.' || each === '..')
  if (isInvalid) throw invalid(text, 'Remove empty parts, "." and "..": ss:///bucket/folder/file')
  const [bucket = '', ...path] = segments
  return { bucket, path: path.join('/'), endsInSlash }
}

export function parseRemote(text: string): Remote {
  const remote = parseAddress(text)
  if (remote) return remote
  throw invalid(
    text,
    `Addresses of files of a project look like ss:///bucket/path: ss:///${text.replace(/^[./]+/, '')}`,
  )
}

export function withBucket(remote: Remote): Remote {
  if (remote.bucket !== '') return remote
  throw invalid('ss:///', 'Name the bucket: ss:///bucket. plinth storage ls lists the buckets.')
}

export const addressOf = (bucket: string, path = ''): string => `ss:///${bucket}${path && `/${path}`}`

/** The last part of a local or remote path. */
export const lastPart = (path: string): string => path.slice(path.lastIndexOf('/') + 1)

export const joined = (folder: string, name: string): string => (folder === '' ? name : `${folder}/${name}`)

/** The key of a copied file. In a bucket or folder the file keeps its name. */
export const keyFor = (to: Remote, name: string): string =>
  to.path === '' || to.endsInSlash ? joined(to.path, name) : to.path

function invalid(text: string, fix: string): Failure {
  return new Failure('address_invalid', `"${text}" is not an address of files of a project.`, fix)
}
