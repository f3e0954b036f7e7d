// Hostile callers and project owners: denial of service, filling the disk, privilege escalation.
import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { eventually } from './eventually.ts'
import { StorageNode, type StoredFiles } from './storage-node.ts'
import { mebibyte } from './tus-files.ts'
import { createUpload, headUpload, metadataOf, offsetStream, patchUpload } from './tus-requests.ts'

const node = new StorageNode()
before(() => node.start({ settings: { PLATFORM_RATE_LIMIT_ANON: '0' } }))
after(() => node.remove())

const json = { 'content-type': 'application/json' }
const tus = { 'tus-resumable': '1.0.0' }
const base64 = (text: string) => Buffer.from(text).toString('base64')

const post = (files: StoredFiles, path: string, body: unknown, headers: Record<string, string> = {}) =>
  files.fetch('POST', path, { body: JSON.stringify(body), headers: { ...json, ...headers } })

/** Runs SQL as the project's owner. */
async function asOwner(files: StoredFiles, sql: string): Promise<any> {
  const reply = await fetch(`${files.base.replace('/v1/storage/', '/v1/rest/')}/rpc/exec_sql`, {
    method: 'POST',
    headers: { ...files.headers, ...json },
    body: JSON.stringify({ sql }),
  })
  assert.equal(reply.status, 200, sql)
  return reply.json()
}

const asAnon = ({ project }: StoredFiles) => ({ apikey: project.anon_key })

async function untilClean(files: StoredFiles, bytes: number, pieces: number): Promise<void> {
  await eventually(async () => (await files.usedBytes()) === bytes, `${bytes} bytes counted`)
  await eventually(() => files.pieces().length === pieces, `${pieces} pieces on disk`)
}

test('storage: a Range of spaces is rejected at once', async () => {
  const files = await node.createProject()
  await files.put('a', Buffer.alloc(10))
  const before = node.cpuMs()
  for (const start of ['bytes=', 'bytes=1-', 'bytes=-']) {
    const reply = await files.fetch('GET', 'object/files/a', {
      headers: { range: `${start}${' '.repeat(30_000)}x` },
    })
    assert.equal(reply.status, 416)
  }
  const ms = node.cpuMs() - before
  assert.ok(ms < 1000, `${ms} ms of CPU`)
})

test('storage: prefix, search and cursor have a maximum length, and the highest Unicode characters work', async () => {
  const files = await node.createProject()
  await files.put('a', Buffer.alloc(10))
  const last = '\u{10ffff}'
  const ask = async (path: string, body: object) =>
    (await post(files, `object/${path}/files`, body, asAnon(files))).status
  for (const path of ['list', 'list-v2']) {
    assert.equal(await ask(path, { prefix: last.repeat(500) }), 200)
    assert.equal(await ask(path, { prefix: last.repeat(600) }), 400)
    assert.equal(await ask(path, { prefix: 'x'.repeat(2_000_000) }), 400)
  }
  assert.equal(await ask('list', { search: 'x'.repeat(1025) }), 400)
  const cursor = { column: 'name', order: 'asc', at: null, name: 'a', prefix: '', groups: false }
  const cursorOf = (more: object) => base64(JSON.stringify({ ...cursor, ...more }))
  assert.equal(await ask('list-v2', { cursor: cursorOf({}) }), 200)
  assert.equal(await ask('list-v2', { cursor: cursorOf({ more: 'x'.repeat(20_000) }) }), 400)
})

test('storage: a copy over the quota closes its source', async () => {
  const files = await node.createProject({ max_storage_size_mb: 2 })
  await files.put('a', Buffer.alloc(1.5 * mebibyte))
  const copied = await post(files, 'object/copy', {
    bucketId: 'files',
    sourceKey: 'a',
    destinationKey: 'b',
  })
  assert.equal(copied.status, 413)
  assert.equal((await files.fetch('DELETE', 'object/files/a')).status, 200)
  await untilClean(files, 0, 0)
})

test('storage: a file deleted during a download is removed completely, even if its row has a wrong size', async () => {
  const files = await node.createProject()
  await files.put('a', Buffer.alloc(40 * mebibyte))
  // The first piece has the length it has in a file of this size.
  await asOwner(files, `update storage.objects set metadata = metadata || '{"size": ${8 * mebibyte + 1}}'`)
  const reading = await files.opened('GET', 'object/files/a', { range: `bytes=0-${8 * mebibyte - 1}` })
  // The client stops reading, so the rest waits on the platform.
  reading.socket.once('data', () => reading.socket.pause())
  await eventually(() => reading.answer.startsWith('HTTP/1.1 206'), 'an answer')
  assert.equal((await files.fetch('DELETE', 'object/files/a')).status, 200)
  reading.socket.destroy()
  await untilClean(files, 0, 0)
})

test('storage: aborted downloads leave no open files', async () => {
  const files = await node.createProject()
  for (const name of ['a', 'b']) await files.put(name, Buffer.alloc(40 * mebibyte))
  const reading = await files.opened('GET', 'object/files/a', {})
  reading.socket.once('data', () => reading.socket.pause())
  const head = Object.entries({ host: 'x', ...files.headers }).map(([name, value]) => `${name}: ${value}`)
  const path = `${new URL(files.base).pathname}/object/files/b`
  reading.socket.write(`GET ${path} HTTP/1.1\r\n${head.join('\r\n')}\r\n\r\n`)
  await eventually(() => reading.answer.startsWith('HTTP/1.1 200'), 'an answer')
  await eventually(() => node.openPieces() === 2, 'the second waits for its turn')
  reading.socket.destroy()
  for (const name of ['a', 'b'])
    assert.equal((await files.fetch('DELETE', `object/files/${name}`)).status, 200)
  await untilClean(files, 0, 0)
  assert.equal(node.openPieces(), 0)
})

test('storage: an upload whose object is rejected ends and leaves no uncounted bytes', async () => {
  const files = await node.createProject()
  await files.put('x', Buffer.alloc(1))
  await asOwner(
    files,
    `create function public.refuse() returns trigger language plpgsql as $$
       begin if new.version <> 'none' then raise exception 'no'; end if; return new; end $$;
     create trigger refuse before insert on storage.objects for each row execute function public.refuse()`,
  )
  const upload = await createUpload(files, 'n', mebibyte)
  assert.equal(await patchUpload(files, upload, 0, Buffer.alloc(mebibyte)), 400)
  assert.equal((await headUpload(files, upload)).status, 404)
  assert.equal(await patchUpload(files, upload, 0, Buffer.alloc(mebibyte - 1)), 404)
  await untilClean(files, 1, 1)
})

const strange = {
  'half of a pair': '{"a":"\\ud800"}',
  'a thousand levels': `{"a":${'['.repeat(1000)}${']'.repeat(1000)}}`,
  'a NUL': '{"a":"\\u0000"}',
}
for (const [what, metadata] of Object.entries(strange))
  test(`storage: metadata with ${what} is rejected and reserves no quota`, async () => {
    const files = await node.createProject()
    await files.put('x', Buffer.alloc(1))
    const begun = await files.fetch('POST', 'upload/resumable', {
      headers: {
        ...tus,
        'upload-length': '1000',
        'upload-metadata': `${metadataOf('n')},metadata ${base64(metadata)}`,
      },
    })
    assert.equal(begun.status, 400)
    const raw = await files.fetch('PUT', 'object/files/n', {
      body: 'abc',
      headers: { 'x-metadata': base64(metadata) },
    })
    assert.equal(raw.status, 400)
    await untilClean(files, 1, 1)
  })

test('storage: emptying a bucket ends even if a trigger inserts the objects again', async () => {
  const files = await node.createProject()
  await files.put('x', Buffer.alloc(1))
  await asOwner(
    files,
    `create table public.deleted (name text);
     grant all on public.deleted to service_role;
     create function public.again() returns trigger language plpgsql as $$
       begin
         insert into public.deleted values (old.name);
         insert into storage.objects (bucket_id, name) values (old.bucket_id, old.name || 'x');
         return null;
       end $$;
     create trigger again after delete on storage.objects for each row execute function public.again()`,
  )
  assert.equal((await post(files, 'bucket/files/empty', {})).status, 200)
  assert.deepEqual(await asOwner(files, 'select name from public.deleted'), [{ name: 'x' }])
})

test('storage: a token without upsert cannot finish an upload with upsert', async () => {
  const files = await node.createProject()
  await files.put('x', Buffer.alloc(1))
  await asOwner(
    files,
    `create policy "anon adds" on storage.objects for insert to anon with check (true);
     create policy "anon sees" on storage.objects for select to anon using (true)`,
  )
  const anon = asAnon(files)
  const begun = await files.fetch('POST', 'upload/resumable', {
    headers: {
      ...anon,
      ...tus,
      'upload-length': '4',
      'x-upsert': 'true',
      'upload-metadata': metadataOf('victim'),
    },
  })
  assert.equal(begun.status, 201, 'no object exists yet')
  const id = begun.headers.get('location')!.split('/').at(-1)
  const signed = await post(files, 'object/upload/sign/files/victim', {}, anon)
  const { token } = (await signed.json()) as { token: string }
  await files.put('victim', Buffer.from('good'))
  const finish = (path: string, headers: Record<string, string>) =>
    fetch(`${files.base}/upload/resumable/${path}`, {
      method: 'PATCH',
      body: 'evil',
      headers: { ...tus, ...offsetStream, 'upload-offset': '0', ...headers },
    })
  assert.equal((await finish(`sign/${id}`, { 'x-signature': token })).status, 400)
  assert.equal((await finish(`${id}`, anon)).status, 403)
  assert.equal((await files.get('victim')).toString(), 'good')
})

test('storage: a copy validates its headers like an upload', async () => {
  const files = await node.createProject()
  await files.put('a', Buffer.alloc(1))
  const places = { bucketId: 'files', sourceKey: 'a', destinationKey: 'b' }
  for (const metadata of [{ cacheControl: 'a'.repeat(1000) }, { mimetype: 'text/html\r\nx: y' }]) {
    const { status } = await post(files, 'object/copy', { ...places, metadata })
    assert.ok([400, 415].includes(status), `${status}`)
  }
  assert.equal(await files.statusOf('b'), 404)
})

test('storage: an invalid bucket limit does not disable other limits', async () => {
  const files = await node.createProject()
  await files.put('a', Buffer.alloc(1))
  await asOwner(
    files,
    `alter table storage.buckets drop constraint buckets_file_size_limit_check;
     alter table storage.buckets alter file_size_limit type numeric, alter allowed_mime_types type text;
     update storage.buckets set file_size_limit = 'NaN', allowed_mime_types = 'image/png'`,
  )
  await files.put('b', Buffer.alloc(1))
  const upload = await files.opened('PUT', 'object/files/c', { 'content-length': 60 * mebibyte })
  await eventually(() => upload.answer !== '', 'an answer')
  assert.match(upload.answer, /^HTTP\/1.1 413/)
  upload.socket.destroy()
})

test('storage: a long download name is truncated safely inside a surrogate pair', async () => {
  const files = await node.createProject()
  await files.put('a', Buffer.alloc(10))
  const name = encodeURIComponent(`${'a'.repeat(254)}😀`)
  const reply = await files.fetch('GET', `object/files/a?download=${name}`)
  assert.equal(reply.status, 200)
  assert.match(reply.headers.get('content-disposition')!, /^attachment; filename=a{254}/)
})

test('storage: a body that arrives byte by byte is stored correctly', async () => {
  const files = await node.createProject()
  await files.put('x', Buffer.alloc(1))
  const upload = await files.opened('PUT', 'object/files/bytes', { 'transfer-encoding': 'chunked' })
  const bytes = Array.from({ length: 70_000 }, (_, at) => String.fromCharCode(97 + (at % 26)))
  upload.socket.write(`${bytes.map(each => `1\r\n${each}\r\n`).join('')}0\r\n\r\n`)
  await eventually(() => upload.answer !== '', 'an answer')
  assert.match(upload.answer, /^HTTP\/1.1 200/)
  assert.ok((await files.get('bytes')).equals(Buffer.from(bytes.join(''))))
})

test('storage: a caller without access gets the same error for existing and missing objects', async () => {
  const files = await node.createProject()
  await files.put('secret', Buffer.from('secret'))
  const requests: [method: string, path: string, body?: string][] = [
    ['GET', 'object/files/'],
    ['HEAD', 'object/files/'],
    ['GET', 'object/authenticated/files/'],
    ['GET', 'object/public/files/'],
    ['GET', 'object/info/files/'],
    ['GET', 'object/info/public/files/'],
    ['GET', 'render/image/public/files/'],
    ['GET', 'render/image/authenticated/files/'],
    ['DELETE', 'object/files/'],
    ['POST', 'object/sign/files/', '{"expiresIn":9}'],
    ['POST', 'object/upload/sign/files/', '{}'],
    ['POST', 'object/files/', '{}'],
    ['PUT', 'object/files/', '{}'],
  ]
  for (const [method, path, body] of requests) {
    const [there, missing] = await Promise.all(
      ['secret', 'absent'].map(async name => {
        const headers = { ...asAnon(files), ...(body !== undefined && json) }
        const reply = await files.fetch(method, path + name, { headers, body: body ?? null })
        return [reply.status, await reply.text()]
      }),
    )
    assert.ok([403, 404].includes(there![0] as number), `${method} ${path}: ${there}`)
    assert.deepEqual(there, missing, `${method} ${path}`)
  }
})
