// Lists files and creates buckets.
import type { Bucket } from '@plinth/contract/storage.ts'
import type { Answer, Context } from '../context.ts'
import { Failure } from '../failure.ts'
import { bytes, clean, fields, minute, type Paint, table } from '../print.ts'
import { addressOf, lastPart, parseRemote, type Remote, withBucket } from '../storage/address.ts'
import {
  createBucket,
  everyBucket,
  inspectPath,
  list as listIn,
  notFoundAt,
  readBucket,
  type StoredFile,
} from '../storage/buckets.ts'
import { openStorage, type StorageClient } from '../storage/client.ts'

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
  const client = await openStorage(context)
  if (at.bucket === '' && !isDeep) return bucketsAnswer(await everyBucket(client))
  const entries = at.bucket === '' ? await allEntries(client) : await entriesAt(client, at, isDeep)
  return {
    data: { entries, total: entries.length },
    hints:
      entries.length > 0
        ? []
        : [`There are no files yet. Upload one: plinth storage cp <file> ${addressOf(at.bucket)}/`],
    text: paint => (entries.length === 0 ? '' : entriesText(paint, entries)),
  }
}

async function allEntries(client: StorageClient): Promise<Entry[]> {
  const found: Entry[] = []
  for (const { id } of await everyBucket(client)) {
    found.push(folderEntry('bucket', `/${id}/`, addressOf(id)))
    found.push(...(await entriesAt(client, { bucket: id, path: '', endsInSlash: true }, true)))
  }
  return found
}

/** A folder lists its content. Any other path lists every file with this prefix, an exact match first. */
async function entriesAt(client: StorageClient, at: Remote, isDeep: boolean): Promise<Entry[]> {
  const { bucket, path } = at
  const isFolder = path === '' || at.endsInSlash || (await inspectPath(client, at)).isFolder
  const prefix = isFolder && path !== '' ? `${path}/` : path
  const { folders, files } = await listIn(client, bucket, { prefix, isDeep })
  if (folders.length + files.length === 0) {
    const failure = await notFoundAt(client, at)
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
    hints: entries.length > 0 ? [] : ['No buckets yet: plinth storage mb ss:///<bucket> creates one.'],
    text: paint =>
      entries.length === 0
        ? ''
        : table(
            paint,
            ['NAME', 'PUBLIC', 'MAX FILE SIZE', 'TYPES', 'UPDATED'],
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
      `${addressOf(bucket, path)} is not the address of a bucket.`,
      `Folders are created with their files. Create the bucket: plinth storage mb ${addressOf(bucket)}`,
    )
  const limit = values['file-size-limit']
  const types = values['allowed-mime-types']
  const options = {
    id: bucket,
    name: bucket,
    public: switches.has('public'),
    ...(limit !== undefined && { file_size_limit: sizeIn(limit) }),
    ...(types !== undefined && { allowed_mime_types: types.split(',').map(each => each.trim()) }),
  }
  const client = await openStorage(context)
  await createBucket(client, options)
  const created = await readBucket(client, bucket)
  return { data: created, text: paint => bucketText(paint, created) }
}

function sizeIn(given: string): string | number {
  if (/^\d+$/.test(given)) return Number(given)
  if (/^\d+(\.\d+)?\s*[kmg]?b$/i.test(given)) return given.replace(/\s/g, '')
  throw new Failure(
    'usage_invalid_value',
    `--file-size-limit cannot be "${given}": it must be a number of bytes, or a size such as 500KB, 20MB or 1GB.`,
  )
}

const bucketText = (paint: Paint, created: Bucket) =>
  [
    `Created ${paint.bold(clean(addressOf(created.id)))}`,
    '',
    fields(paint, [
      ['public', created.public ? 'yes' : 'no'],
      ['max file size', created.file_size_limit === null ? 'any size' : bytes(created.file_size_limit)],
      ['types', created.allowed_mime_types?.join(', ') ?? 'any'],
    ]),
  ].join('\n')
