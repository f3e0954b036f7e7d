// Sessions of a tenant that affect all tenants, and that the watchdog terminates.
import assert from 'node:assert/strict'
import { after, before, describe, it } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import pg from 'pg'
import { keyring } from '#src/kernel/crypto/keys.ts'
import { sql } from '#src/kernel/postgres/sql.ts'
import { statement } from '#src/tenancy/databases.ts'
import { createLogins, type Login, type Logins } from '#src/tenancy/logins.ts'
import { eventually } from './eventually.ts'
import { startPlatform, type TestPlatform } from './harness.ts'

let platform: TestPlatform
let logins: Logins
let culprit: string
let culpritId: string
let bystander: string
const clients: pg.Client[] = []

before(async () => {
  // The watchdog terminates callers after twice this timeout plus five seconds.
  platform = await startPlatform({ settings: { PLATFORM_STATEMENT_TIMEOUT_MS: '1500' } })
  logins = createLogins(platform.address, keyring(platform.controlPlaneSecret))
  const [one, two] = await Promise.all([platform.createProject(), platform.createProject()])
  culpritId = one.id
  culprit = await platform.refOf(one.id)
  bystander = await platform.refOf(two.id)
})
after(async () => {
  // Dropping the databases terminates the remaining sessions. Waiting for them first might never end.
  await platform?.stop()
  await Promise.all(clients.map(client => client.end().catch(() => {})))
})

const logIn = (ref: string, login: Login) => connect(logins.address(ref, login), ref)

async function connect(
  { host, port, user, password }: TestPlatform['address'],
  database: string,
): Promise<pg.Client> {
  const client = new pg.Client({ host, port, user, password, database })
  client.on('error', () => {}) // the watchdog ends some of them
  await client.connect()
  clients.push(client)
  return client
}

const pidOf = (client: pg.Client) => (client as pg.Client & { processID: number }).processID
const isAlive = async (client: pg.Client) =>
  (await platform.asSuperuser('postgres', session =>
    session.row(sql`select from pg_stat_activity where pid = ${pidOf(client)}`),
  )) !== undefined

const takeLocks = (from: number, count: number) =>
  `select count(pg_advisory_lock(i)) from generate_series(${from}, ${from + count - 1}) i`
const wasLogged = (reason: string) => platform.logged.some(line => line.includes(reason))

describe('watchdog: a session that fills the lock table', () => {
  async function attack(): Promise<void> {
    const attacker = await logIn(culprit, 'owner')
    const attacking = attacker.query(takeLocks(1, 150_000)).then(
      () => 'done',
      (error: { code?: string }) => error.code ?? 'connection lost',
    )
    try {
      await eventually(async () => !(await isAlive(attacker)), 'the session is ended')
    } finally {
      await attacking
      await attacker.end().catch(() => {})
    }
  }

  it('is terminated, and other sessions can connect and lock meanwhile', async () => {
    let isOver = false
    let logIns = 0
    const others = (async () => {
      while (!isOver) {
        const client = await logIn(bystander, 'owner')
        await client.query('begin; create temp table t (a int primary key); select pg_advisory_xact_lock(1)')
        await client.end()
        logIns++
      }
    })()
    try {
      // Watchdogs of other test files run on the same server, and one of them may act first.
      for (let tries = 0; tries < 20 && !wasLogged('too many locks'); tries++) await attack()
    } finally {
      isOver = true
      await others
    }
    assert.ok(logIns > 0)
    assert.ok(wasLogged('too many locks'))
  })

  it('keeps no locks when it is a pooled connection of a caller', async () => {
    const tenant = (await platform.app.directory.find(culpritId))!
    const caller = { tenant, role: 'anon', claims: '{}', userId: '', sessionId: '' } as const
    const facts = { method: 'POST', path: '/', headers: '{}' }
    const ask = (text: string) => platform.app.databases.asCaller(caller, facts, statement(text, false), [])
    await ask(takeLocks(1_000_000, 15_000))
    const held = () =>
      platform.asSuperuser('postgres', session =>
        session.rows(
          sql`select from pg_locks l join pg_stat_activity a using (pid) where a.usename = ${`${culprit}_api`} and l.locktype = 'advisory'`,
        ),
      )
    await eventually(async () => (await held()).length === 0, 'the locks are gone')
    assert.equal((await ask('select 1')).rows[0]?.[0]?.toString(), '1')
  })

  it('is not terminated below the limit', async () => {
    const modest = await logIn(bystander, 'owner')
    await modest.query(takeLocks(1, 5000))
    await sleep(600)
    assert.equal((await modest.query('select 1 as alive')).rows[0].alive, 1)
    await modest.end()
  })

  it('is terminated when several sessions fill the lock table together', async () => {
    const several = await Promise.all(Array.from({ length: 5 }, () => logIn(culprit, 'owner')))
    // The first session may be terminated while the last ones still take locks.
    const locking = several.map((client, index) =>
      client.query(takeLocks(2_000_000 + index * 20_000, 19_500)),
    )
    await Promise.allSettled(locking)
    try {
      const areSomeEnded = async () => (await Promise.all(several.map(isAlive))).includes(false)
      await eventually(areSomeEnded, 'they are ended')
    } finally {
      await Promise.all(several.map(client => client.end().catch(() => {})))
    }
  })

  it('is not terminated when it belongs to the platform', async () => {
    const own = await connect(platform.address, 'postgres')
    await own.query(takeLocks(1, 25_000))
    await sleep(700)
    const survives = await isAlive(own)
    await own.end().catch(() => {})
    assert.equal(survives, true)
  })
})

it('watchdog: a caller that ignores its statement timeout is terminated', async () => {
  await platform.app.databases.asOwner({ ref: bystander }, session =>
    session.script(`create function deaf() returns void language plpgsql as $$
      begin loop begin perform pg_sleep(60); exception when query_canceled then null; end; end loop; end $$`),
  )
  const client = await logIn(bystander, 'api')
  await client.query('set role anon; set statement_timeout = 1000')
  const started = Date.now()
  const calling = client.query('select deaf()').then(
    () => 'answered',
    () => 'ended',
  )
  assert.equal(await Promise.race([calling, sleep(120_000, 'still running', { ref: false })]), 'ended')
  const seconds = (Date.now() - started) / 1000
  assert.ok(seconds > 7.5, `${seconds} s`)
  await eventually(() => wasLogged('transaction too old'), 'it is logged')
})

describe('watchdog: its queries', () => {
  /** The three queries, as the server received them. */
  async function queries(): Promise<string[]> {
    const seen = new Set<string>()
    await eventually(async () => {
      const rows = await platform.asSuperuser('postgres', session =>
        session.rows<{ query: string }>(
          sql`select query from pg_stat_activity where datname = ${platform.control} and query ~ 'pg_lock_status|xact_start|queue_usage'`,
        ),
      )
      for (const { query } of rows) seen.add(query)
      return seen.size >= 3
    }, 'all three queries were sent')
    return [...seen]
  }

  it('find sessions idle in a transaction and free the notification queue on one connection', async () => {
    const sent = await queries()
    assert.ok(sent.some(query => query.includes('pg_notification_queue_usage()')))
    const overdue = sent.find(query => query.includes('idle in transaction'))!
    // The same query with zero minutes, which lists the sessions instead of terminating them.
    const [idle, resting, owner] = await Promise.all([
      logIn(culprit, 'api'),
      logIn(culprit, 'api'),
      logIn(bystander, 'owner'),
    ])
    await idle.query('begin')
    await owner.query('begin; select 1')
    const superuser = await connect(platform.address, platform.control)
    const { rows } = await superuser.query<{ pid: number }>(
      overdue
        .replace('select pg_terminate_backend(pid)', 'select pid')
        .replace(/usename ~ \$\d+/, `usename ~ '^p_'`)
        .replace(/secs => \$\d+/, 'secs => 3600')
        .replace(/\$\d+::interval/, `'0 seconds'::interval`),
    )
    const named = rows.map(({ pid }) => pid)
    assert.deepEqual(
      [idle, owner, resting, superuser].map(client => named.includes(pidOf(client))),
      [true, true, false, false],
    )
    assert.equal(wasLogged('lost its connection'), false)
  })

  it('give no warning on a healthy server', async () => {
    const { body } = await platform.call('GET', '/api/v1/health', { token: platform.adminToken })
    assert.deepEqual(body.warnings ?? [], [])
  })
})
