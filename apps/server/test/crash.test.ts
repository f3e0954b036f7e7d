// A project's creation and deletion are whole or nothing: whoever is killed, whatever fails, whoever else is at
// work on the same server.
import assert from 'node:assert/strict'
import { type ChildProcess, spawn } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { once } from 'node:events'
import fs from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, afterEach, before, test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import type { CreatedProject } from '@plinth/contract/projects.ts'
import pg from 'pg'
import { keyring } from '#src/kernel/crypto/keys.ts'
import { createLog } from '#src/kernel/log.ts'
import { createLifecycle } from '#src/tenancy/lifecycle.ts'
import { createLogins } from '#src/tenancy/logins.ts'
import { createProvisioner } from '#src/tenancy/provision.ts'
import { call, type Reply, startPlatform, type TestPlatform, testServer } from './harness.ts'

const main = fileURLToPath(new URL('../src/main.ts', import.meta.url))
const control = `t_crash_${randomBytes(5).toString('hex')}`
const adminToken = randomBytes(24).toString('hex')
const cwd = fs.mkdtempSync(join(tmpdir(), 'plinth-crash-'))
const server = testServer()
const environment = {
  PATH: process.env['PATH'],
  TMPDIR: tmpdir(),
  // It is started many times.
  NODE_COMPILE_CACHE: process.env['NODE_COMPILE_CACHE'],
  PLATFORM_PORT: '0',
  PLATFORM_DISK_RESERVE_MB: '0',
  PLATFORM_ADMIN_TOKEN: adminToken,
  CONTROL_PLANE_SECRET: randomBytes(24).toString('hex'),
  DATABASE_URL: `postgres://${server.user}:${server.password}@${encodeURIComponent(server.host)}:${server.port}/${control}`,
}

// The platform that is killed

let child: ChildProcess
let url: string
/** Every ref its control database has ever held. */
const refs = new Set<string>()
let inControl: pg.Client
/** The nodes that live on, for everything that needs no kill. */
let platform: TestPlatform

/** Undone after each test, in reverse, whether it passed or not. */
const undo: (() => Promise<unknown>)[] = []

before(async () => {
  ;[platform] = await Promise.all([startPlatform(), start()])
  inControl = await connect(control)
  undo.length = 0
})

afterEach(async () => {
  for (const step of undo.splice(0).reverse()) await step()
})

after(async () => {
  await kill()
  fs.rmSync(cwd, { recursive: true, force: true })
  await look(inControl)
  await inControl.end()
  await platform.asSuperuser('postgres', async session => {
    await session.script(`alter database ${control}_template is_template false`)
    for (const name of [...refs, `${control}_template`, control])
      await session.script(`drop database if exists ${name} with (force)`)
    for (const ref of refs)
      await session.script(`drop role if exists ${ref}_owner, ${ref}_api, ${ref}_svc, ${ref}_auth`)
  })
  await platform.stop()
})

async function start(): Promise<void> {
  child = spawn(process.execPath, [main], { cwd, env: environment, stdio: ['ignore', 'ignore', 'pipe'] })
  let said = ''
  child.stderr!.setEncoding('utf8').on('data', text => (said += text))
  await eventually(() => said.includes('Next:') || child.exitCode !== null, 'a start', 120_000)
  url = /running at (\S+)/.exec(said)?.[1] ?? assert.fail(`it should have started: ${said}`)
}

async function kill(): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return
  child.kill('SIGKILL')
  await once(child, 'exit')
}

const manage = (method: string, path: string, body?: unknown) =>
  call(`${url}/api/v1${path}`, method, { token: adminToken, body })
/** An answer may never come. */
const fire = (method: string, path: string, body?: unknown) =>
  void manage(method, path, body).catch(() => undefined)

async function connect(database: string, over: Partial<pg.ClientConfig> = {}): Promise<pg.Client> {
  const { host, port, user, password } = server
  const client = new pg.Client({ host, port, user, password, database, ...over })
  client.on('error', () => {})
  await client.connect()
  undo.push(() => client.end().catch(() => {}))
  return client
}

async function eventually(holds: () => unknown, what: string, withinMs = 30_000): Promise<void> {
  for (const end = Date.now() + withinMs; !(await holds()); await sleep(5))
    assert.ok(Date.now() < end, `${what} within ${withinMs} ms`)
}

interface Found {
  id: string
  ref: string
  slug: string
  status: string
  hasDatabase: boolean
  roles: number
  logins: number
}

/** Every project of the control database, finished or not, and what the server has of it. */
async function look(client: pg.Client): Promise<Found[]> {
  const { rows } = await client.query<Found>(`
    select id, ref, slug, status,
           exists (select from pg_database where datname = ref) as "hasDatabase",
           (select count(*)::int from pg_roles where rolname in (ref || '_owner', ref || '_api', ref || '_svc', ref || '_auth')) as roles,
           (select count(*)::int from pg_roles where rolcanlogin and rolname in (ref || '_owner', ref || '_api', ref || '_svc', ref || '_auth')) as logins
      from projects`)
  if (client === inControl) for (const { ref } of rows) refs.add(ref)
  return rows
}

/** What the server still has of projects that are not there any more. */
async function orphans(client: pg.Client, among: Iterable<string>): Promise<string[]> {
  const { rows } = await client.query<{ name: string }>(
    `select has.name
       from unnest($1::text[]) as given(ref)
      cross join lateral (
        select datname as name from pg_database where datname = ref
        union all
        select rolname from pg_roles where rolname in (ref || '_owner', ref || '_api', ref || '_svc', ref || '_auth')) has
      where not exists (
        select from projects where projects.ref = given.ref and status in ('active', 'suspended'))`,
    [[...among]],
  )
  return rows.map(({ name }) => name)
}

async function assertWhole(): Promise<void> {
  for (const { ref, status, hasDatabase, logins } of await look(inControl)) {
    if (status === 'deleted') continue
    assert.equal(status, 'active')
    assert.deepEqual([hasDatabase, logins], [true, 4], `${ref} is complete`)
  }
  assert.deepEqual(await orphans(inControl, refs), [])
}

/** Acts, kills at the given moment and starts again; says whether that caught a project halfway. */
async function killDuring(act: () => void, moment: () => Promise<unknown>): Promise<boolean> {
  act()
  await moment()
  await kill()
  const found = await look(inControl)
  await start()
  await eventually(async () => !(await look(inControl)).some(isUnfinished), 'the recovery')
  await assertWhole()
  return found.some(isUnfinished)
}

const isUnfinished = ({ status }: Found) => status === 'creating' || status === 'deleting'

/** The slug is free, or its project complete; the project that has it now. */
async function claim(slug: string): Promise<string> {
  const reply = await manage('POST', '/projects', { name: slug, slug })
  assert.ok([201, 409].includes(reply.status), JSON.stringify(reply.body))
  const { rows } = await inControl.query(`select id from projects where slug = $1 and status = 'active'`, [
    slug,
  ])
  assert.equal(rows.length, 1)
  return rows[0].id
}

test('killed at any moment of a creation and a deletion, the next start finishes or removes', async () => {
  let victim = await claim('first')
  await claim('second')
  const since = performance.now()
  await Promise.all([claim('victim'), manage('DELETE', `/projects/${victim}`)])
  // As long as both take together, on this machine and today, and somewhat longer.
  const wholeMs = Math.max(120, (performance.now() - since) * 1.3)
  const trials = 25
  let halfway = 0
  for (let trial = 0; trial < trials; trial++) {
    const slug = `phoenix-${trial}`
    victim = await claim(trial === 0 ? 'victim' : `phoenix-${trial - 1}`)
    const wasHalfway = await killDuring(
      () => {
        fire('POST', '/projects', { name: slug, slug })
        fire('DELETE', `/projects/${victim}`)
      },
      () => sleep((trial * wholeMs) / (trials - 1)),
    )
    if (wasHalfway) halfway++
  }
  assert.ok(halfway >= 3, `only ${halfway} of ${trials} kills came at the right time`)
})

const steps: [string, 'POST' | 'DELETE', (found: Found) => boolean][] = [
  ['the row is written', 'POST', ({ status }) => status === 'creating'],
  ['the roles are made', 'POST', ({ status, roles }) => status === 'creating' && roles === 4],
  ['the database is made', 'POST', ({ status, hasDatabase }) => status === 'creating' && hasDatabase],
  ['the row says so', 'DELETE', ({ status }) => status === 'deleting'],
  ['the logins are closed', 'DELETE', ({ status, logins }) => status === 'deleting' && logins === 0],
  ['the database is gone', 'DELETE', ({ status, hasDatabase }) => status === 'deleting' && !hasDatabase],
]
for (const [step, method, isReached] of steps)
  test(`killed when ${step} in a ${method === 'POST' ? 'creation' : 'deletion'}, nothing is left over`, async () => {
    const slug = `step-${randomBytes(3).toString('hex')}`
    const id = method === 'DELETE' ? await claim(slug) : ''
    const ended = async () =>
      (await look(inControl)).some(
        row =>
          row.slug === slug && (isReached(row) || row.status === (method === 'POST' ? 'active' : 'deleted')),
      )
    await killDuring(
      () =>
        fire(
          method,
          `/projects/${id}`.replace(/\/$/, ''),
          method === 'POST' ? { name: slug, slug } : undefined,
        ),
      () => eventually(ended, step),
    )
    const mine = (await look(inControl)).filter(row => row.slug === slug && row.status !== 'deleted')
    if (method === 'DELETE') assert.deepEqual(mine, [])
    await claim(slug)
  })

test('a database that Postgres finishes making after the platform was killed does not stay', async () => {
  const slug = 'late'
  const held = await holdTemplate(control)
  fire('POST', '/projects', { name: slug, slug })
  await eventually(isCloning, 'a database being made')
  await kill()
  await look(inControl)
  await start()
  await held.release()
  await eventually(async () => !(await isCloning()), 'the end of the statement')
  await eventually(async () => (await look(inControl)).every(row => row.slug !== slug), 'no row')
  await eventually(async () => (await orphans(inControl, refs)).length === 0, 'no orphan')
  await assertWhole()
  await claim(slug)

  async function isCloning(): Promise<boolean> {
    const running = await inControl.query(
      `select from pg_stat_activity where state = 'active' and query like 'create database%' || $1 || '%'`,
      [`${control}_template`],
    )
    return running.rowCount === 1
  }
})

// Nodes that live

/** CREATE DATABASE waits while somebody is connected to its template, for up to 5 seconds. */
async function holdTemplate(name: string) {
  const template = `${name}_template`
  const outside = await connect('postgres')
  const open = (isOpen: boolean) => outside.query(`alter database ${template} allow_connections ${isOpen}`)
  await open(true)
  undo.push(() => open(false))
  const inside = await connect(template)
  return { release: () => inside.end() }
}

/** A second node, for this test. */
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

async function untilCreating(client: pg.Client, slug: string): Promise<Found> {
  let found: Found | undefined
  await eventually(async () => {
    found = (await look(client)).find(row => row.slug === slug && row.status === 'creating')
    return found
  }, 'a creation under way')
  return found!
}

async function assertComplete(client: pg.Client, project: CreatedProject): Promise<void> {
  const found = (await look(client)).find(row => row.id === project.id)
  assert.deepEqual([found?.status, found?.hasDatabase, found?.logins], ['active', true, 4])
  assert.equal((await whoami(platform, project)).status, 200)
  await platform.app.databases.asOwner({ ref: found!.ref }, session => session.script('create table t ()'))
}

test('a node that starts in the middle of a creation leaves the project alone', async () => {
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

test('a project finished while a starting node removes another is left alone', async () => {
  // Left by a dead platform. The new node gets stuck on its role, having seen both as unfinished.
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
  }, 'the node to be stuck')
  await held.release()
  const reply = await creation
  assert.equal(reply.status, 201)
  await blocker.query('rollback')
  await starting
  await eventually(
    async () => (await orphans(client, [dead.ref])).length === 0,
    'the removal of the dead one',
  )
  await assertComplete(client, reply.body)
})

test('a project that cannot be removed does not keep a node from starting, and goes when it can', async () => {
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
    'a log line that names it',
  )
  await release()
  await eventually(async () => (await orphans(client, [stuck.ref])).length === 0, 'its removal')
})

test('a deletion while the project is still being made is refused, and the creation completes', async () => {
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

test('of deletions at once at least one succeeds, and nothing is left', async () => {
  const client = await connect(platform.control)
  const { id } = await platform.createProject()
  const ref = await platform.refOf(id)
  const statuses = (await Promise.all([1, 2, 3].map(() => remove(platform, id)))).map(({ status }) => status)
  assert.ok(statuses.includes(204), String(statuses))
  for (const status of statuses) assert.ok([204, 404, 409].includes(status), String(statuses))
  assert.equal((await remove(platform, id)).status, 404)
  assert.deepEqual(await orphans(client, [ref]), [])
  const { rows } = await client.query('select status, anon_key, jwt_secret from projects where id = $1', [id])
  assert.deepEqual(rows, [{ status: 'deleted', anon_key: '', jwt_secret: '' }])
})

test('eight creations at once all succeed, and of eight with one slug exactly one', async () => {
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

test('a creation whose database cannot be made leaves nothing, and its slug is free', async () => {
  const { control: name } = platform
  const [client, outside] = [await connect(name), await connect('postgres')]
  const seen = new Set<string>()
  await outside.query(`alter database ${name}_template rename to ${name}_away`)
  undo.push(() => outside.query(`alter database ${name}_away rename to ${name}_template`).catch(() => {}))
  for (let attempt = 0; attempt < 5; attempt++) {
    let reply: Reply | undefined
    const creation = create(platform, 'failing').then(answer => (reply = answer))
    while (!reply) for (const { ref } of await look(client)) seen.add(ref)
    assert.deepEqual([reply.status, reply.body.error.code], [500, 'internal_error'])
    await creation
  }
  await outside.query(`alter database ${name}_away rename to ${name}_template`)
  assert.ok(seen.size > 0)
  await eventually(async () => (await orphans(client, seen)).length === 0, 'no orphan')
  assert.equal((await create(platform, 'failing')).status, 201)
})

test('a creation whose roles cannot be made leaves no database', async () => {
  const { app, address, controlPlaneSecret } = platform
  const client = await connect(platform.control)
  const logins = {
    ...createLogins(address, keyring(controlPlaneSecret)),
    verifier: () => Promise.reject(new Error('no verifier')),
  }
  const provisioner = createProvisioner(app.control, app.cluster, logins)
  const lifecycle = createLifecycle(app.control, app.cluster, provisioner, createLog('silent'))
  const ref = `p_noroles${randomBytes(6).toString('hex')}`
  const sealed = { anon_key: '', service_role_key: '', jwt_secret: '' }
  const wish = { name: 'no roles', slug: 'no-roles', description: '', settings: {}, quotas: {}, ...sealed }
  const creation = lifecycle.create({ id: crypto.randomUUID(), ref, ...wish, ownerId: undefined })
  await assert.rejects(creation, /no verifier/)
  await eventually(async () => (await orphans(client, [ref])).length === 0, 'no orphan')
  assert.equal((await create(platform, 'no-roles')).status, 201)
})

test('a project whose tenant left sessions of every kind open is deleted all the same', async () => {
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
  // Whether it is answered in between, when the lock's holder is gone and it is not yet, does not matter.
  const waited = waiting.query('select * from public.notes').catch(() => undefined)
  const slept = assert.rejects(sleeping.query('select pg_sleep(600)'))
  assert.equal((await whoami(platform, project)).status, 200)
  assert.equal((await remove(platform, project.id)).status, 204)
  await Promise.all([waited, slept])
  assert.deepEqual(await orphans(client, [ref]), [])
  await assert.rejects(tenant('owner'))
  assert.equal((await whoami(platform, project)).status, 401)
})
