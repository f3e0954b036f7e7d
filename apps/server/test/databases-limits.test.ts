// Connection limits per project and for all projects.
import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import { Refusal } from '#src/kernel/errors.ts'
import { sql } from '#src/kernel/postgres/sql.ts'
import { countByCode, databaseNodes, outcomeOf, type Project } from './database-nodes.ts'
import { eventually } from './eventually.ts'

const { nodes, newProject, ask, askOne, backends } = databaseNodes('twoConnections', 'capped')

/** Holds an advisory lock in each database until the returned function is called. */
async function lockIn(...projects: Project[]): Promise<() => Promise<void>> {
  const { promise: released, resolve } = Promise.withResolvers<void>()
  const holders = await Promise.all(
    projects.map(({ ref }) => {
      const { promise: isLocked, resolve: lock } = Promise.withResolvers<void>()
      const ended = nodes.standard.asSuperuser(ref, async session => {
        await session.rows(sql`select pg_advisory_lock(1)`)
        lock()
        await released
      })
      return Promise.race([isLocked, ended]).then(() => ({ ended }))
    }),
  )
  return async () => {
    resolve()
    await Promise.all(holders.map(({ ended }) => ended))
  }
}

describe('connection limit of a project', () => {
  it('requests over the limit get 429 with Retry-After, and other projects are not delayed', async () => {
    const busy = await newProject()
    const on = nodes.twoConnections
    await nodes.standard.asSuperuser(busy.ref, async session => {
      await session.rows(sql`select pg_advisory_lock(1)`)
      const rejections: Refusal[] = []
      const work = Array.from({ length: 30 }, () =>
        ask(busy, 'service_role', 'select pg_advisory_lock_shared(1)', { on }).catch((error: Refusal) => {
          rejections.push(error)
        }),
      )
      // Two connections, and twenty requests that wait in the queue. The others are rejected at once.
      await eventually(() => rejections.length >= 8, 'the first rejections')
      assert.equal(await askOne(nodes.project, 'service_role', 'select 1', { on }), '1')
      await eventually(() => rejections.length >= 28, 'rejections after the time in the queue')
      await session.rows(sql`select pg_advisory_unlock(1)`)
      await Promise.all(work)
      assert.equal(rejections.length, 28, 'two connections serve two requests')
      for (const error of rejections) {
        assert.ok(error instanceof Refusal)
        const actual = [error.code, error.status, error.headers]
        assert.deepEqual(actual, ['pool_exhausted', 429, { 'retry-after': '1' }])
      }
    })
    assert.equal(await askOne(busy, 'service_role', 'select 1', { on }), '1')
  })

  it('fast statements are answered while slow ones use every connection', async () => {
    const busy = await newProject('create table small (a int); insert into small values (1)')
    const count = 'select count(*) from small'
    const quick = () => askOne(busy, 'service_role', count, { on: nodes.twoConnections, mayPipeline: true })
    async function isAnsweredMeanwhile(): Promise<boolean> {
      for (let run = 0; run < 10; run++) await quick()
      let isSlowDone = false
      const slow = [0, 1].map(() =>
        ask(busy, 'service_role', 'select pg_sleep(0.7)', { on: nodes.twoConnections }).then(() => {
          isSlowDone = true
        }),
      )
      await sleep(50)
      assert.equal(await quick(), '1')
      const isAnswered = !isSlowDone
      await Promise.all(slow)
      return isAnswered
    }
    // Until the statement has been fast, it waits for a connection of its own.
    await eventually(isAnsweredMeanwhile, 'an answer before the slow ones')
  })

  it('the connection limit of a Postgres role gives the same error', async () => {
    const limited = await newProject()
    const limit = (count: number) =>
      nodes.standard.asSuperuser('postgres', session =>
        session.script(`alter role ${limited.ref}_svc connection limit ${count}`),
      )
    await limit(0)
    const refused = await ask(limited, 'service_role', 'select 1').catch((error: Refusal) => error)
    assert.ok(refused instanceof Refusal)
    assert.deepEqual([refused.code, refused.headers['retry-after']], ['pool_exhausted', '1'])
    await limit(2)
    // Two connections serve all ten in turn.
    const work = Array.from({ length: 10 }, () =>
      outcomeOf(ask(limited, 'service_role', 'select pg_sleep(0.05)')),
    )
    assert.deepEqual(countByCode(await Promise.all(work)), { done: 10 })
    assert.ok((await backends(limited)).length <= 2)
  })
})

describe('PLATFORM_MAX_DB_CONNECTIONS', () => {
  it('idle connections of other projects are closed to stay within it', async () => {
    const projects = await Promise.all(Array.from({ length: 4 }, () => newProject()))
    for (const each of [...projects, ...projects]) {
      assert.equal(await askOne(each, 'anon', 'select 1', { on: nodes.capped }), '1')
      assert.equal(await askOne(each, 'service_role', 'select 1', { on: nodes.capped }), '1')
      assert.ok(
        nodes.capped.app.databases.connections() <= 4,
        `${nodes.capped.app.databases.connections()} connections`,
      )
    }
    const open = async () => (await Promise.all(projects.map(backends))).flat().length
    await eventually(async () => (await open()) <= 4, 'at most four sessions on the server')
  })

  it('a project waits and gets pool_exhausted while others use all connections', async () => {
    const [other, third] = [await newProject(), await newProject()]
    const release = await lockIn(nodes.project, other)
    const held = [nodes.project, nodes.project, other, other].map(each =>
      outcomeOf(ask(each, 'service_role', 'select pg_advisory_lock_shared(1)', { on: nodes.capped })),
    )
    const waiting = async () =>
      [...(await backends(nodes.project)), ...(await backends(other))].filter(
        ({ state, query }) => state === 'active' && query.includes('pg_advisory_lock_shared'),
      ).length
    await eventually(async () => (await waiting()) === 4, 'all four connections are in use')
    assert.equal(nodes.capped.app.databases.connections(), 4)
    assert.equal(await outcomeOf(ask(third, 'anon', 'select 1', { on: nodes.capped })), 'pool_exhausted')
    await release()
    assert.deepEqual(countByCode(await Promise.all(held)), { done: 4 })
    const askThird = () => outcomeOf(ask(third, 'anon', 'select 1', { on: nodes.capped }))
    await eventually(
      async () => (await askThird()) === 'done',
      'an idle connection of another project is closed',
    )
  })
})
