// Pieces in an S3 service that accepts requests and then hangs.
import assert from 'node:assert/strict'
import { randomBytes, randomUUID } from 'node:crypto'
import { after, before, test } from 'node:test'
import { ObjectsUnavailable, type Pieces } from '#src/kernel/objects/pieces.ts'
import { openS3Pieces, usualTimeouts } from '#src/kernel/objects/s3.ts'
import { eventually } from './eventually.ts'
import { nameIn, namesOf, pieceEngines, put, read } from './piece-engines.ts'
import { type S3Proxy, startS3Proxy } from './s3-proxy.ts'

const { s3 } = pieceEngines('S3')
/** Short only while the service hangs. */
const timeouts = { ...usualTimeouts }
const short = { requestMs: 200, idleMs: 100 }
let proxy: S3Proxy
let pieces: Pieces
before(async () => {
  proxy = await startS3Proxy(s3.settings.endpoint!)
  pieces = await openS3Pieces({ ...s3.settings, endpoint: proxy.url }, timeouts)
})
after(async () => {
  await pieces.close()
  proxy.close()
})

for (const mode of ['silent', 'stalling'] as const)
  test(`S3: a service that hangs is ObjectsUnavailable after a timeout, whatever is asked (${mode})`, async () => {
    const folder = randomUUID()
    const name = nameIn(folder)
    const bytes = randomBytes(500_000)
    await put(pieces, name, bytes)
    const requests: Record<string, () => Promise<unknown>> = {
      read: () => read(pieces, name, 0),
      write: () => put(pieces, nameIn(folder), bytes),
      list: () => namesOf(pieces, folder),
      folders: async () => {
        for await (const _ of pieces.folders());
      },
      remove: () => pieces.remove([nameIn(folder)]),
      'remove a folder': () => pieces.removeFolder(folder),
      copy: () => pieces.copy(name, nameIn(folder)),
    }
    proxy.mode = mode
    Object.assign(timeouts, short)
    try {
      for (const [what, request] of Object.entries(requests))
        await assert.rejects(request, ObjectsUnavailable, what)
      await eventually(() => proxy.open === 0, 'no request is left')
    } finally {
      proxy.mode = 'forwarding'
      Object.assign(timeouts, usualTimeouts)
    }
    assert.ok(bytes.equals(await read(pieces, name, 0)))
  })

test('S3: a bucket of a service that hangs cannot be used', async () => {
  proxy.mode = 'stalling'
  try {
    await assert.rejects(openS3Pieces({ ...s3.settings, endpoint: proxy.url }, short), {
      message: `S3_BUCKET ${s3.settings.bucket} at S3_ENDPOINT ${proxy.url} cannot be used: Timeout.`,
    })
  } finally {
    proxy.mode = 'forwarding'
  }
})

test('S3: closing ends requests that wait for a service that hangs, and later ones fail', async () => {
  const other = await openS3Pieces({ ...s3.settings, endpoint: proxy.url })
  proxy.mode = 'silent'
  try {
    const waiting = assert.rejects(put(other, nameIn(randomUUID()), 'x'), ObjectsUnavailable)
    await eventually(() => proxy.open === 1, 'the request has arrived')
    await other.close()
    await waiting
    await assert.rejects(namesOf(other, 'ab'), ObjectsUnavailable)
  } finally {
    proxy.mode = 'forwarding'
  }
})
