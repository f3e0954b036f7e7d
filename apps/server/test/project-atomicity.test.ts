// Creating and deleting a project is atomic with failing statements, concurrent requests and other nodes.
import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import { after, before, test } from 'node:test'
import type { CreatedProject } from '@plinth/contract/projects.ts'
import type pg from 'pg'
import { keyring } from '#src/kernel/crypto/keys.ts'
import { createLog } from '#src/kernel/log.ts'
import { createLifecycle } from '#src/tenancy/lifecycle.ts'
import { createLogins } from '#src/tenancy/logins.ts'
import { grantsOf } from '#src/tenancy/project-grants.ts'
import { createProvisioner } from '#src/tenancy/provision.ts'
import { eventually } from './eventually.ts'
import { type Reply, startPlatform, type TestPlatform } from './harness.ts'
import { type Found, orphans, readProjects, serverSessions } from './project-databases.ts'

const { undo, connect, holdTemplate } = serverSessions()
let platform: TestPlatform
before(async () => {
  platform = await startPlatform()
})
after(() => platform.stop())

/** Starts a second node until the end of the test. */
async function startBeside(): Promise<TestPlatform> {
  const beside = await startPlatform({ beside: platform })
  undo.push(() => beside.stop())
  return beside
}

const create = (node: TestPlatform, slug: string): Promise<Reply> =>
  node.call('POST', '/api/v1/projects', { token: node.adminToken, body: { name: slug, slug } })
const remove = (node: TestPlatform, id: string): Promise<Reply> =>
  node.call('DELETE', `/api/v1/projects/${id}`, { token: node.adminToken })
const whoami = (node: TestPlatform, { id, anon_key }: CreatedProject) =>
  node.call('GET', `/v1/whoami/${id}`, { apikey: anon_key })

function untilCreating(client: pg.Client, slug: string): Promise<Found> {
  const isCreating = (row: Found) => row.slug === slug && row.status === 'creating'
  return eventually(async () => (await readProjects(client)).find(isCreating), 'the project is being created')
}

async function assertComplete(client: pg.Client, project: CreatedProject): Promise<void> {
  const found = (await readProjects(client)).find(row => row.id === project.id)
  assert.deepEqual([found?.status, found?.hasDatabase, found?.logins], ['active', true, 4])
  assert.equal((await whoami(platform, project)).status, 200)
  await platform.app.databases.asOwner({ ref: found!.ref }, session => session.script('create table t ()'))
}

test('crash: a starting node does not touch a project that another node is creating', async () => {
  const client = await connect(platform.control)
  const held = await holdTemplate(platform.control)
  const creation = create(platform, 'in-the-middle')
  await untilCreating(client, 'in-the-middle')
  const beside = await startBeside()
  await held.release()
  const reply = await creation
  assert.equal(reply.status, 201)
  await assertComplete(client, reply.body)
  assert.equal((await whoami(beside, reply.body)).status, 200)
})

test('crash: a project completed during the recovery of another is kept', async () => {
  // Simulates a project of a killed platform. The new node sees both projects as unfinished and waits for a lock on the role of
  // this one.
  const dead = { id: crypto.randomUUID(), ref: `p_dead${randomBytes(8).toString('hex')}` }
  const [client, blocker] = [await connect(platform.control), await connect(platform.control)]
  await client.query(
    `insert into projects (id, ref, name, slug, status, anon_key, service_role_key, jwt_secret)
     values ($1, $2, 'dead', 'dead', 'creating', '', '', '')`,
    [dead.id, dead.ref],
  )
  await blocker.query(`create role ${dead.ref}_owner login`)
  await blocker.query(`begin; alter role ${dead.ref}_owner connection limit 1`)

  const held = await holdTemplate(platform.control)
  const creation = create(platform, 'in-between')
  await untilCreating(client, 'in-between')
  const starting = startBeside()
  await eventually(async () => {
    const waiting = await client.query(
      `select from pg_stat_activity where wait_event_type = 'Lock' and query like '%' || $1 || '%'`,
      [`${dead.ref}_owner`],
    )
    return waiting.rowCount! > 0
  }, 'the node waits for the lock')
  await held.release()
  const reply = await creation
  assert.equal(reply.status, 201)
  await blocker.query('rollback')
  await starting
  await eventually(
    async () => (await orphans(client, [dead.ref])).length === 0,
    'the project of the killed platform is removed',
  )
  await assertComplete(client, reply.body)
})

test('crash: a project that cannot be removed does not block the start and is removed later', async () => {
  const stuck = { id: crypto.randomUUID(), ref: `p_stuck${randomBytes(8).toString('hex')}` }
  const client = await connect(platform.control)
  await client.query(`create database ${stuck.ref} is_template true`)
  await client.query(
    `insert into projects (id, ref, name, slug, status, anon_key, service_role_key, jwt_secret)
     values ($1, $2, 'stuck', 'stuck', 'deleting', '', '', '')`,
    [stuck.id, stuck.ref],
  )
  const release = () => client.query(`alter database ${stuck.ref} is_template false`)
  undo.push(async () => {
    await release().catch(() => {})
    await client.query(`drop database if exists ${stuck.ref}`)
    await client.query('delete from projects where id = $1', [stuck.id])
  })
  const project = await platform.createProject()
  const beside = await startBeside()
  assert.equal((await whoami(beside, project)).status, 200)
  await eventually(
    () => beside.logged.some(line => line.includes('"error"') && line.includes(stuck.id)),
    'a log line names the project',
  )
  await release()
  await eventually(async () => (await orphans(client, [stuck.ref])).length === 0, 'its removal')
})

test('crash: a delete during the creation is rejected, and the creation completes', async () => {
  const client = await connect(platform.control)
  const held = await holdTemplate(platform.control)
  const creation = create(platform, 'too-early')
  const { id } = await untilCreating(client, 'too-early')
  assert.ok([404, 409].includes((await remove(platform, id)).status))
  await held.release()
  const reply = await creation
  assert.equal(reply.status, 201)
  await assertComplete(client, reply.body)
})

test('crash: of concurrent deletes at least one succeeds, and nothing is left', async () => {
  const client = await connect(platform.control)
  const { id } = await platform.createProject()
  const ref = await platform.refOf(id)
  const statuses = (await Promise.all([1, 2, 3].map(() => remove(platform, id)))).map(({ status }) => status)
  assert.ok(statuses.includes(204), String(statuses))
  for (const status of statuses) assert.ok([204, 404, 409].includes(status), String(statuses))
  assert.equal((await remove(platform, id)).status, 404)
  await eventually(async () => (await orphans(client, [ref])).length === 0, 'its removal')
  const { rows } = await client.query('select status, anon_key, jwt_secret from projects where id = $1', [id])
  assert.deepEqual(rows, [{ status: 'deleted', anon_key: '', jwt_secret: '' }])
})

test('crash: eight concurrent creates succeed, and of eight with the same slug exactly one does', async () => {
  const different = await Promise.all(
    Array.from({ length: 8 }, (_, index) => create(platform, `many-${index}`)),
  )
  for (const { status, body } of different) {
    assert.equal(status, 201)
    assert.equal((await whoami(platform, body)).status, 200)
  }
  const same = await Promise.all(Array.from({ length: 8 }, () => create(platform, 'wanted')))
  assert.deepEqual(same.map(({ status }) => status).sort(), [201, ...Array(7).fill(409)])
  for (const { status, body } of same) if (status === 409) assert.equal(body.error.code, 'slug_taken')
})

test('crash: a failed CREATE DATABASE leaves nothing and frees the slug', async () => {
  const { control: name } = platform
  const [client, outside] = [await connect(name), await connect('postgres')]
  const seen = new Set<string>()
  await outside.query(`alter database ${name}_template rename to ${name}_away`)
  undo.push(() => outside.query(`alter database ${name}_away rename to ${name}_template`).catch(() => {}))
  for (let attempt = 0; attempt < 5; attempt++) {
    let reply: Reply | undefined
    const creation = create(platform, 'failing').then(answer => (reply = answer))
    while (!reply) for (const { ref } of await readProjects(client)) seen.add(ref)
    assert.deepEqual([reply.status, reply.body.error.code], [500, 'internal_error'])
    await creation
  }
  await outside.query(`alter database ${name}_away rename to ${name}_template`)
  assert.ok(seen.size > 0)
  await eventually(async () => (await orphans(client, seen)).length === 0, 'no orphan')
  await eventually(async () => (await create(platform, 'failing')).status === 201, 'the slug is free')
})

test('crash: a failed CREATE ROLE leaves no database', async () => {
  const { app, address, controlPlaneSecret } = platform
  const client = await connect(platform.control)
  const logins = {
    ...createLogins(address, keyring(controlPlaneSecret)),
    verifier: () => Promise.reject(new Error('no verifier')),
  }
  const provisioner = createProvisioner(app.control, app.cluster, logins, grantsOf([]))
  const lifecycle = createLifecycle(app.control, app.cluster, provisioner, createLog('silent'))
  const ref = `p_noroles${randomBytes(6).toString('hex')}`
  const sealed = { anon_key: '', service_role_key: '', jwt_secret: '' }
  const fields = { name: 'no roles', slug: 'no-roles', description: '', settings: {}, quotas: {}, ...sealed }
  const creation = lifecycle.create({ id: crypto.randomUUID(), ref, ...fields, ownerId: undefined })
  await assert.rejects(creation, /no verifier/)
  await eventually(async () => (await orphans(client, [ref])).length === 0, 'no orphan')
  await eventually(async () => (await create(platform, 'no-roles')).status === 201, 'the slug is free')
})

test('crash: a project with open sessions of every kind can be deleted', async () => {
  const client = await connect(platform.control)
  const project = await platform.createProject()
  const ref = await platform.refOf(project.id)
  const logins = createLogins(platform.address, keyring(platform.controlPlaneSecret))
  const tenant = async (login: 'owner' | 'api' | 'svc') => {
    const { user, password } = logins.address(ref, login)
    return connect(ref, { user, password })
  }
  const owner = await tenant('owner')
  await owner.query('create table public.notes (id int); insert into public.notes values (1)')
  await owner.query('listen changes')
  await owner.query({ name: 'prepared', text: 'select * from public.notes' })
  await owner.query('begin; lock table public.notes; declare c cursor for select * from public.notes')
  const [waiting, sleeping] = [await tenant('svc'), await tenant('api')]
  await waiting.query('set role service_role')
  // It may succeed if the session with the lock is terminated first.
  const waited = waiting.query('select * from public.notes').catch(() => undefined)
  const slept = assert.rejects(sleeping.query('select pg_sleep(600)'))
  assert.equal((await whoami(platform, project)).status, 200)
  assert.equal((await remove(platform, project.id)).status, 204)
  await Promise.all([waited, slept])
  await eventually(async () => (await orphans(client, [ref])).length === 0, 'its removal')
  await assert.rejects(tenant('owner'))
  assert.equal((await whoami(platform, project)).status, 401)
})
