// PLATFORM_DISK_RESERVE_MB: below this free space writes are rejected, and an operator can still free space. The tests set
// a reserve that no disk has.
import assert from 'node:assert/strict'
import { mkdirSync, mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, describe, test } from 'node:test'
import type { CreatedProject } from '@plinth/contract/projects.ts'
import pg from 'pg'
import { keyring } from '#src/kernel/crypto/keys.ts'
import { createLog } from '#src/kernel/log.ts'
import { sql } from '#src/kernel/postgres/sql.ts'
import { startDiskReserve } from '#src/tenancy/disk-reserve.ts'
import { createLogins, type Login } from '#src/tenancy/logins.ts'
import { databasesOf } from '#src/tenancy/provision.ts'
import { eventually } from './eventually.ts'
import { type CallOptions, type Reply, startPlatform, type TestPlatform } from './harness.ts'

const petabyte = String(1024 ** 3)
const settings = { PLATFORM_DISK_RESERVE_MB: petabyte, PLATFORM_RATE_LIMIT_SERVICE_ROLE: '0' }
const clusterDir = mkdtempSync(join(tmpdir(), 'plinth-reserve-'))
mkdirSync(join(clusterDir, 'pg_wal'))
/** A node with free space, and one without on the same databases. */
let roomy: TestPlatform
let platform: TestPlatform
let project: CreatedProject
let spare: CreatedProject

const user = { email: 'ada@example.test', password: 'correct horse' }
const administrator = { email: 'admin@example.test', password: 'correct horse battery', role: 'super_admin' }

before(async () => {
  roomy = await startPlatform({ settings: { PLATFORM_RATE_LIMIT_SERVICE_ROLE: '0' } })
  ;[project, spare] = await Promise.all([roomy.createProject(), roomy.createProject()])
  const made = (reply: Reply) => assert.ok(reply.status < 300, JSON.stringify(reply.body))
  made(
    await call('POST', 'rest/*/rpc/exec_sql', {
      on: roomy,
      body: {
        sql: `create table notes (id int primary key, text text default '');
          insert into notes select i from generate_series(1, 20) i;
          create table unwanted (id int);
          create table unlucky (id int);
          create function count_notes() returns bigint language sql as 'select count(*) from notes';
          create function add_note() returns void language sql as 'insert into notes values (500)'`,
      },
    }),
  )
  made(await call('POST', 'queue/*/queues', { on: roomy, body: { name: 'mail' } }))
  made(await call('POST', 'queue/*/queues/mail/send_batch', { on: roomy, body: { messages: [1, 2, 3] } }))
  made(await call('POST', 'storage/*/bucket', { on: roomy, body: { name: 'b' } }))
  const text = { body: 'some text', headers: { 'content-type': 'text/plain' } }
  made(await call('POST', 'storage/*/object/b/a', { on: roomy, ...text }))
  made(await call('POST', 'auth/*/signup', { on: roomy, body: user }))
  made(await roomy.call('POST', '/api/v1/admin/users', { token: roomy.adminToken, body: administrator }))
  platform = await startPlatform({ settings, beside: roomy, clusterDir })
})
after(async () => {
  await platform?.stop()
  await roomy?.stop()
  rmSync(clusterDir, { recursive: true, force: true })
})

type Options = CallOptions & { on?: TestPlatform }
const call = (method: string, path: string, { on = platform, ...options }: Options = {}) =>
  on.call(method, `/v1/${path.replace('*', project.id)}`, {
    apikey: project.service_role_key,
    token: project.service_role_key,
    ...options,
  })
const manage = (method: string, path: string, body?: unknown) =>
  platform.call(method, `/api/v1${path.replace('*', project.id)}`, { token: platform.adminToken, body })

async function works(reply: Promise<Reply>): Promise<any> {
  const { status, body } = await reply
  assert.ok(status < 300, `${status} ${JSON.stringify(body)}`)
  return body
}

describe('below the reserve', () => {
  const text = { body: 'x', headers: { 'content-type': 'text/plain' } }
  const metadata = `bucketName ${btoa('b')},objectName ${btoa('t')}`
  const writes: [method: string, path: string, options?: Options][] = [
    ['POST', 'rest/*/notes', { body: { id: 100 } }],
    ['PATCH', 'rest/*/notes?id=eq.1', { body: { text: 'x' } }],
    ['PUT', 'rest/*/notes?id=eq.1', { body: { id: 1 } }],
    ['POST', 'rest/*/rpc/add_note', { body: {} }],
    ['POST', 'rest/*/rpc/exec_sql', { body: { sql: 'insert into notes values (100)' } }],
    ['POST', 'queue/*/queues', { body: { name: 'more' } }],
    ['POST', 'queue/*/queues/mail/send', { body: { message: 1 } }],
    ['POST', 'queue/*/queues/mail/archive', { body: { msg_id: 1 } }],
    ['POST', 'storage/*/bucket', { body: { name: 'more' } }],
    ['POST', 'storage/*/object/b/new', text],
    [
      'POST',
      'storage/*/upload/resumable',
      { headers: { 'tus-resumable': '1.0.0', 'upload-length': '4', 'upload-metadata': metadata } },
    ],
    ['POST', 'cron/*/jobs', { body: { name: 'j', schedule: '0 0 * * *', command: 'select 1' } }],
    ['POST', 'auth/*/signup', { body: { ...user, email: 'bob@example.test' } }],
    ['POST', 'auth/*/admin/users', { body: { ...user, email: 'bob@example.test' } }],
  ]
  for (const [method, path, options] of writes)
    test(`disk reserve: ${method} ${path} is 503`, async () => {
      const { status, headers, body } = await call(method, path, options)
      assert.deepEqual([status, body.code], [503, 'disk_reserve_reached'], JSON.stringify(body))
      assert.match(headers.get('retry-after') ?? '', /^\d+$/)
      assert.match(body.hint, /PLATFORM_DISK_RESERVE_MB/)
    })

  for (const [path, body] of [
    ['/projects', { name: 'one more' }],
    ['/projects/*/db/push', { migrations: [{ version: '1', name: 'm', sql: 'create table m (id int)' }] }],
    ['/projects/*/users', { email: 'bob@example.test', password: 'correct horse' }],
    ['/projects/*/users/import', { users: [{ email: 'bob@example.test' }] }],
    ['/projects/*/schema/tables', { name: 'more', columns: [{ name: 'id', type: 'int' }] }],
  ] as const)
    test(`disk reserve: POST ${path} is 503`, async () => {
      const reply = await manage('POST', path, body)
      assert.deepEqual([reply.status, reply.body.error.code], [503, 'disk_reserve_reached'])
      assert.match(reply.headers.get('retry-after') ?? '', /^\d+$/)
    })

  test('disk reserve: a request without a valid credential gets 401, not 503', async () => {
    const reply = await call('POST', 'rest/*/notes', { apikey: 'no key', token: 'no key', body: {} })
    assert.equal(reply.status, 401)
  })

  test('disk reserve: reads, deletes and queue reads work', async () => {
    await works(call('GET', 'rest/*/notes'))
    await works(call('POST', 'rest/*/rpc/count_notes', { body: {} }))
    await works(call('DELETE', 'rest/*/notes?id=eq.20'))
    const [message] = await works(call('POST', 'queue/*/queues/mail/read', { body: { vt: 0, qty: 1 } }))
    await works(call('POST', 'queue/*/queues/mail/ack', { body: { msg_id: message.msg_id } }))
    await works(call('POST', 'queue/*/queues/mail/pop'))
    await works(call('DELETE', 'queue/*/queues/mail'))
    await works(call('GET', 'storage/*/object/b/a'))
    await works(call('DELETE', 'storage/*/object/b/a'))
    await works(call('POST', 'auth/*/token?grant_type=password', { body: user }))
    assert.deepEqual(await works(call('GET', 'rest/*/notes?id=gt.19')), [])
  })

  test('disk reserve: an operator can log in, drop tables, suspend and delete projects', async () => {
    const { email, password } = administrator
    const { token } = await works(
      platform.call('POST', '/api/v1/platform/login', { body: { email, password } }),
    )
    const as = (method: string, path: string) => works(platform.call(method, `/api/v1${path}`, { token }))
    await as('DELETE', `/projects/${project.id}/schema/tables/unwanted?confirm=unwanted`)
    await as('POST', `/projects/${spare.id}/suspend`)
    await as('DELETE', `/projects/${spare.id}`)
    await works(manage('PATCH', '/projects/*', { quotas: { max_database_size_mb: 100 } }))
    await works(manage('PATCH', '/projects/*', { quotas: { max_database_size_mb: null } }))
  })

  test('disk reserve: health reports it without a path, and the log names the path', async () => {
    const { status, body } = await platform.call('GET', '/health/services', {})
    assert.deepEqual([status, body.status], [200, 'degraded'])
    const warnings = body.warnings.filter((each: string) => each.includes('PLATFORM_DISK_RESERVE_MB'))
    assert.deepEqual(
      warnings.map((each: string) => /^The disk of the (\w+) has \d+ MB left/.exec(each)?.[1]).sort(),
      ['database', 'files'],
    )
    assert.ok(!body.warnings.join().includes(tmpdir()))
    assert.ok(platform.logged.some(line => line.includes('below the reserve') && line.includes(clusterDir)))
    // A rejected request is not logged as a failure, because log lines would use the remaining space.
    assert.ok(!platform.logged.some(line => line.includes('request failed')))
  })

  test('disk reserve: a node with free space accepts writes', async () => {
    await works(call('POST', 'rest/*/notes', { on: roomy, body: { id: 300 } }))
    const { body } = await roomy.call('GET', '/health/services', {})
    assert.ok(!body.warnings.some((each: string) => each.includes('PLATFORM_DISK_RESERVE_MB')))
  })
})

describe('below half of the reserve the watchdog ends', () => {
  const clients: pg.Client[] = []
  after(() => Promise.all(clients.map(client => client.end().catch(() => {}))))

  async function logIn(login: Login, suffix = ''): Promise<pg.Client> {
    const ref = await platform.refOf(project.id)
    const logins = createLogins(platform.address, keyring(platform.controlPlaneSecret))
    const { host, port, user, password } = logins.address(ref, login)
    const client = new pg.Client({ host, port, user, password, database: ref + suffix })
    client.on('error', () => {})
    await client.connect()
    clients.push(client)
    return client
  }
  const isAlive = async (client: pg.Client) =>
    (await platform.asSuperuser('postgres', session =>
      session.row(
        sql`select from pg_stat_activity where pid = ${(client as pg.Client & { processID: number }).processID}`,
      ),
    )) !== undefined

  test('disk reserve: the watchdog ends sessions that have written, and none that read', async () => {
    const [writer, reader, caller] = await Promise.all([logIn('owner'), logIn('owner'), logIn('svc')])
    await writer.query('begin; insert into notes values (700)')
    await reader.query('begin; select count(*) from notes')
    await caller.query('begin; set role service_role; insert into notes values (701)')
    await eventually(async () => !(await isAlive(writer)), 'the writer is ended')
    await eventually(async () => !(await isAlive(caller)), 'the caller is ended')
    assert.equal(await isAlive(reader), true)
    assert.deepEqual(await works(call('GET', 'rest/*/notes?id=gte.700')), [])
    assert.ok(platform.logged.some(line => line.includes('the disk reserve is half used')))
  })

  test('disk reserve: the watchdog ends a session that fills a copy of a database', async () => {
    const ref = await platform.refOf(project.id)
    for (const suffix of databasesOf('').slice(1)) {
      await platform.asSuperuser('postgres', session =>
        session.script(`create database ${ref}${suffix} owner ${ref}_owner`),
      )
      const writer = await logIn('owner', suffix)
      await writer.query('create table filled (id int); begin; insert into filled values (1)')
      await eventually(async () => !(await isAlive(writer)), `the writer in ${suffix} is ended`)
    }
  })

  test('disk reserve: the watchdog ends an owner session with many short writing transactions', async () => {
    const client = await logIn('owner')
    let failure: unknown
    for (const end = Date.now() + 60_000; failure === undefined && Date.now() < end; )
      await client
        .query('insert into unlucky select generate_series(1, 20000); truncate unlucky')
        .catch(error => {
          failure = error
        })
    assert.ok(failure, 'it was ended within a minute')
    assert.equal(await isAlive(client), false)
  })
})

test('disk reserve: PLATFORM_DISK_RESERVE_MB=0 disables it', async () => {
  const off = await startPlatform({ beside: roomy, clusterDir })
  try {
    await works(call('POST', 'rest/*/notes', { on: off, body: { id: 800 } }))
  } finally {
    await off.stop()
  }
})

test('disk reserve: a directory that cannot be measured does not block writes and is reported by health', async () => {
  const lines: string[] = []
  const path = join(clusterDir, 'comes and goes')
  const reserve = await startDiskReserve({
    places: [{ what: 'files', path }],
    reserveMb: Number(petabyte),
    log: createLog('info', { write: line => void lines.push(line) }),
  })
  const logged = (text: string) => lines.filter(line => line.includes(text)).length
  try {
    assert.equal(reserve.isReached(), false)
    assert.deepEqual(reserve.warnings(), ['The free space on the disk of the files cannot be measured.'])
    mkdirSync(path)
    await eventually(() => reserve.isReached(), 'the reserve is reached')
    assert.match(reserve.warnings().join(), /^The disk of the files has \d+ MB left/)
    rmSync(path, { recursive: true })
    await eventually(() => !reserve.isReached(), 'writes are accepted again')
    assert.deepEqual([logged('below the reserve'), logged('above the reserve again')], [1, 1])
    assert.equal(logged('cannot be measured'), 2)
  } finally {
    reserve.close()
  }
})

test('disk reserve: health lists a database with directories on two disks once', async () => {
  const onTwoDisks = ['/dev', clusterDir].map(path => ({ what: 'database' as const, path }))
  const reserve = await startDiskReserve({
    places: [...onTwoDisks, { what: 'files', path: clusterDir }],
    reserveMb: Number(petabyte),
    log: createLog('silent'),
  })
  try {
    assert.deepEqual(
      reserve.warnings().map(each => /^The disk of the (\w+) has \d+ MB left/.exec(each)?.[1]),
      ['database', 'files'],
    )
  } finally {
    reserve.close()
  }
})
