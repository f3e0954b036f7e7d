// Files of a project are written ss:///bucket/path, as for the Supabase CLI; anything else is a path of this machine.
import { Failure } from '../failure.ts'

export interface Remote {
  /** Empty in `ss:///` alone. */
  bucket: string
  /** A file, or a folder without its last slash; empty for a whole bucket. */
  path: string
  /** Written with a slash at its end: only a folder can be meant. */
  endsInSlash: boolean
}

/** Null for a path of this machine. */
export function parseAddress(text: string): Remote | null {
  if (!/^ss:/i.test(text)) return null
  const named = /^ss:\/\/\/(.*)$/is.exec(text)?.[1]
  if (named === undefined)
    throw invalid(text, `Write it with three slashes: ss:///${text.replace(/^ss:\/*/i, '') || 'bucket/path'}`)
  const endsInSlash = named.endsWith('/')
  const segments = named.replace(/\/$/, '').split('/')
  // The server refuses such keys, and on the way to it a URL would be resolved to another one.
  const isOdd = named !== '' && segments.some(each => each === '' || each === '.' || each === '..')
  if (isOdd) throw invalid(text, 'Leave out empty parts, "." and "..": ss:///bucket/folder/file')
  const [bucket = '', ...path] = segments
  return { bucket, path: path.join('/'), endsInSlash }
}

export function parseRemote(text: string): Remote {
  const remote = parseAddress(text)
  if (remote) return remote
  throw invalid(
    text,
    `Files of a project are written like ss:///bucket/path: ss:///${text.replace(/^[./]+/, '')}`,
  )
}

export function withBucket(remote: Remote): Remote {
  if (remote.bucket !== '') return remote
  throw invalid('ss:///', 'Name the bucket: ss:///bucket. plinth storage ls shows those there are.')
}

export const addressOf = (bucket: string, path = ''): string => `ss:///${bucket}${path && `/${path}`}`

/** The last part of a path, whichever side it is on. */
export const lastPart = (path: string): string => path.slice(path.lastIndexOf('/') + 1)

export const joined = (folder: string, name: string): string => (folder === '' ? name : `${folder}/${name}`)

/** A name for what is copied: itself, unless a folder is named to keep it under its own name. */
export const keyFor = (to: Remote, name: string): string =>
  to.path === '' || to.endsInSlash ? joined(to.path, name) : to.path

function invalid(text: string, fix: string): Failure {
  return new Failure('address_invalid', `"${text}" is not the address of files of a project.`, fix)
}
