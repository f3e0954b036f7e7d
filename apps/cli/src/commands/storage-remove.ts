// Removes files, folders and buckets of a project.
import type { Answer, Context } from '../context.ts'
import { Failure } from '../failure.ts'
import { bytes, clean } from '../print.ts'
import { addressOf, parseRemote, type Remote, withBucket } from '../storage/address.ts'
import {
  deleteBucket,
  everyFileIn,
  inspectPath,
  needsRecursive,
  notFoundAt,
  removeFiles,
} from '../storage/buckets.ts'
import { openStorage, type StorageClient } from '../storage/client.ts'

interface Removal {
  at: Remote
  files: { key: string; size: number }[]
}

export async function remove(context: Context): Promise<Answer> {
  const { given, screen } = context
  const isDeep = given.switches.has('recursive')
  const named = given.operands['addresses']!.split('\n').map(each => withBucket(parseRemote(each)))
  for (const at of isDeep ? [] : named)
    if (at.path === '' || at.endsInSlash)
      throw needsRecursive(`${addressOf(at.bucket, at.path)} is a ${at.path === '' ? 'bucket' : 'folder'}`)
  if (isDeep && !given.switches.has('yes') && !screen.isInteractive) throw unconfirmed(named)
  const client = await openStorage(context)
  if (!isDeep) return removeNamed(client, named)
  const removals: Removal[] = []
  for (const at of named.filter(isOutermost)) removals.push({ at, files: await filesAt(client, at) })
  if (!given.switches.has('yes')) await confirm(context, removals)
  return removeAll(context, client, removals)
}

/** Whether no other given address contains this one, and it is the first of equal ones. */
function isOutermost(at: Remote, place: number, named: readonly Remote[]): boolean {
  const holds = (other: Remote) => other.path === '' || `${at.path}/`.startsWith(`${other.path}/`)
  return !named.some(
    (other, i) => other.bucket === at.bucket && holds(other) && (other.path !== at.path ? true : i < place),
  )
}

/** Fails for a missing bucket or folder; an empty bucket has no files. */
async function filesAt(client: StorageClient, at: Remote): Promise<Removal['files']> {
  const { file } = at.path === '' || at.endsInSlash ? { file: null } : await inspectPath(client, at)
  const found = [...(file ? [file] : []), ...(await everyFileIn(client, at))]
  if (found.length > 0) return found
  const failure = await notFoundAt(client, at)
  if (at.path !== '') throw failure
  return []
}

async function removeNamed(client: StorageClient, named: readonly Remote[]): Promise<Answer> {
  const removed: string[] = []
  for (const [bucket, group] of Map.groupBy(named, at => at.bucket)) {
    const gone = await removeFiles(client, bucket, [...new Set(group.map(({ path }) => path))])
    removed.push(...gone.map(key => addressOf(bucket, key)))
  }
  const missing = named.filter(({ bucket, path }) => !removed.includes(addressOf(bucket, path)))
  if (missing.length > 0) throw await notRemoved(client, missing, removed.length)
  return removedAnswer(removed, [])
}

async function notRemoved(
  client: StorageClient,
  missing: readonly Remote[],
  removed: number,
): Promise<Failure> {
  const at = missing[0]!
  if (missing.length === 1 && (await inspectPath(client, at)).isFolder)
    return needsRecursive(`${addressOf(at.bucket, at.path)} is a folder`)
  const { suggestion } = await notFoundAt(client, at)
  const names = missing.slice(0, 5).map(({ bucket, path }) => addressOf(bucket, path))
  const more = missing.length > names.length ? ` and ${missing.length - names.length} more` : ''
  return new Failure(
    'object_not_found',
    `There is no file ${names.join(', ')}${more}; ${filesWere(removed)} removed.`,
    suggestion,
  )
}

async function removeAll(
  { screen }: Context,
  client: StorageClient,
  removals: readonly Removal[],
): Promise<Answer> {
  const removed: string[] = []
  const buckets: string[] = []
  for (const { at, files } of removals) {
    const keys = files.map(({ key }) => key)
    const total = keys.length
    const gone = await removeFiles(client, at.bucket, keys, count =>
      screen.progress(`${count} of ${total} files removed`),
    )
    removed.push(...gone.map(key => addressOf(at.bucket, key)))
    if (at.path !== '') continue
    await deleteBucket(client, at.bucket)
    buckets.push(addressOf(at.bucket))
  }
  return removedAnswer(removed, buckets)
}

const filesWere = (files: number) => (files === 1 ? '1 file was' : `${files} files were`)

function removedAnswer(files: readonly string[], buckets: readonly string[]): Answer {
  const what = files.length === 1 ? files[0]! : `${files.length} files`
  return {
    data: { files, buckets, count: files.length },
    text: () => clean(`Removed ${[what, ...buckets].join(' and ')}.`),
  }
}

const shownAs = (named: readonly Remote[]) => named.map(at => addressOf(at.bucket, at.path)).join(', ')

const unconfirmed = (named: readonly Remote[]) =>
  new Failure(
    'confirmation_missing',
    `Removing everything in ${shownAs(named)} needs a confirmation, and there is no terminal to ask for it.`,
    'Run it again with --yes.',
  )

async function confirm(context: Context, removals: readonly Removal[]): Promise<void> {
  for (const { at, files } of removals) {
    const size = bytes(files.reduce((sum, each) => sum + each.size, 0))
    const also = at.path === '' ? ' and the bucket itself' : ''
    context.screen.hint(
      clean(
        `${addressOf(at.bucket, at.path)}: ${files.length} files (${size})${also} will be deleted permanently.`,
      ),
    )
  }
  const { ask } = await import('../prompt.ts')
  const typed = await ask(context, 'Remove them? [y/N] ')
  if (!/^y(es)?$/i.test(typed.trim()))
    throw new Failure('confirmation_mismatch', 'Nothing was removed.', 'Answer y, or run it with --yes.')
}
