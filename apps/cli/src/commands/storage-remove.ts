// Removing files of a project, alone or with all around them.
import type { Answer, Context } from '../context.ts'
import { Failure } from '../failure.ts'
import { bytes, clean } from '../print.ts'
import { addressOf, parseRemote, type Remote, withBucket } from '../storage/address.ts'
import { deleteBucket, everyFileIn, lookAt, needsRecursive, nothingAt, removeFiles } from '../storage/area.ts'
import { openWire, type Wire } from '../storage/wire.ts'

interface Doomed {
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
  const wire = await openWire(context)
  if (!isDeep) return removeNamed(wire, named)
  const doomed: Doomed[] = []
  for (const at of named.filter(isOutermost)) doomed.push({ at, files: await everythingAt(wire, at) })
  if (!given.switches.has('yes')) await confirm(context, doomed)
  return removeAll(context, wire, doomed)
}

/** Not within another one that is named, nor named before. */
function isOutermost(at: Remote, place: number, named: readonly Remote[]): boolean {
  const holds = (other: Remote) => other.path === '' || `${at.path}/`.startsWith(`${other.path}/`)
  return !named.some(
    (other, i) => other.bucket === at.bucket && holds(other) && (other.path !== at.path ? true : i < place),
  )
}

/** A bucket may be empty, but it has to be there; so has a folder, by having something in it. */
async function everythingAt(wire: Wire, at: Remote): Promise<Doomed['files']> {
  const { file } = at.path === '' || at.endsInSlash ? { file: null } : await lookAt(wire, at)
  const found = [...(file ? [file] : []), ...(await everyFileIn(wire, at))]
  if (found.length > 0) return found
  const failure = await nothingAt(wire, at)
  if (at.path !== '') throw failure
  return []
}

async function removeNamed(wire: Wire, named: readonly Remote[]): Promise<Answer> {
  const removed: string[] = []
  for (const [bucket, group] of Map.groupBy(named, at => at.bucket)) {
    const gone = await removeFiles(wire, bucket, [...new Set(group.map(({ path }) => path))])
    removed.push(...gone.map(key => addressOf(bucket, key)))
  }
  const missing = named.filter(({ bucket, path }) => !removed.includes(addressOf(bucket, path)))
  if (missing.length > 0) throw await notRemoved(wire, missing, removed.length)
  return removedAnswer(removed, [])
}

async function notRemoved(wire: Wire, missing: readonly Remote[], removed: number): Promise<Failure> {
  const at = missing[0]!
  if (missing.length === 1 && (await lookAt(wire, at)).isFolder)
    return needsRecursive(`${addressOf(at.bucket, at.path)} is a folder`)
  const { suggestion } = await nothingAt(wire, at)
  const names = missing.slice(0, 5).map(({ bucket, path }) => addressOf(bucket, path))
  const more = missing.length > names.length ? ` and ${missing.length - names.length} more` : ''
  return new Failure(
    'object_not_found',
    `There is no file ${names.join(', ')}${more}; ${count(removed)} removed.`,
    suggestion,
  )
}

async function removeAll({ screen }: Context, wire: Wire, doomed: readonly Doomed[]): Promise<Answer> {
  const removed: string[] = []
  const buckets: string[] = []
  for (const { at, files } of doomed) {
    const keys = files.map(({ key }) => key)
    const total = keys.length
    const gone = await removeFiles(wire, at.bucket, keys, so =>
      screen.progress(`${so} of ${total} files removed`),
    )
    removed.push(...gone.map(key => addressOf(at.bucket, key)))
    if (at.path !== '') continue
    await deleteBucket(wire, at.bucket)
    buckets.push(addressOf(at.bucket))
  }
  return removedAnswer(removed, buckets)
}

const count = (files: number) => (files === 1 ? '1 file was' : `${files} files were`)

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
    `Removing everything in ${shownAs(named)} needs a confirmation and nobody can be asked for it here.`,
    'Run it again with --yes.',
  )

async function confirm({ screen }: Context, doomed: readonly Doomed[]): Promise<void> {
  for (const { at, files } of doomed) {
    const size = bytes(files.reduce((sum, each) => sum + each.size, 0))
    const also = at.path === '' ? ' and the bucket itself' : ''
    screen.hint(
      clean(`${addressOf(at.bucket, at.path)}: ${files.length} files with ${size}${also} go for good.`),
    )
  }
  const { ask } = await import('../prompt.ts')
  const typed = await ask('Remove them? [y/N] ')
  if (!/^y(es)?$/i.test(typed.trim()))
    throw new Failure('confirmation_mismatch', 'Nothing was removed.', 'Answer y, or run it with --yes.')
}
