// Files and functions of a parent that change while it is copied.
import assert from 'node:assert/strict'
import fs from 'node:fs'
import { join } from 'node:path'
import { after, before, test } from 'node:test'
import { keyring } from '#src/kernel/crypto/keys.ts'
import { sealer } from '#src/kernel/crypto/sealed.ts'
import { raw, sql } from '#src/kernel/postgres/sql.ts'
import { FilesChanged, type ParentState, parentState } from '#src/services/branches/parent-state.ts'
import { createArchives } from '#src/services/functions/archives.ts'
import { createLogins } from '#src/tenancy/logins.ts'
import { type BackedUpProject, backedUpProject } from './backup-project.ts'
import { anyHoldMs, branchesOf, ownerSession } from './branch-project.ts'
import { eventually } from './eventually.ts'
import { startPlatform, type TestPlatform } from './harness.ts'

let platform: TestPlatform
before(async () => {
  platform = await startPlatform({ branchHoldMs: anyHoldMs })
})
after(() => platform?.stop())

interface Keys {
  id: string
  service_role_key: string
}

async function works(reply: ReturnType<TestPlatform['call']>): Promise<any> {
  const { status, body } = await reply
  assert.ok(status < 300, `${status} ${JSON.stringify(body)}`)
  return body
}
const manage = (method: string, { id }: Keys, path: string, body?: unknown) =>
  works(
    platform.call(method, `/api/v1/projects/${id}${path}`, {
      token: platform.adminToken,
      ...(body ? { body } : {}),
    }),
  )
const object = (method: string, { id, service_role_key: token }: Keys, name: string, body?: string) =>
  works(
    platform.call(method, `/v1/${id}/storage/v1/object/papers/${name}`, {
      token,
      ...(body !== undefined && { body, headers: { 'content-type': 'text/plain' } }),
    }),
  )
const deploy = (project: Keys, name: string) =>
  manage('POST', project, '/functions', { name, code: `Deno.serve(() => new Response('${name}'))` })

async function parentWithBucket(): Promise<BackedUpProject> {
  const parent = await backedUpProject(platform)
  await parent.sql(`
    create table notes (id int primary key); insert into notes values (1);
    insert into storage.buckets (id, name) values ('papers', 'papers')`)
  return parent
}

const versions = async ({ id }: Keys): Promise<string[]> =>
  (
    await platform.app.control.rows<{ version: string }>(
      sql`select version from stored_files where project_id = ${id} order by version`,
    )
  ).map(({ version }) => version)
const pieces = async (folder: string) => {
  const names: string[] = []
  for await (const { name } of platform.app.pieces.list(folder)) names.push(name)
  return names.toSorted()
}

test('branch: has the functions and files of the moment at which its database was copied', async () => {
  const parent = await parentWithBucket()
  await object('POST', parent, 'a', 'before')
  await deploy(parent, 'early')
  const holder = await ownerSession(platform, parent.id)
  await holder.query('begin; lock table notes in access exclusive mode')
  const { api, ended } = branchesOf(platform, parent.id)
  const branch = await api.create({ params: { id: parent.id }, body: { name: 'moment' } })
  const ref = await platform.refOf(parent.id)
  const waiting = sql`select from pg_stat_activity where datname = ${ref} and wait_event_type = 'Lock'`
  await eventually(() => platform.app.control.row(waiting), 'the table is read')
  await deploy(parent, 'late')
  await manage('DELETE', parent, '/functions/early')
  await object('PUT', parent, 'a', 'after')
  await eventually(async () => (await versions(parent)).length === 1, 'the replaced version is removed')
  await holder.query('rollback')
  await holder.end()
  const { status, error } = await ended('moment')
  assert.deepEqual([status, error], ['active', null])
  const { functions } = await manage('GET', branch, '/functions')
  assert.deepEqual(
    functions.map(({ name }: { name: string }) => name),
    ['early'],
  )
  assert.equal(await object('GET', branch, 'a'), 'before')
  const called = () =>
    platform.call('POST', `/v1/${branch.id}/functions/v1/early`, { token: branch.service_role_key })
  await eventually(async () => (await called()).body === 'early', 'the function runs')
})

test('branch: fails if bytes of a file are missing, and says so', async () => {
  const parent = await parentWithBucket()
  await object('POST', parent, 'a', 'text')
  await object('POST', parent, 'b', 'another text')
  const objects = join(platform.config.dataDir, 'objects')
  const stored = fs.readdirSync(join(objects, parent.id), { recursive: true, withFileTypes: true })
  const file = stored.find(each => each.isFile())!
  fs.unlinkSync(join(file.parentPath, file.name))
  const { api, ended } = branchesOf(platform, parent.id)
  const { id } = await api.create({ params: { id: parent.id }, body: { name: 'without' } })
  const { status, error } = await ended('without')
  assert.equal(status, 'failed')
  assert.match(error!, /^Files of the project .*: 1$/)
  assert.ok(!fs.existsSync(join(objects, id)), 'the other file is not left')
})

/** A copy of the state to another project, step by step. `snapshot` has the database of the parent. */
async function copying(
  parent: Keys,
  work: (
    state: ParentState,
    target: Keys,
    atSnapshot: (change: () => Promise<void>) => Promise<void>,
  ) => Promise<void>,
): Promise<void> {
  const target = await platform.createProject()
  const parentRef = await platform.refOf(parent.id)
  const { control, projectData, pieces: objects } = platform.app
  const deriveKey = keyring(platform.controlPlaneSecret)
  const logins = createLogins(platform.address, deriveKey)
  const task = {
    id: crypto.randomUUID(),
    project_id: parent.id,
    branch_id: target.id,
    kind: 'create' as const,
    attempts: 1,
    claimed_at: new Date().toISOString(),
  }
  const branch = {
    id: target.id,
    ref: await platform.refOf(target.id),
    parentId: parent.id,
    parentRef,
    schemaOnly: false,
    status: 'creating' as const,
  }
  const watching = { signal: AbortSignal.timeout(120_000), progress() {} }
  const state = parentState(
    { control, logins, deriveKey, projectData, pieces: objects },
    task,
    branch,
    watching,
  )
  await state.begin()
  await work(state, target, change =>
    platform.asSuperuser(parentRef, async session => {
      await session.script('begin isolation level repeatable read; select from storage.objects limit 1')
      await change()
      await state.complete({ rows: statement => session.rows(raw(statement)) })
    }),
  )
}

test('parent state: a file that was replaced before its row was read is noticed', async () => {
  const parent = await parentWithBucket()
  await copying(parent, async (state, _, atSnapshot) => {
    await object('POST', parent, 'a', 'between')
    await assert.rejects(
      atSnapshot(async () => {
        await object('DELETE', parent, 'a')
        await eventually(async () => (await versions(parent)).length === 0, 'its row is removed')
        await state.note()
      }),
      FilesChanged,
    )
    // Again, with nothing that changes.
    await object('POST', parent, 'a', 'again')
    await atSnapshot(() => state.note())
  })
})

test('parent state: a file whose bytes were removed before they were copied is noticed', async () => {
  const parent = await parentWithBucket()
  await copying(parent, async (state, _, atSnapshot) => {
    await object('POST', parent, 'a', 'between')
    const removed = async () => {
      await platform.app.pieces.remove(await pieces(parent.id))
      await state.note()
    }
    await assert.rejects(atSnapshot(removed), FilesChanged)
  })
})

test('parent state: files that a served branch removes meanwhile are copied again', async () => {
  const parent = await parentWithBucket()
  await object('POST', parent, 'a', 'text')
  await copying(parent, async (state, target, atSnapshot) => {
    await atSnapshot(async () => {
      await state.note()
      const copied = await pieces(target.id)
      assert.equal(copied.length, 1)
      await platform.app.pieces.remove(copied)
    })
    assert.equal((await pieces(target.id)).length, 1)
  })
})

test('parent state: a row that never had bytes and an upload that has not ended do not matter', async () => {
  const parent = await parentWithBucket()
  await parent.sql(`
    insert into storage.objects (bucket_id, name, version) values
      ('papers', 'none', null), ('papers', 'some', 'a text'), ('papers', 'unknown', '${crypto.randomUUID()}')`)
  await object('POST', parent, 'a', 'text')
  await platform.app.control.run(sql`
    insert into stored_files (project_id, version, size, until)
    values (${parent.id}, ${crypto.randomUUID()}, 100, now() + interval '1 hour')`)
  await copying(parent, (state, _, atSnapshot) => atSnapshot(() => state.note()))
})

test('parent state: code that was copied in vain is removed after a day', async () => {
  const parent = await parentWithBucket()
  await deploy(parent, 'greet')
  await copying(parent, async (state, target) => {
    await state.note()
    const { control, pieces: objects } = platform.app
    const archives = createArchives(control, objects, sealer(keyring(platform.controlPlaneSecret)('sealed')))
    const ids = await control.rows<{ id: string }>(
      sql`select id from function_archives where project_id = ${target.id}`,
    )
    const folders = ids.map(({ id }) => archives.folderOf(target.id, id))
    const count = async () => (await Promise.all(folders.map(pieces))).flat().length
    const stored = await count()
    assert.ok(stored > 0)
    for (const [hours, left] of [
      [5, stored],
      [25, 0],
    ] as const) {
      const at = raw(`now() - interval '${hours} hours'`)
      await control.run(sql`update function_archives set created_at = ${at} where project_id = ${target.id}`)
      await archives.removeUnused()
      assert.equal(await count(), left)
    }
  })
})
