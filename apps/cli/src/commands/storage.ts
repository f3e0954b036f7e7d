// Buckets of a project and what is in them.
import type { Bucket } from '@plinth/contract/storage.ts'
import type { Answer, Context } from '../context.ts'
import { Failure } from '../failure.ts'
import { bytes, clean, fields, minute, type Paint, table } from '../print.ts'
import { addressOf, lastPart, parseRemote, type Remote, withBucket } from '../storage/address.ts'
import {
  createBucket,
  everyBucket,
  list as listIn,
  lookAt,
  nothingAt,
  readBucket,
  type StoredFile,
} from '../storage/area.ts'
import { openWire, type Wire } from '../storage/wire.ts'

interface Entry {
  type: 'bucket' | 'folder' | 'file'
  name: string
  address: string
  bytes: number | null
  content_type: string | null
  updated_at: string | null
}

export async function list(context: Context): Promise<Answer> {
  const at = parseRemote(context.given.operands['address'] ?? 'ss:///')
  const isDeep = context.given.switches.has('recursive')
  const wire = await openWire(context)
  if (at.bucket === '' && !isDeep) return bucketsAnswer(await everyBucket(wire))
  const entries = at.bucket === '' ? await everythingIn(wire) : await entriesAt(wire, at, isDeep)
  return {
    data: { entries, total: entries.length },
    hints:
      entries.length > 0 ? [] : [`Nothing is there yet: plinth storage cp <file> ${addressOf(at.bucket)}/`],
    text: paint => (entries.length === 0 ? '' : entriesText(paint, entries)),
  }
}

async function everythingIn(wire: Wire): Promise<Entry[]> {
  const found: Entry[] = []
  for (const { id } of await everyBucket(wire)) {
    found.push(folderEntry('bucket', `/${id}/`, addressOf(id)))
    found.push(...(await entriesAt(wire, { bucket: id, path: '', endsInSlash: true }, true)))
  }
  return found
}

/** A folder shows what is in it; what is no folder shows everything that begins so, the file itself first. */
async function entriesAt(wire: Wire, at: Remote, isDeep: boolean): Promise<Entry[]> {
  const { bucket, path } = at
  const isFolder = path === '' || at.endsInSlash || (await lookAt(wire, at)).isFolder
  const prefix = isFolder && path !== '' ? `${path}/` : path
  const { folders, files } = await listIn(wire, bucket, { prefix, isDeep })
  if (folders.length + files.length === 0) {
    const failure = await nothingAt(wire, at)
    if (path !== '') throw failure
  }
  const shown = (key: string) => (isDeep ? `/${bucket}/${key}` : lastPart(key))
  return [
    ...folders.map(each => folderEntry('folder', `${lastPart(each.slice(0, -1))}/`, addressOf(bucket, each))),
    ...files.map(each => fileEntry(shown(each.key), each)),
  ]
}

const folderEntry = (type: 'bucket' | 'folder', name: string, address: string): Entry => ({
  type,
  name,
  address,
  bytes: null,
  content_type: null,
  updated_at: null,
})

const fileEntry = (name: string, file: StoredFile): Entry => ({
  type: 'file',
  name,
  address: addressOf(file.bucket, file.key),
  bytes: file.size,
  content_type: file.contentType,
  updated_at: file.updatedAt,
})

const entriesText = (paint: Paint, entries: readonly Entry[]) =>
  table(
    paint,
    ['NAME', 'SIZE', 'TYPE', 'UPDATED'],
    entries.map(each => [
      each.name,
      each.bytes === null ? null : bytes(each.bytes),
      each.content_type,
      each.updated_at && minute(each.updated_at),
    ]),
  )

function bucketsAnswer(buckets: readonly Bucket[]): Answer {
  const entries = buckets.map(({ id, updated_at, ...bucket }) => ({
    ...folderEntry('bucket', `${id}/`, addressOf(id)),
    updated_at,
    public: bucket.public,
    file_size_limit: bucket.file_size_limit,
    allowed_mime_types: bucket.allowed_mime_types,
  }))
  return {
    data: { entries, total: entries.length },
    hints: entries.length > 0 ? [] : ['No buckets yet: plinth storage mb ss:///<bucket> makes one.'],
    text: paint =>
      entries.length === 0
        ? ''
        : table(
            paint,
            ['NAME', 'PUBLIC', 'FILES UP TO', 'TYPES', 'UPDATED'],
            entries.map(each => [
              each.name,
              each.public ? 'yes' : 'no',
              each.file_size_limit === null ? null : bytes(each.file_size_limit),
              each.allowed_mime_types?.join(', ') ?? null,
              minute(each.updated_at),
            ]),
          ),
  }
}

export async function makeBucket(context: Context): Promise<Answer> {
  const { operands, values, switches } = context.given
  const { bucket, path } = withBucket(parseRemote(operands['address']!))
  if (path !== '')
    throw new Failure(
      'address_invalid',
      `${addressOf(bucket, path)} is more than the name of a bucket.`,
      `Folders need no making: plinth storage mb ${addressOf(bucket)}`,
    )
  const limit = values['file-size-limit']
  const types = values['allowed-mime-types']
  const wish = {
    id: bucket,
    name: bucket,
    public: switches.has('public'),
    ...(limit !== undefined && { file_size_limit: sizeIn(limit) }),
    ...(types !== undefined && { allowed_mime_types: types.split(',').map(each => each.trim()) }),
  }
  const wire = await openWire(context)
  await createBucket(wire, wish)
  const made = await readBucket(wire, bucket)
  return { data: made, text: paint => bucketText(paint, made) }
}

function sizeIn(given: string): string | number {
  if (/^\d+$/.test(given)) return Number(given)
  if (/^\d+(\.\d+)?\s*[kmg]?b$/i.test(given)) return given.replace(/\s/g, '')
  throw new Failure(
    'usage_invalid_value',
    `--file-size-limit cannot be "${given}": it is a number of bytes, or like 500KB, 20MB or 1GB.`,
  )
}

const bucketText = (paint: Paint, made: Bucket) =>
  [
    `Made ${paint.bold(clean(addressOf(made.id)))}`,
    '',
    fields(paint, [
      ['public', made.public ? 'yes' : 'no'],
      ['files up to', made.file_size_limit === null ? 'any size' : bytes(made.file_size_limit)],
      ['types', made.allowed_mime_types?.join(', ') ?? 'any'],
    ]),
  ].join('\n')
