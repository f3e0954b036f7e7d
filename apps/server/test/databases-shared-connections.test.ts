// Callers of different roles and users on the same connections, and errors on them.
import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import type { Role } from '@plinth/contract/route.ts'
import { sql } from '#src/kernel/postgres/sql.ts'
import { countByCode, databaseNodes, outcomeOf, user1, user2 } from './database-nodes.ts'
import { eventually } from './eventually.ts'

const { nodes, newProject, asOwner, ask, askOne, backends } = databaseNodes('oneConnection')

describe('callers on shared connections', () => {
  const setUp = `
    create table notes (owner uuid, body text);
    create policy own_notes on notes to authenticated using (owner = auth.uid());
    create policy public_notes on notes to anon using (owner is null);
    insert into notes values (null, 'public'), ('${user1}', 'first'), ('${user2}', 'second')`
  const readAll = `select pg_backend_pid(), current_user, auth.uid(),
    (select string_agg(body, ',' order by body) from notes), $1::text`
  const kinds = [
    { role: 'anon', sub: undefined, sees: 'public' },
    { role: 'authenticated', sub: user1, sees: 'first' },
    { role: 'authenticated', sub: user2, sees: 'second' },
    { role: 'service_role', sub: undefined, sees: 'first,public,second' },
  ] as const

  it('3000 concurrent reads with failures between them each return only the rows of their caller', async () => {
    const shared = await newProject(setUp)
    const servedOn = new Map(kinds.map(kind => [kind, new Set<string>()]))
    let answered = 0
    async function client(seed: number): Promise<void> {
      for (let turn = 0; turn < 75; turn++) {
        const kind = kinds[(seed * 7 + turn * (1 + (seed % 3))) % kinds.length]!
        const mark = `${seed}.${turn}`
        const options = { values: [mark], mayPipeline: true, ...(kind.sub && { sub: kind.sub }) }
        if (turn % 10 === 9) {
          const failing = ask(shared, kind.role, 'select 1 / length($1)', { ...options, values: [''] })
          assert.equal(await outcomeOf(failing), '22012')
        }
        const [row] = await ask(shared, kind.role, readAll, options)
        assert.deepEqual(row?.slice(1), [kind.role, kind.sub ?? null, kind.sees, mark])
        servedOn.get(kind)!.add(row![0]!)
        answered++
      }
    }
    await Promise.all(Array.from({ length: 40 }, (_, seed) => client(seed)))
    assert.equal(answered, 3000)

    const [anon, first, second, service] = [...servedOn.values()] as [
      Set<string>,
      Set<string>,
      Set<string>,
      Set<string>,
    ]
    const common = [...anon].filter(pid => first.has(pid) && second.has(pid))
    assert.ok(common.length > 0, 'anon and both users were served on the same connections')
    assert.equal(anon.intersection(service).size + first.intersection(service).size, 0)
  })

  it('a statement that has been fast runs on pipelined connections', async () => {
    const shared = await newProject()
    const ask24 = async (): Promise<number> => {
      const quick = () => askOne(shared, 'anon', 'select pg_backend_pid()', { mayPipeline: true })
      for (let run = 0; run < 20; run++) await quick()
      return new Set(await Promise.all(Array.from({ length: 24 }, quick))).size
    }
    // A statement that takes more than 5 ms is not pipelined for a while.
    await eventually(async () => (await ask24()) <= 2, '24 at once on two connections')
  })

  it('a plan made for one role or user is not used for another', async () => {
    const shared = await newProject(setUp)
    const read = async (role: Role, sub?: string) =>
      (await ask(shared, role, readAll, { values: ['x'], on: nodes.oneConnection, ...(sub && { sub }) }))[0]!
    // After five executions Postgres may switch to a generic plan.
    for (let run = 0; run < 8; run++) await read('authenticated', user1)
    const anon = await read('anon')
    const user = await read('authenticated', user2)
    assert.equal(anon[0], user[0], 'the same connection')
    assert.deepEqual([anon[3], user[3]], ['public', 'second'])
    for (let run = 0; run < 8; run++) await read('service_role')
    assert.equal((await read('anon'))[3], 'public')
  })

  it('a changed policy, grant or row-level security applies to the next statement', async () => {
    const shared = await newProject(
      `${setUp}; create function may_see() returns boolean stable language sql as 'select true'`,
    )
    const read = `select string_agg(body, ',' order by body) from notes`
    const reads = async (change: string, expected: string | null) => {
      for (let run = 0; run < 8; run++) await outcomeOf(ask(shared, 'anon', read, { mayPipeline: true }))
      await asOwner(shared, change)
      for (const mayPipeline of [true, false])
        assert.equal(await askOne(shared, 'anon', read, { mayPipeline }), expected, change)
    }
    await reads(`alter policy public_notes on notes using (body = 'first')`, 'first')
    await reads('alter policy public_notes on notes using (may_see())', 'first,public,second')
    await reads(
      `create or replace function may_see() returns boolean stable language sql as 'select false'`,
      null,
    )
    await reads('alter table notes disable row level security', 'first,public,second')
    await reads('alter table notes enable row level security', null)
    await reads('drop policy public_notes on notes; create policy p on notes using (owner is null)', 'public')
    await asOwner(shared, 'revoke select on notes from anon')
    assert.equal(await outcomeOf(ask(shared, 'anon', read, { mayPipeline: true })), '42501')
    await asOwner(shared, 'grant select on notes to anon')
    assert.equal(await askOne(shared, 'anon', read, { mayPipeline: true }), 'public')
  })
})

describe('errors on shared connections', () => {
  it('a failing pipelined statement does not affect the others', async () => {
    const divide = 'select 100 / $1::int'
    for (let run = 0; run < 5; run++)
      await ask(nodes.project, 'anon', divide, { values: ['5'], mayPipeline: true })
    await sleep(50)
    for (let round = 0; round < 5; round++) {
      const divisors = Array.from({ length: 60 }, (_, index) => (index + round) % 7)
      const answers = await Promise.all(
        divisors.map(divisor =>
          askOne(nodes.project, 'anon', divide, { values: [String(divisor)], mayPipeline: true }).catch(
            (error: { code: string }) => error.code,
          ),
        ),
      )
      const expected = divisors.map(divisor => (divisor === 0 ? '22012' : String(Math.trunc(100 / divisor))))
      assert.deepEqual(answers, expected)
    }
  })

  it('ten concurrent requests with the same invalid statement all get the error', async () => {
    const faulty = Array.from({ length: 10 }, () =>
      outcomeOf(ask(nodes.project, 'anon', 'selct 1', { mayPipeline: true })),
    )
    assert.deepEqual(countByCode(await Promise.all(faulty)), { '42601': 10 })
  })

  it('all requests get the error when a pipelined statement can no longer be prepared', async () => {
    const gone = await newProject('create table soon_gone (a int)')
    const read = 'select a from soon_gone'
    for (let run = 0; run < 10; run++) await ask(gone, 'service_role', read, { mayPipeline: true })
    await asOwner(gone, 'drop table soon_gone')
    const work = Array.from({ length: 20 }, () =>
      outcomeOf(ask(gone, 'service_role', read, { mayPipeline: true })),
    )
    assert.deepEqual(countByCode(await Promise.all(work)), { '42P01': 20 })
    assert.equal(await askOne(gone, 'service_role', 'select 1', { mayPipeline: true }), '1')
  })

  it('a NUL in a value or claim is an error, and the connection stays usable', async () => {
    const echo = (text: string, sub = user1) =>
      ask(nodes.project, 'authenticated', 'select pg_backend_pid(), $1::text', {
        values: [text],
        sub,
        on: nodes.oneConnection,
      })
    const before = await echo('x')
    await assert.rejects(echo('a\0b'), { code: '22021' })
    await assert.rejects(echo('x', 'a\0b'), { code: '22021' })
    assert.deepEqual(await echo('x'), before, 'on the same connection')
  })

  it('5 MB values are sent and returned unchanged among small ones', async () => {
    const big = `${'ä1'.repeat(1_500_000)}${'x'.repeat(500_000)}`
    assert.equal(Buffer.byteLength(big), 5_000_000)
    const echo = 'select $1::text'
    for (const mayPipeline of [false, true]) {
      const texts = [big, 'small', `${big}!`, '', 'another']
      const echoed = await Promise.all(
        texts.map(text => askOne(nodes.project, 'anon', echo, { values: [text], mayPipeline })),
      )
      assert.ok(echoed.every((text, index) => text === texts[index]))
    }
    const rows = await ask(
      nodes.project,
      'anon',
      `select i, repeat(i::text, 100) from generate_series(1, 20000) i`,
    )
    assert.ok(
      rows.every(([number, text], index) => number === String(index + 1) && text === number.repeat(100)),
    )
    assert.equal(rows.length, 20_000)
  })

  it('statements sent while a large one is still being written get their own results', async () => {
    const own = await newProject()
    const echo = 'select $1::text'
    const send = (text: string) => askOne(own, 'anon', echo, { values: [text], mayPipeline: true })
    for (let round = 0; round < 6; round++) {
      // Fast executions first, so that the large statement and those after it share a connection.
      for (let run = 0; run < 6; run++) await send('warm')
      const texts = ['x', 'a', 'b', 'c', 'd'].map((letter, index) =>
        letter.repeat(index === 0 ? 3_000_000 : 400),
      )
      const echoed: Promise<string | null | undefined>[] = []
      for (const text of texts) {
        echoed.push(send(text))
        await new Promise(resolve => setImmediate(resolve))
      }
      assert.ok((await Promise.all(echoed)).every((text, index) => text === texts[index]))
    }
  })

  it('a terminated session is database_unavailable for its caller only', async () => {
    const own = await newProject()
    const doomed = outcomeOf(ask(own, 'service_role', 'select pg_sleep(5)'))
    const isRunning = async () => (await backends(own)).find(({ query }) => query.includes('pg_sleep'))
    await eventually(async () => (await isRunning()) !== undefined, 'the statement runs')
    const { pid } = (await isRunning())!
    await nodes.standard.asSuperuser('postgres', session =>
      session.run(sql`select pg_terminate_backend(${pid})`),
    )
    assert.equal(await doomed, 'database_unavailable')
    assert.equal(await askOne(own, 'service_role', 'select 1'), '1')
  })

  it('terminated idle connections are replaced without an error', async () => {
    const own = await newProject()
    for (let run = 0; run < 8; run++) await ask(own, 'anon', 'select 1', { mayPipeline: true })
    await sleep(100)
    const ended = (await backends(own)).map(({ pid }) => pid)
    await nodes.standard.asSuperuser('postgres', session =>
      session.run(sql`select pg_terminate_backend(pid) from unnest(${ended}::int[]) pid`),
    )
    const isGone = async () => !(await backends(own)).some(({ pid }) => ended.includes(pid))
    await eventually(isGone, 'the sessions have ended')
    await sleep(20)
    assert.equal(await askOne(own, 'anon', 'select 1', { mayPipeline: true }), '1')
    assert.equal(await askOne(own, 'anon', 'select 1'), '1')
  })
})
