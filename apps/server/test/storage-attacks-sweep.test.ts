// The sweeper after a restore, a project deletion, a lost lease and concurrent writes.
import assert from 'node:assert/strict'
import fs from 'node:fs'
import { connect } from 'node:net'
import { join } from 'node:path'
import { after, before, test } from 'node:test'
import type { CreatedProject } from '@plinth/contract/projects.ts'
import { sql } from '#src/kernel/postgres/sql.ts'
import { eventually } from './eventually.ts'
import { startPlatform, type TestPlatform } from './harness.ts'
import { mebibyte } from './tus-files.ts'
import { metadataOf, offsetStream } from './tus-requests.ts'

let platform: TestPlatform
before(async () => {
  platform = await startPlatform({ settings: { PLATFORM_RATE_LIMIT_SERVICE_ROLE: '0' } })
})
after(() => platform.stop())

const folderOf = (project: string) => join(platform.config.dataDir, 'objects', project)

function piecesOf(project: string): string[] {
  if (!fs.existsSync(folderOf(project))) return []
  return fs
    .readdirSync(folderOf(project), { recursive: true, withFileTypes: true })
    .filter(each => each.isFile())
    .map(each => join(each.parentPath, each.name))
}

async function usedBytes({ id }: CreatedProject): Promise<number> {
  const { body } = await platform.call('GET', `/api/v1/projects/${id}`, { token: platform.adminToken })
  return body.storage_bytes
}

function ask(project: CreatedProject, method: string, path: string, init: RequestInit = {}) {
  const headers = { apikey: project.service_role_key, ...(init.headers as Record<string, string>) }
  return fetch(`${platform.url}/v1/storage/${project.id}/${path}`, { ...init, method, headers })
}

async function put(project: CreatedProject, name: string, bytes: number): Promise<void> {
  const reply = await ask(project, 'PUT', `object/files/${name}`, { body: new Uint8Array(bytes) })
  assert.equal(reply.status, 200, await reply.text())
}

/** A request whose body the test writes. */
function opened(
  { id, service_role_key }: CreatedProject,
  method: string,
  path: string,
  headers: Record<string, string | number>,
) {
  const { hostname, port } = new URL(platform.url)
  const request = { socket: connect(Number(port), hostname), answer: '' }
  request.socket
    .on('data', text => {
      request.answer += text
    })
    .on('error', () => {})
  const lines = Object.entries({ host: hostname, apikey: service_role_key, ...headers })
  request.socket.write(`${method} /v1/storage/${id}/${path} HTTP/1.1\r\n`)
  request.socket.write(`${lines.map(([name, value]) => `${name}: ${value}`).join('\r\n')}\r\n\r\n`)
  return request
}

/** Starts another node, which sweeps due areas. */
async function swept(holds: () => unknown, what: string): Promise<void> {
  const node = await startPlatform({ beside: platform })
  try {
    await eventually(holds, what)
  } finally {
    await node.stop()
  }
}

test('storage: the sweeper records a referenced file without a usage row and removes an unreferenced one', async () => {
  const project = await platform.createProject()
  await put(project, 'kept', 9 * mebibyte)
  await put(project, 'gone', 1000)
  const { control } = platform.app
  // Simulates a restore: newer rows are missing.
  await control.run(sql`delete from stored_files where project_id = ${project.id}`)
  await platform.app.databases.asOwner({ ref: await platform.refOf(project.id) }, session =>
    session.run(sql`delete from storage.objects where name = 'gone'`),
  )
  const before = new Date(Date.now() - 2 * 3_600_000)
  for (const piece of piecesOf(project.id)) fs.utimesSync(piece, before, before)
  await control.run(sql`
    update storage_areas set bytes = 0, sweep_at = now(), compared_at = now() - interval '2 days'
     where project_id = ${project.id}`)
  await swept(async () => (await usedBytes(project)) === 9 * mebibyte, 'the right sum')
  assert.equal(piecesOf(project.id).length, 2)
  const reply = await ask(project, 'GET', 'object/files/kept')
  assert.equal(reply.status, 200)
  assert.equal((await reply.arrayBuffer()).byteLength, 9 * mebibyte)
})

test('storage: bytes that an upload writes after the deletion of its project are removed by the next check', async () => {
  const project = await platform.createProject()
  await put(project, 'x', 1)
  const upload = opened(project, 'PUT', 'object/files/big', { 'content-length': 20 * mebibyte })
  // One full piece, and too few bytes to start the next.
  upload.socket.write(Buffer.alloc(8 * mebibyte + 1000))
  await eventually(
    () => piecesOf(project.id).some(piece => fs.statSync(piece).size > 8 * mebibyte),
    'the first piece',
  )
  await platform.projects.remove({ params: { id: project.id } })
  upload.socket.write(Buffer.alloc(12 * mebibyte - 1000))
  // On a slow machine the upload may have timed out.
  await eventually(() => upload.answer !== '' || upload.socket.closed, 'an answer or an end')
  upload.socket.destroy()
  assert.doesNotMatch(upload.answer, /^HTTP\/1.1 2/)
  await swept(() => !fs.existsSync(folderOf(project.id)), 'nothing left')
})

test('storage: files of projects that are unknown to the control database are kept', async () => {
  const unknownId = crypto.randomUUID()
  const gone = await platform.createProject()
  await platform.projects.remove({ params: { id: gone.id } })
  const file = (project: string) => join(folderOf(project), 'ab', `ab${crypto.randomUUID().slice(2)}.0`)
  const [theirs, left] = [file(unknownId), file(gone.id)]
  for (const each of [theirs, left]) {
    fs.mkdirSync(join(each, '..'), { recursive: true })
    fs.writeFileSync(each, 'sealed')
  }
  await swept(() => !fs.existsSync(left), 'what the deleted project left to be removed')
  assert.ok(fs.existsSync(theirs), 'it may belong to another platform, or to one restored from an old backup')
})

test('storage: a file deleted by SQL during a download is removed after the download, even if the quota is reached', async () => {
  const project = await platform.projects.create({
    body: { name: 'read', quotas: { max_storage_size_mb: 50 } },
  })
  const size = 40 * mebibyte
  await put(project, 'file', size)
  // Simulates the state after the first sweep.
  await platform.app.control.run(sql`update stored_files set until = null where project_id = ${project.id}`)
  // Much larger than all buffers.
  const reading = await ask(project, 'GET', 'object/files/file')
  assert.equal(reading.status, 200)
  await platform.app.databases.asOwner({ ref: await platform.refOf(project.id) }, session =>
    session.run(sql`delete from storage.objects`),
  )
  const refused = await ask(project, 'PUT', 'object/files/other', { body: new Uint8Array(20 * mebibyte) })
  assert.equal(refused.status, 413, 'a file that is being read still counts against the quota')
  await refused.body?.cancel()
  assert.ok(Buffer.from(await reading.arrayBuffer()).equals(Buffer.alloc(size)), 'the download is complete')
  await eventually(async () => (await usedBytes(project)) === 0, 'no bytes counted')
  assert.deepEqual(piecesOf(project.id), [])
})

test('storage: a project has at most 1000 unfinished uploads', async () => {
  const project = await platform.createProject()
  await put(project, 'x', 1)
  await platform.app.control.run(sql`
    insert into storage_uploads (id, project_id, version, bucket, name, content_type, cache_control, upload_metadata,
      is_upsert, expires_at)
    select gen_random_uuid(), ${project.id}, gen_random_uuid(), 'files', 'n' || i, 'a/b', '', '', false,
      now() + interval '1 day' from generate_series(1, 1000) i`)
  const headers = { 'tus-resumable': '1.0.0', 'upload-length': '1000', 'upload-metadata': metadataOf('n') }
  const reply = await ask(project, 'POST', 'upload/resumable', { headers })
  assert.equal(reply.status, 429)
  assert.equal(((await reply.json()) as { code: string }).code, 'SlowDown')
  assert.equal(await usedBytes(project), 1, 'the rejected upload does not count against the quota')
})

test('tus: a PATCH that lost its lease does not change an upload that another request completed', async () => {
  const project = await platform.createProject()
  await put(project, 'x', 1)
  const size = 3 * mebibyte
  const tus = { 'tus-resumable': '1.0.0' }
  const begun = await ask(project, 'POST', 'upload/resumable', {
    headers: { ...tus, 'upload-length': `${size}`, 'upload-metadata': metadataOf('file') },
  })
  const id = begun.headers.get('location')!.split('/').at(-1)!
  const headers = { ...tus, ...offsetStream, 'upload-offset': '0' }
  const slow = opened(project, 'PATCH', `upload/resumable/${id}`, { ...headers, 'content-length': size })
  // The missing bytes are fewer than one write.
  slow.socket.write(Buffer.alloc(size - 10, 'a'))
  await eventually(
    () => piecesOf(project.id).some(piece => fs.statSync(piece).size > 2 * mebibyte),
    'bytes on disk',
  )
  const { control } = platform.app
  const lapse = sql`update storage_uploads set held_until = '-infinity', holder = null
                     where id = ${id} and holder is not null`
  await eventually(async () => (await control.run(lapse)) === 1, 'the lease to expire')
  const whole = Buffer.alloc(size, 'b')
  const body = new Uint8Array(whole)
  const other = await ask(project, 'PATCH', `upload/resumable/${id}`, { headers, body })
  assert.equal(other.status, 204)
  slow.socket.write(Buffer.alloc(10, 'a'))
  await eventually(() => slow.answer !== '', 'an answer')
  slow.socket.destroy()
  assert.match(slow.answer, /^HTTP\/1.1 423/)
  const reply = await ask(project, 'GET', 'object/files/file')
  assert.equal(reply.status, 200)
  assert.ok(Buffer.from(await reply.arrayBuffer()).equals(whole), 'the file of the other request')
  assert.equal(await usedBytes(project), size + 1)
})

test('storage: concurrent uploads, copies, deletes and aborts keep the usage exact and within the quota', async () => {
  const limit = 10 * mebibyte
  const project = await platform.projects.create({
    body: { name: 'storm', quotas: { max_storage_size_mb: 10 } },
  })
  await put(project, 'k0', 1000)
  const json = { 'content-type': 'application/json', 'x-upsert': 'true' }
  const tus = { 'tus-resumable': '1.0.0', 'x-upsert': 'true' }
  const statuses = new Set<number>()
  const recordStatus = async (response: Promise<Response>) => {
    const reply = await response
    await reply.arrayBuffer()
    statuses.add(reply.status)
    return reply
  }
  const chunked = (size: number) =>
    new ReadableStream({
      start(controller) {
        for (let sent = 0; sent < size; sent += 50_000)
          controller.enqueue(new Uint8Array(Math.min(50_000, size - sent)))
        controller.close()
      },
    })
  const works: ((key: number, size: number) => Promise<unknown>)[] = [
    (key, size) => recordStatus(ask(project, 'PUT', `object/files/k${key}`, { body: new Uint8Array(size) })),
    (key, size) =>
      recordStatus(
        ask(project, 'PUT', `object/files/c${key}`, { body: chunked(size), duplex: 'half' } as RequestInit),
      ),
    key => {
      const body = JSON.stringify({ bucketId: 'files', sourceKey: `k${key}`, destinationKey: 'copy' })
      return recordStatus(ask(project, 'POST', 'object/copy', { headers: json, body }))
    },
    () => {
      const body = JSON.stringify({ prefixes: ['k1', 'c0', 'copy'] })
      return recordStatus(ask(project, 'DELETE', 'object/files', { headers: json, body }))
    },
    (key, size) => {
      const body = chunked(size)
      const signal = AbortSignal.timeout(5)
      const given = { body, duplex: 'half', signal } as RequestInit
      return ask(project, 'PUT', `object/files/k${key}`, given).then(
        reply => reply.arrayBuffer(),
        () => {},
      )
    },
    async (key, size) => {
      const uploadHeaders = { 'upload-length': `${size}`, 'upload-metadata': metadataOf(`t${key}`) }
      const type = { 'content-type': 'application/offset+octet-stream' }
      const begun = await recordStatus(
        ask(project, 'POST', 'upload/resumable', {
          headers: { ...tus, ...uploadHeaders, ...type },
          body: new Uint8Array(Math.floor(size / 2)),
        }),
      )
      const id = begun.headers.get('location')?.split('/').at(-1)
      if (id) await recordStatus(ask(project, 'DELETE', `upload/resumable/${id}`, { headers: tus }))
    },
  ]
  let most = 0
  const writers = Array.from({ length: 20 }, async (_, writer) => {
    for (let round = 0; round < 5; round++) {
      const size = 1 + ((writer * 37 + round * 91) % 15) * 100_000
      await works[(writer + round) % works.length]!(round % 3, size)
      most = Math.max(most, await usedBytes(project))
    }
  })
  await Promise.all(writers)
  assert.ok(most <= limit, `${most} of ${limit} bytes`)
  for (const status of statuses) assert.ok([200, 201, 204, 404, 413].includes(status), `${status}`)
  const rows = await platform.app.databases.asOwner({ ref: await platform.refOf(project.id) }, session =>
    session.rows<{ size: string }>(
      sql`select coalesce(sum((metadata->>'size')::bigint), 0)::text as size from storage.objects`,
    ),
  )
  await eventually(
    async () => (await usedBytes(project)) === Number(rows[0]!.size),
    'the sum of what is there',
  )
  const onDisk = () => piecesOf(project.id).reduce((sum, piece) => sum + fs.statSync(piece).size, 0)
  const overhead = () => piecesOf(project.id).length * 28 * 128
  await eventually(() => onDisk() <= Number(rows[0]!.size) + overhead(), 'nothing else on disk')
})
