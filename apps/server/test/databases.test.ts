// Statements of callers and owners: role, settings, timeouts, rollback and protocol limits.
import assert from 'node:assert/strict'
import { before, describe, it } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import { sql } from '#src/kernel/postgres/sql.ts'
import { statement } from '#src/tenancy/databases.ts'
import { countByCode, databaseNodes, outcomeOf, user1 } from './database-nodes.ts'
import { eventually } from './eventually.ts'

const { nodes, newProject, asOwner, ask, askOne, backends } = databaseNodes('twoConnections', 'capped')

describe('lock waits', () => {
  it('a pipelined statement that waits for a lock does not block others, and completes when the lock is free', async () => {
    await asOwner(
      nodes.project,
      `create table locked (n int primary key, v int); create policy p on locked using (true); insert into locked values (1, 0);
       create table unlocked (n int); create policy p on unlocked using (true)`,
    )
    const change = 'update locked set v = v + 1 where n = 1 returning v'
    const look = 'select count(*) from unlocked'
    for (let run = 0; run < 6; run++) {
      await ask(nodes.project, 'anon', change, { mayPipeline: true })
      await ask(nodes.project, 'anon', look, { mayPipeline: true })
    }
    await nodes.standard.app.databases.asOwner(nodes.project, async holder => {
      await holder.script('begin')
      await holder.script('update locked set v = 0')
      const waiting = [1, 2, 3, 4].map(() => ask(nodes.project, 'anon', change, { mayPipeline: true }))
      const behind = Array.from({ length: 20 }, () => ask(nodes.project, 'anon', look, { mayPipeline: true }))
      await Promise.all(behind)
      await holder.script('commit')
      assert.deepEqual((await Promise.all(waiting)).flat(2).sort(), ['1', '2', '3', '4'])
    })
  })
})

describe('rollsBack', () => {
  before(() =>
    asOwner(nodes.project, 'create table undone (n int primary key); create policy p on undone using (true)'),
  )
  const insert = 'insert into undone values (1) returning n'
  const left = () => askOne(nodes.project, 'service_role', 'select count(*) from undone')

  it('the statement returns its result and changes nothing', async () => {
    for (const mayPipeline of [false, true, true, true, true, true]) {
      const options = { mayPipeline, facts: { rollsBack: true } }
      assert.equal(await askOne(nodes.project, 'service_role', insert, options), '1')
      assert.equal(await left(), '0')
    }
  })

  it('a violated deferred constraint fails as it would at commit', async () => {
    await asOwner(
      nodes.project,
      `create table parents (n int primary key); create policy p on parents using (true);
       create table children (n int references parents deferrable initially deferred); create policy p on children using (true)`,
    )
    const orphan = ask(nodes.project, 'service_role', 'insert into children values (7)', {
      facts: { rollsBack: true },
    })
    assert.equal(await outcomeOf(orphan), '23503')
    assert.equal(await left(), '0')
  })

  it('isReadOnly rejects writes', async () => {
    const write = ask(nodes.project, 'service_role', insert, { facts: { isReadOnly: true } })
    assert.equal(await outcomeOf(write), '25006')
    assert.equal(await askOne(nodes.project, 'service_role', insert), '1')
    await asOwner(nodes.project, 'delete from undone')
  })
})

describe('asCaller', () => {
  it('sets the role, the claims and the request settings that SQL can read', async () => {
    const seen = await ask(
      nodes.project,
      'authenticated',
      `select current_user, session_user, auth.uid(), current_setting('request.user_id'), current_setting('request.method'),
              current_setting('request.path'), current_setting('request.headers'), current_setting('request.jwt.claims')`,
      { sub: user1 },
    )
    const claims = `{"role":"authenticated","sub":"${user1}"}`
    assert.deepEqual(seen, [
      ['authenticated', `${nodes.project.ref}_api`, user1, user1, 'GET', '/things', '{"a":"b"}', claims],
    ])
  })

  it('logs in as the API or service role of the project', async () => {
    const who = 'select current_user, session_user'
    assert.deepEqual(await ask(nodes.project, 'anon', who), [['anon', `${nodes.project.ref}_api`]])
    assert.deepEqual(await ask(nodes.project, 'service_role', who), [
      ['service_role', `${nodes.project.ref}_svc`],
    ])
  })

  it('search_path has the exposed schemas of the nodes.project, then extensions', async () => {
    const path = `select current_setting('search_path')`
    assert.equal(await askOne(nodes.project, 'anon', path), '"public", "extensions", "pg_temp"')
    const { id } = await nodes.standard.createProject()
    await nodes.standard.projects.update({
      params: { id },
      body: { settings: { exposed_schemas: ['api', 'odd "one"'] } },
    })
    assert.equal(
      await askOne({ id, ref: await nodes.standard.refOf(id) }, 'anon', path),
      '"api", "odd ""one""", "extensions", "pg_temp"',
    )
  })

  it('a time zone applies to one request only', async () => {
    const zone = `select current_setting('TimeZone')`
    assert.equal(
      await askOne(nodes.project, 'anon', zone, { facts: { timeZone: 'Europe/Paris' } }),
      'Europe/Paris',
    )
    assert.equal(await askOne(nodes.project, 'anon', zone), 'UTC')
  })

  it('the statement timeout depends on the role', async () => {
    const limit = `select current_setting('statement_timeout')`
    assert.equal(await askOne(nodes.project, 'anon', limit), '3s')
    assert.equal(await askOne(nodes.project, 'authenticated', limit), '8s')
    assert.equal(await askOne(nodes.project, 'service_role', limit), '8s')
    assert.equal(
      await outcomeOf(ask(nodes.project, 'anon', 'select pg_sleep(3)', { on: nodes.twoConnections })),
      '57014',
    )
  })

  it('returns rows, nulls, empty texts and command tags as Postgres sends them', async () => {
    const rows = await ask(nodes.project, 'anon', `select null, '', 'ä表🜁', $1::text`, {
      values: ['\u0001 \\ "'],
    })
    assert.deepEqual(rows, [[null, '', 'ä表🜁', '\u0001 \\ "']])
    const tenant = (await nodes.standard.app.directory.find(nodes.project.id))!
    const { tag } = await nodes.standard.app.databases.asCaller(
      { tenant, role: 'anon', claims: '{}', userId: '', sessionId: '' },
      { method: 'GET', path: '/', headers: '{}' },
      statement('values (1), (2), (3)', false),
      [],
    )
    assert.equal(tag, 'SELECT 3')
  })
})

describe('asOwner', () => {
  it('uses the owner role on a session that is closed afterwards', async () => {
    const owned = await newProject()
    const seen = await nodes.standard.app.databases.asOwner(owned, session =>
      session.row<{ who: string; pid: number }>(sql`select current_user as who, pg_backend_pid() as pid`),
    )
    assert.equal(seen?.who, `${owned.ref}_owner`)
    const isOpen = async () =>
      (await nodes.standard.asSuperuser('postgres', session =>
        session.row(sql`select from pg_stat_activity where pid = ${seen!.pid} and usename = ${seen!.who}`),
      )) !== undefined
    await eventually(async () => !(await isOpen()), 'the session is closed')
  })

  it('rejects with the error of the statement and releases the session', async () => {
    const owned = await newProject()
    await assert.rejects(asOwner(owned, 'select 1 / 0'), { code: '22012' })
    await asOwner(owned, 'select 1')
  })

  it('a sixth concurrent session is rejected with pool_exhausted', async () => {
    const owned = await newProject()
    const work = Array.from({ length: 6 }, () => outcomeOf(asOwner(owned, 'select pg_sleep(0.3)')))
    assert.deepEqual(countByCode(await Promise.all(work)), { done: 5, pool_exhausted: 1 })
    await asOwner(owned, 'select 1')
  })
})

describe('an oversized answer', () => {
  it('is an error and does not use unbounded memory', async () => {
    const own = await newProject()
    const before = process.memoryUsage().rss
    const huge = `select repeat('x', 1000000) from generate_series(1, 1500)`
    assert.equal(await outcomeOf(ask(own, 'service_role', huge)), '54000')
    assert.ok(process.memoryUsage().rss - before < 300_000_000)
    assert.equal(await askOne(own, 'service_role', 'select 1'), '1')
  })
})

describe('statements that the protocol cannot carry', () => {
  const outcomeSoon = (work: Promise<unknown>) =>
    Promise.race([outcomeOf(work), sleep(90_000, 'no answer', { ref: false })])

  it('COPY FROM STDIN is rejected', async () => {
    const own = await newProject('create table filled (a int)')
    assert.notEqual(
      await outcomeSoon(ask(own, 'service_role', 'copy filled from stdin', { on: nodes.capped })),
      'no answer',
    )
  })

  it('more parameters than the protocol allows are rejected', async () => {
    const values = Array.from({ length: 40_000 }, String)
    const own = await newProject()
    const many = `select ${values.map((_, index) => `$${index + 1}::text`).join(' || ')}`
    assert.notEqual(
      await outcomeSoon(ask(own, 'service_role', many, { values, on: nodes.capped })),
      'no answer',
    )
    assert.equal(await outcomeSoon(ask(own, 'service_role', 'select 1', { on: nodes.capped })), 'done')
  })

  it('COPY TO STDOUT returns no rows', async () => {
    await asOwner(nodes.project, 'create table copied (a int); insert into copied values (1)')
    assert.deepEqual(await ask(nodes.project, 'service_role', 'copy copied to stdout'), [])
    assert.equal(await askOne(nodes.project, 'service_role', 'select a from copied'), '1')
  })
})

it('disconnect closes the connections of a project on the node and on the server', async () => {
  const own = await newProject()
  await ask(own, 'anon', 'select 1')
  await ask(own, 'service_role', 'select 1')
  const before = nodes.standard.app.databases.connections()
  nodes.standard.app.databases.disconnect(own.id)
  assert.equal(nodes.standard.app.databases.connections(), before - 2)
  await eventually(async () => (await backends(own)).length === 0, 'the sessions on the server have ended')
})
