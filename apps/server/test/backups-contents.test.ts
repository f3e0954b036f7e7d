// What a backup contains besides the tables of the tenant: queues, policies on platform tables, and files, which are stored once.
import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import fs from 'node:fs'
import { join } from 'node:path'
import { after, before, test } from 'node:test'
import { storedPieceBytes } from '#src/kernel/objects/layout.ts'
import { type BackedUpProject, backedUpProject } from './backup-project.ts'
import { startPlatform, type TestPlatform } from './harness.ts'

let platform: TestPlatform
before(async () => {
  platform = await startPlatform()
})
after(() => platform?.stop())

/** A project that is backed up only when the test says so. */
async function newProject(): Promise<BackedUpProject> {
  const project = await backedUpProject(platform)
  await project.backups.configure({ params: { id: project.id }, body: { verify_enabled: false } })
  return project
}

interface Served {
  id: string
  service_role_key: string
}

async function queue({ id, service_role_key: key }: Served, method: string, path = '', body?: unknown) {
  const reply = await platform.call(method, `/v1/queue/${id}/queues${path}`, {
    token: key,
    apikey: key,
    ...(body !== undefined && { body }),
  })
  assert.ok(reply.status < 300, `${method} ${path}: ${reply.status} ${JSON.stringify(reply.body)}`)
  return reply.body
}

interface QueueState {
  /** Hides them for an hour. */
  read: unknown[]
  archived: unknown[]
  nextId: number
}

async function stateOf(project: Served): Promise<QueueState> {
  const shown = (messages: { msg_id: number; message: unknown }[]) =>
    messages.map(({ msg_id: id, message }) => [id, message]).sort()
  return {
    read: shown(await queue(project, 'POST', '/jobs/read', { vt: 3600, qty: 10 })),
    archived: shown(await queue(project, 'GET', '/jobs/archived')),
    nextId: (await queue(project, 'POST', '/jobs/send', { message: 'later' })).msg_id,
  }
}

test('backups: the messages of a queue and its archive are restored, in place and as a new project', async () => {
  const project = await newProject()
  await queue(project, 'POST', '', { name: 'jobs' })
  for (const message of ['done', { to: 'ada' }, 'ünïcode'])
    await queue(project, 'POST', '/jobs/send', { message })
  await queue(project, 'POST', '/jobs/archive', { msg_id: 1 })
  const backup = await project.backUp()
  assert.equal(backup.error, null)
  await queue(project, 'POST', '/jobs/pop')
  await queue(project, 'POST', '/jobs/replay', { msg_id: 1 })
  await queue(project, 'POST', '/jobs/send', { message: 'not in the backup' })

  const expected: QueueState = {
    read: [
      [2, { to: 'ada' }],
      [3, 'ünïcode'],
    ],
    archived: [[1, 'done']],
    nextId: 4,
  }
  const params = { id: project.id, backup_id: backup.id }
  const { restore, project: made } = await project.backups.restore({
    params,
    body: { new_project: { name: 'with a queue' } },
  })
  const { status, error } = await project.restoreEnded(restore.id)
  assert.deepEqual([status, error], ['done', null])
  assert.deepEqual(await stateOf(made!), expected)
  assert.equal((await project.restore(backup.id)).error, null)
  assert.deepEqual(await stateOf(project), expected)
})

test('restore: policies on tables of the platform are those of the backup, as the catalogue has them', async () => {
  const project = await newProject()
  // Not from pg_dump, which makes both the backup and its comparison.
  const found = () =>
    project.rows<{ policyname: string }>(`
      select * from pg_policies where schemaname in ('storage', 'realtime')
       order by schemaname, tablename, policyname`)
  const own = ['avatars', 'listeners', 'never_public', 'own_files', 'public_buckets', 'speakers']
  await project.sql(`
    create policy avatars on storage.objects for select to anon using (bucket_id = 'avatars');
    create policy own_files on storage.objects for all to authenticated
      using (owner_id = auth.uid()::text) with check (bucket_id <> 'closed');
    create policy never_public on storage.objects as restrictive for delete to public using (bucket_id <> 'avatars');
    create policy public_buckets on storage.buckets for select to anon using (public);
    create policy listeners on realtime.messages for select to authenticated using (realtime.topic() = 'room');
    create policy speakers on realtime.messages for insert to authenticated with check (extension = 'broadcast')`)
  const expected = await found()
  const names = expected.map(({ policyname: name }) => name)
  assert.deepEqual(
    own.filter(name => !names.includes(name)),
    [],
  )
  const backup = await project.backUp()
  assert.equal(backup.error, null)
  await project.sql(`
    drop policy avatars on storage.objects;
    drop policy never_public on storage.objects;
    drop policy public_buckets on storage.buckets;
    alter policy own_files on storage.objects to anon using (true) with check (true);
    drop policy listeners on realtime.messages;
    alter policy speakers on realtime.messages with check (true);
    create policy later on realtime.messages for select to anon using (true)`)
  assert.notDeepEqual(await found(), expected)
  assert.equal((await project.restore(backup.id)).error, null)
  assert.deepEqual(await found(), expected)
})

async function upload({ id, service_role_key: key }: Served, name: string, body: Buffer): Promise<void> {
  const answer = await fetch(`${platform.url}/v1/${id}/storage/v1/object/papers/${name}`, {
    method: 'POST',
    headers: { authorization: `Bearer ${key}`, 'content-type': 'application/octet-stream' },
    body,
  })
  assert.equal(answer.status, 200, await answer.text())
}

/** What the store has of a project: pieces of its files, which all backups share, and files of the backups themselves. */
function stored(project: Served) {
  const found = fs
    .readdirSync(join(platform.config.dataDir, 'backups', project.id), {
      recursive: true,
      withFileTypes: true,
    })
    .filter(each => each.isFile())
    .map(({ name, parentPath }) => {
      const { ino, mtimeMs, size } = fs.statSync(join(parentPath, name))
      return { name, ino, mtimeMs, size }
    })
    .sort((one, other) => (one.name < other.name ? -1 : 1))
  return {
    pieces: found.filter(({ name }) => !/^[0-9a-f-]{36}-/.test(name)),
    bytesOf: (backupId: string) =>
      found.reduce((sum, { name, size }) => sum + (name.startsWith(`${backupId}-`) ? size : 0), 0),
  }
}

test('backups: a file is stored once, and a further backup adds only the bytes of new files', async () => {
  const project = await newProject()
  await project.sql(`insert into storage.buckets (id, name) values ('papers', 'papers')`)
  // Two pieces.
  const size = 9 * 1024 * 1024
  const laterSize = 300_000
  await upload(project, 'large', randomBytes(size))
  const first = await project.backUp()
  const { pieces, bytesOf } = stored(project)
  const fileBytes = storedPieceBytes(size, 0) + storedPieceBytes(size, 1)
  assert.deepEqual(
    pieces.map(piece => piece.size),
    [storedPieceBytes(size, 0), storedPieceBytes(size, 1)],
  )
  assert.deepEqual([first.files, first.stored_bytes], [1, fileBytes + bytesOf(first.id)])

  const second = await project.backUp()
  assert.deepEqual(stored(project).pieces, pieces, 'the pieces were not written again')
  assert.deepEqual([second.files, second.stored_bytes], [1, stored(project).bytesOf(second.id)])
  assert.ok(second.stored_bytes < size)
  assert.ok(second.bytes > size, 'its contents are those of the whole project')

  await upload(project, 'later', randomBytes(laterSize))
  const third = await project.backUp()
  const now = stored(project)
  const added = now.pieces.filter(({ ino }) => !pieces.some(piece => piece.ino === ino))
  assert.deepEqual(
    now.pieces.filter(piece => !added.includes(piece)),
    pieces,
  )
  assert.deepEqual(
    added.map(piece => piece.size),
    [storedPieceBytes(laterSize, 0)],
  )
  assert.deepEqual(
    [third.files, third.stored_bytes],
    [2, storedPieceBytes(laterSize, 0) + now.bytesOf(third.id)],
  )
  assert.equal((await project.verify(third.id)).verify_error, null)
})
