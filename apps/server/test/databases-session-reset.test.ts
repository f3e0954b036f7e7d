// No state of a request stays on the connection for the next one (faults and attacks 4).
import assert from 'node:assert/strict'
import { before, describe, it } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import { sql } from '#src/kernel/postgres/sql.ts'
import { databaseNodes, outcomeOf, type Project, user1, user2 } from './database-nodes.ts'
import { eventually } from './eventually.ts'

const { nodes, newProject, asOwner, ask, askOne } = databaseNodes('oneConnection')

describe('session reset between requests', () => {
  const poisons: Record<string, string> = {
    'a changed role': `perform set_config('role', 'authenticated', false)`,
    'a reset role': 'reset role',
    'changed claims': `perform set_config('request.jwt.claims', '{"sub":"${user1}","role":"service_role"}', false)`,
    'a changed search_path': `perform set_config('search_path', 'pg_catalog', false)`,
    'a changed statement_timeout': `perform set_config('statement_timeout', '1', false)`,
    'a changed client_encoding': `perform set_config('client_encoding', 'LATIN1', false)`,
    'changed facts of the request': `perform set_config('request.method', 'PUT', false), set_config('request.user_id', '${user1}', false)`,
    'a custom setting': `perform set_config('my.secret', 'mine', false)`,
    'row_security = off': `perform set_config('row_security', 'off', false)`,
    'changed string syntax': `perform set_config('standard_conforming_strings', 'off', false)`,
    'a changed DateStyle': `perform set_config('DateStyle', 'German', false)`,
    'LISTEN and its notifications': `execute 'listen news'; perform pg_notify('news', 'x')`,
    'DEALLOCATE ALL': `execute 'deallocate all'`,
    'DISCARD PLANS': `execute 'discard plans'`,
  }
  const state = `select pg_backend_pid(), current_user, auth.uid(), current_setting('search_path'),
    current_setting('statement_timeout'), current_setting('client_encoding'), coalesce(current_setting('my.secret', true), ''),
    current_setting('row_security'), 'a\\b', make_date(2026, 1, 2), $1::text, current_setting('request.method'),
    current_setting('request.user_id')`
  const clean = (pid: string) => [
    [
      pid,
      'anon',
      null,
      '"public", "extensions", "pg_temp"',
      '1s',
      'UTF8',
      '',
      'on',
      'a\\b',
      '2026-01-02',
      'ä表',
      'GET',
      '',
    ],
  ]
  let poisoned: Project
  const poison = async (body: string): Promise<void> =>
    asOwner(
      poisoned,
      `create or replace function poison() returns text language plpgsql as
         $$ begin ${body}; return pg_backend_pid(); end $$;
       create or replace function poison_and_fail() returns text language plpgsql as
         $$ begin ${body}; raise exception using errcode = 'P0099', message = 'after poisoning'; end $$`,
    )
  const refresh = () => nodes.oneConnection.app.databases.disconnect(poisoned.id)

  before(async () => {
    poisoned = await newProject('create table kept (a int)')
  })

  for (const [what, body] of Object.entries(poisons))
    it(`the next request does not see ${what} of a request that succeeded or failed`, async () => {
      await poison(body)
      const pid = (await askOne(poisoned, 'authenticated', 'select poison()', {
        sub: user2,
        on: nodes.oneConnection,
      }))!
      assert.deepEqual(
        await ask(poisoned, 'anon', state, { values: ['ä表'], on: nodes.oneConnection }),
        clean(pid),
      )
      const failing = ask(poisoned, 'authenticated', 'select poison_and_fail()', {
        sub: user2,
        on: nodes.oneConnection,
      })
      await assert.rejects(failing, { code: 'P0099' })
      assert.deepEqual(
        await ask(poisoned, 'anon', state, { values: ['ä表'], on: nodes.oneConnection }),
        clean(pid),
      )
      // Every statement is prepared by now.
      await ask(poisoned, 'authenticated', 'select poison()', { sub: user2, on: nodes.oneConnection })
      assert.deepEqual(
        await ask(poisoned, 'anon', state, { values: ['ä表'], on: nodes.oneConnection }),
        clean(pid),
      )
    })

  it('a request that timed out leaves no settings', async () => {
    const pid = (await askOne(poisoned, 'anon', 'select pg_backend_pid()', { on: nodes.oneConnection }))!
    const slow = `select set_config('my.secret', 'mine', false), pg_sleep(5)`
    assert.equal(await outcomeOf(ask(poisoned, 'anon', slow, { on: nodes.oneConnection })), '57014')
    const [seen] = await ask(poisoned, 'authenticated', state, { values: ['ä表'], on: nodes.oneConnection })
    assert.deepEqual(seen, clean(pid)[0]!.with(1, 'authenticated').with(4, '8s'))
  })

  it('a request whose client disconnected leaves no settings', async () => {
    const pid = (await askOne(poisoned, 'anon', 'select pg_backend_pid()', { on: nodes.oneConnection }))!
    const client = new AbortController()
    const slow = `select set_config('my.secret', 'mine', false), pg_sleep(5)`
    const aborted = outcomeOf(
      ask(poisoned, 'authenticated', slow, { sub: user1, signal: client.signal, on: nodes.oneConnection }),
    )
    await sleep(50)
    client.abort()
    assert.equal(await aborted, 'client_closed_request')
    assert.deepEqual(
      await ask(poisoned, 'anon', state, { values: ['ä表'], on: nodes.oneConnection }),
      clean(pid),
    )
  })

  it('a transaction left open is not continued by the next request', async () => {
    await ask(poisoned, 'service_role', 'begin', { on: nodes.oneConnection })
    assert.deepEqual(
      await ask(poisoned, 'service_role', 'insert into kept values (1) returning a', {
        on: nodes.oneConnection,
      }),
      [['1']],
    )
    assert.equal(
      await askOne(poisoned, 'service_role', 'select count(*) from kept', { on: nodes.oneConnection }),
      '1',
    )
  })

  it('default_transaction_read_only of one request does not apply to the next', async () => {
    await poison(`perform set_config('default_transaction_read_only', 'on', false)`)
    await ask(poisoned, 'service_role', 'select poison()', { on: nodes.oneConnection })
    const inserted = await outcomeOf(
      ask(poisoned, 'service_role', 'insert into kept values (2)', { on: nodes.oneConnection }),
    )
    refresh()
    assert.equal(inserted, 'done')
  })

  it('a session-level advisory lock is released', async () => {
    await poison('perform pg_advisory_lock(4711)')
    await ask(poisoned, 'anon', 'select poison()', { on: nodes.oneConnection })
    await ask(poisoned, 'anon', 'select 1', { on: nodes.oneConnection })
    const held = await nodes.standard.asSuperuser(poisoned.ref, session =>
      session.rows(
        sql`select from pg_locks where locktype = 'advisory' and objid = 4711
              and database = (select oid from pg_database where datname = current_database())`,
      ),
    )
    refresh()
    assert.equal(held.length, 0)
  })

  it('an advisory lock on a pipelined connection is released with the next statements', async () => {
    const own = await newProject(`create function locks() returns int language sql as
      'select pg_advisory_lock(4712); select 1'`)
    const many = (text: string) =>
      Promise.all(Array.from({ length: 20 }, () => ask(own, 'anon', text, { mayPipeline: true })))
    for (let run = 0; run < 5; run++) await many('select locks()')
    const held = () =>
      nodes.standard.asSuperuser(own.ref, session =>
        session.rows(
          sql`select from pg_locks where locktype = 'advisory' and objid = 4712
                and database = (select oid from pg_database where datname = current_database())`,
        ),
      )
    const areGone = async () => {
      await many('select 2')
      return (await held()).length === 0
    }
    await eventually(areGone, 'the locks are released')
  })

  it('lastval() of one request is not visible to the next', async () => {
    await asOwner(poisoned, 'create sequence drawn start 4711')
    await ask(poisoned, 'authenticated', `select nextval('drawn')`, { on: nodes.oneConnection })
    assert.equal(
      await outcomeOf(ask(poisoned, 'anon', 'select lastval()', { on: nodes.oneConnection })),
      '55000',
    )
  })

  it('prepared statements with the names that the platform uses do not break the next request', async () => {
    await poison(`for i in 0..900 loop begin execute format('prepare s%s as select 1', i);
      exception when duplicate_prepared_statement then null; end; end loop`)
    await ask(poisoned, 'anon', 'select poison()', { on: nodes.oneConnection })
    const next = await outcomeOf(ask(poisoned, 'anon', 'select 2', { on: nodes.oneConnection }))
    refresh()
    assert.equal(next, 'done')
  })
})
