// Statements of clients that disconnect, and of projects that are suspended.
import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import { countByCode, databaseNodes, outcomeOf, type Project } from './database-nodes.ts'
import { eventually } from './eventually.ts'

const { nodes, newProject, ask, askOne, backends } = databaseNodes('twoConnections')

describe('a client that disconnects', () => {
  it('while its statement is queued removes it from the queue', async () => {
    const own = await newProject('create table written (a int)')
    const running = [0, 1].map(() =>
      outcomeOf(ask(own, 'service_role', 'select pg_sleep(0.4)', { on: nodes.twoConnections })),
    )
    await sleep(100)
    const client = new AbortController()
    const waiting = outcomeOf(
      ask(own, 'service_role', 'insert into written values (1)', {
        on: nodes.twoConnections,
        signal: client.signal,
      }),
    )
    client.abort()
    assert.equal(await waiting, 'client_closed_request')
    await Promise.all(running)
    assert.equal(
      await askOne(own, 'service_role', 'select count(*) from written', { on: nodes.twoConnections }),
      '0',
    )
  })

  it('before its statement is sent gets client_closed_request', async () => {
    const work = ask(nodes.project, 'anon', 'select 1', { signal: AbortSignal.abort() })
    assert.equal(await outcomeOf(work), 'client_closed_request')
  })

  it('while its statement runs cancels the statement and frees the connection', async () => {
    const own = await newProject()
    for (let round = 0; round < 4; round++) {
      const client = new AbortController()
      const work = outcomeOf(
        ask(own, 'service_role', 'select pg_sleep(60)', { on: nodes.twoConnections, signal: client.signal }),
      )
      await sleep(30)
      client.abort()
      assert.equal(await work, 'client_closed_request')
    }
    const next = [0, 1].map(() => askOne(own, 'service_role', 'select 1', { on: nodes.twoConnections }))
    assert.deepEqual(await Promise.all(next), ['1', '1'])
    assert.ok((await backends(own)).every(({ state }) => state === 'idle'))
  })

  /** Runs for about a millisecond and increments a sequence, which a rollback does not undo. */
  const brief = 'select count(*) from (select nextval($1) offset 0) n, generate_series(1, 6000)'

  it('a hundred times never cancels the next statement on the connection', async () => {
    const own = await newProject('create sequence aborted; create sequence next')
    const codes: string[] = []
    for (let round = 0; round < 100; round++) {
      const client = new AbortController()
      const work = outcomeOf(ask(own, 'anon', brief, { values: ['aborted'], signal: client.signal }))
      setTimeout(() => client.abort(), (round % 5) * 0.5)
      assert.ok(['done', 'client_closed_request'].includes(await work))
      codes.push(await outcomeOf(ask(own, 'anon', brief, { values: ['next'] })))
    }
    assert.deepEqual(countByCode(codes), { done: 100 })
    assert.equal(await askOne(own, 'anon', 'select last_value from next'), '100', 'none ran twice')
  })

  it('among others that disconnect never cancels the statement of another client', async () => {
    const own = await newProject('create sequence aborted; create sequence bystanders')
    const seen: string[] = []
    for (let round = 0; round < 60; round++) {
      const work: Promise<unknown>[] = []
      for (let index = 0; index < 4; index++) {
        const client = new AbortController()
        work.push(outcomeOf(ask(own, 'anon', brief, { values: ['aborted'], signal: client.signal })))
        setTimeout(() => client.abort(), Math.random() * 3)
        work.push(
          outcomeOf(ask(own, 'anon', brief, { values: ['bystanders'] })).then(code => seen.push(code)),
        )
      }
      await Promise.all(work)
    }
    assert.deepEqual(countByCode(seen), { done: 240 })
    assert.equal(await askOne(own, 'anon', 'select last_value from bystanders'), '240')
  })
})

describe('a suspended project', () => {
  const suspend = ({ id }: Project) =>
    nodes.standard.call('POST', `/api/v1/projects/${id}/suspend`, { token: nodes.standard.adminToken })

  it('has no connections left on any node', async () => {
    const own = await newProject()
    for (const on of [nodes.standard, nodes.twoConnections])
      for (const role of ['anon', 'service_role'] as const)
        for (let run = 0; run < 5; run++) await ask(own, role, 'select 1', { on, mayPipeline: true })
    assert.ok((await backends(own)).length >= 4)
    assert.equal((await suspend(own)).status, 200)
    await eventually(async () => (await backends(own)).length === 0, 'its connections are closed')
  })

  it('has its running statements terminated', async () => {
    const own = await newProject('create table written (a int)')
    const running = outcomeOf(ask(own, 'service_role', 'insert into written select 1 from pg_sleep(7)'))
    await eventually(
      async () => (await backends(own)).some(({ state }) => state === 'active'),
      'the statement runs',
    )
    await suspend(own)
    try {
      await eventually(async () => (await backends(own)).length === 0, 'its connections are closed')
    } finally {
      await running
    }
  })
})
