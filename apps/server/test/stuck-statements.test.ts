// Statements that Postgres cannot interrupt: neither their timeout nor pg_terminate_backend ends them. Uses its own server,
// because such a backend delays DROP DATABASE for all databases of the server.
import assert from 'node:assert/strict'
import { constants, getPriority } from 'node:os'
import { after, before, describe, it, test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import type { CreatedProject } from '@plinth/contract/projects.ts'
import { sql } from '#src/kernel/postgres/sql.ts'
import { eventually } from './eventually.ts'
import { type Reply, startPlatform, type TestPlatform } from './harness.ts'
import { type OwnServer, startOwnServer } from './own-server.ts'

const poolSize = 3
let server: OwnServer
let platform: TestPlatform
let bystander: CreatedProject

before(async () => {
  server = await startOwnServer()
  platform = await startPlatform({
    server,
    settings: {
      PLATFORM_STATEMENT_TIMEOUT_ANON_MS: '1000',
      PLATFORM_STATEMENT_TIMEOUT_MS: '1500',
      PLATFORM_POOL_SIZE: String(poolSize),
      // The tests poll until the server responds again.
      PLATFORM_RATE_LIMIT_ANON: '0',
    },
  })
  bystander = await newProject()
})
after(async () => {
  try {
    await platform?.stop()
  } finally {
    await server?.stop()
  }
})

/** The lexer needs quadratic time for nested comments and does not check for interrupts. This takes minutes. */
const stuck = `do $$ begin execute repeat('/*', 400000); end $$`
const setUp = `
  create function stuck() returns int language plpgsql as $$ begin execute repeat('/*', 400000); return 1; end $$;
  create table notes (id int primary key);
  insert into notes values (1);
  create policy everybody on notes using (true) with check (true);
  create function stuck_trigger() returns trigger language plpgsql as
    $$ begin execute repeat('/*', 400000); return new; end $$`

async function newProject(): Promise<CreatedProject> {
  const project = await platform.createProject()
  await execSql(project, setUp)
  return project
}

const execSql = ({ id, service_role_key }: CreatedProject, text: string) =>
  platform.call('POST', `/v1/rest/${id}/rpc/exec_sql`, { apikey: service_role_key, body: { sql: text } })
const callStuck = ({ id, anon_key }: CreatedProject): Promise<Reply> =>
  platform.call('POST', `/v1/rest/${id}/rpc/stuck`, { apikey: anon_key, body: {} })
const readNotes = ({ id, anon_key }: CreatedProject) =>
  platform.call('GET', `/v1/rest/${id}/notes`, { apikey: anon_key })
const manage = (method: string, path: string, body?: object) =>
  platform.call(method, `/api/v1/projects${path}`, { token: platform.adminToken, body })
const health = async (): Promise<string[]> =>
  (await platform.call('GET', '/api/v1/health/services', { token: platform.adminToken })).body.warnings

const backends = (ref: string) =>
  platform.asSuperuser('postgres', session =>
    session.rows<{ pid: number }>(
      sql`select pid from pg_stat_activity where datname = ${ref} and state = 'active'`,
    ),
  )

const unanswered = 'not answered'
/** Limits the wait, because the statement itself takes minutes. */
const soon = <T>(work: Promise<T>): Promise<T | typeof unanswered> =>
  Promise.race([work, sleep(90_000, unanswered as typeof unanswered, { ref: false })])
async function answered(work: Promise<Reply>): Promise<Reply> {
  const reply = await soon(work)
  assert.notEqual(reply, unanswered)
  return reply as Reply
}

const stuckWarning = async (ref: string) => (await health()).some(line => line.includes(ref))
const databaseOf = (ref: string) =>
  platform.asSuperuser('postgres', session =>
    session.row<{ logins: number; has_database: boolean }>(sql`
      select (select count(*)::int from pg_roles where starts_with(rolname, ${ref}) and rolcanlogin) as logins,
             exists (select from pg_database where datname = ${ref}) as has_database`),
  )
/** Ends the stuck backends by a crash of the server. */
async function endStuck(): Promise<void> {
  await server.crash()
  await eventually(async () => (await answered(readNotes(bystander))).status === 200, 'the server is back')
}

test('stuck statements: the request times out, and its backend counts against the pool until it ends', async () => {
  const culprit = await newProject()
  const ref = await platform.refOf(culprit.id)
  const [stopped] = await Promise.all([answered(callStuck(culprit)), answered(readNotes(bystander))])
  assert.deepEqual([stopped.status, stopped.body.code], [500, '57014'])
  const working = await backends(ref)
  assert.equal(working.length, 1, 'its backend still runs')
  assert.equal(getPriority(working[0]!.pid), constants.priority.PRIORITY_BELOW_NORMAL)
  await eventually(() => stuckWarning(ref), 'a warning in health')

  const replies: Reply[] = []
  for (let round = 0; round < poolSize + 1; round++) replies.push(await answered(callStuck(culprit)))
  const last = replies.at(-1)!
  assert.deepEqual([last.status, last.body.code], [429, 'pool_exhausted'])
  assert.equal((await backends(ref)).length, poolSize)
  assert.equal((await answered(readNotes(bystander))).status, 200)

  await endStuck()
  await eventually(
    async () => (await answered(readNotes(culprit))).status === 200,
    'its connections are free',
  )
  await eventually(async () => !(await stuckWarning(ref)), 'no warning')
})

test('stuck statements: statements behind one on a shared connection are answered, and reads use another connection', async () => {
  const culprit = await newProject()
  await execSql(
    culprit,
    `create function maybe_stuck(is_stuck boolean) returns boolean language plpgsql stable as
       $$ begin if is_stuck then execute repeat('/*', 400000); end if; return true; end $$;
     create table switches (id int primary key, is_stuck boolean);
     insert into switches values (1, false), (2, true);
     create policy everybody on switches using (maybe_stuck(is_stuck))`,
  )
  const read = (id: number) =>
    platform.call('GET', `/v1/rest/${culprit.id}/switches?id=eq.${id}`, { apikey: culprit.anon_key })
  for (let round = 0; round < 12; round++) assert.equal((await answered(read(1))).status, 200)
  const replies = await Promise.all([2, 1, 1, 1, 1, 1].map(id => answered(read(id))))
  const [stopped, ...behind] = replies
  assert.deepEqual([stopped!.status, stopped!.body.code], [500, '57014'])
  assert.deepEqual(
    behind.map(({ status }) => status),
    [200, 200, 200, 200, 200],
  )
  await endStuck()
})

describe('stuck statements: work as the owner', () => {
  it('times out for a sign-up with a stuck trigger, and for SQL whose caller disconnects', async () => {
    const culprit = await newProject()
    const ref = await platform.refOf(culprit.id)
    await execSql(
      culprit,
      `create trigger stuck before insert on auth.users for each row execute function stuck_trigger();
       grant execute on function stuck_trigger() to public`,
    )
    const signUp = await answered(
      platform.call('POST', `/v1/auth/${culprit.id}/signup`, {
        apikey: culprit.anon_key,
        body: { email: 'a@example.com', password: 'long enough for anybody' },
      }),
    )
    assert.equal(signUp.status, 409, JSON.stringify(signUp.body))
    await eventually(() => stuckWarning(ref), 'a warning in health')

    const leaving = new AbortController()
    const left = fetch(`${platform.url}/v1/rest/${culprit.id}/rpc/exec_sql`, {
      method: 'POST',
      headers: { apikey: culprit.service_role_key, 'content-type': 'application/json' },
      body: JSON.stringify({ sql: stuck }),
      signal: leaving.signal,
    }).catch(() => 'left')
    await eventually(async () => (await backends(ref)).length === 2, 'it runs')
    leaving.abort()
    await left
    // It counts against the limit until the backend ends, so of five more one is rejected.
    const others = Array.from({ length: 5 }, () => execSql(culprit, 'select pg_sleep(3)'))
    await eventually(
      () => platform.logged.filter(line => line.includes('abandoned a database session')).length > 1,
      'the session is abandoned',
    )
    await Promise.all(others)
    const statuses = await Promise.all(
      Array.from({ length: 5 }, async () => (await execSql(culprit, 'select pg_sleep(2)')).status),
    )
    assert.deepEqual(statuses.toSorted(), [200, 200, 200, 200, 429])
    await endStuck()
  })
})

describe('stuck statements: meanwhile', () => {
  it('the project can be suspended and resumed', async () => {
    const culprit = await newProject()
    const calling = callStuck(culprit)
    const ref = await platform.refOf(culprit.id)
    await eventually(async () => (await backends(ref)).length === 1, 'it runs')
    assert.equal((await answered(manage('POST', `/${culprit.id}/suspend`))).status, 200)
    assert.equal((await answered(readNotes(culprit))).status, 403)
    assert.ok((await answered(calling)).status >= 500)
    assert.equal((await answered(manage('POST', `/${culprit.id}/resume`))).status, 200)
    await eventually(
      async () => (await answered(readNotes(culprit))).status === 200,
      'the project is served again',
    )
    await endStuck()
  })

  it('the project and others can be deleted, and their databases are dropped once the backend has ended', async () => {
    const [culprit, other] = [await newProject(), await newProject()]
    const [ref, otherRef] = [await platform.refOf(culprit.id), await platform.refOf(other.id)]
    await answered(callStuck(culprit))
    for (const { id, slug, anon_key } of [culprit, other]) {
      assert.equal((await answered(manage('DELETE', `/${id}`))).status, 204)
      assert.equal((await answered(manage('GET', `/${id}`))).status, 404)
      assert.equal(
        (await answered(platform.call('GET', `/v1/whoami/${id}`, { apikey: anon_key }))).status,
        401,
      )
      const again = await answered(manage('POST', '', { name: slug, slug }))
      assert.equal(again.status, 201, 'the slug is free')
    }
    assert.deepEqual(await databaseOf(ref), { logins: 0, has_database: true })
    const beside = await startPlatform({ beside: platform })
    await endStuck()
    try {
      const isDropped = async (each: string) => !(await databaseOf(each))!.has_database
      await eventually(async () => (await isDropped(ref)) && (await isDropped(otherRef)), 'both are dropped')
    } finally {
      await beside.stop()
    }
  })
})
