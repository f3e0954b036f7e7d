// Request context in SQL: settings that functions can read, headers and status that they can set, and cancellation when
// a client disconnects.
import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import type { CreatedProject } from '@plinth/contract/projects.ts'
import { sql } from '#src/kernel/postgres/sql.ts'
import { eventually } from './eventually.ts'
import { type CallOptions, type Reply, startPlatform, type TestPlatform } from './harness.ts'

let platform: TestPlatform
let project: CreatedProject

before(async () => {
  platform = await startPlatform({
    settings: {
      PLATFORM_RATE_LIMIT_SERVICE_ROLE: '0',
      PLATFORM_RATE_LIMIT_ANON: '0',
      // A statement that is not cancelled outlasts the limit of the test.
      PLATFORM_STATEMENT_TIMEOUT_MS: '600000',
    },
  })
  project = await platform.createProject()
  const { status, body } = await call('POST', 'rpc/exec_sql', {
    apikey: project.service_role_key,
    body: {
      sql: `
        create table things (id int primary key, name text);
        create policy all_of_them on things using (true);
        create function setting(name text) returns text language sql stable as $$ select current_setting(name, true) $$;
        create function answer(headers text, status text) returns int language sql as $$
          select set_config('response.headers', headers, true), set_config('response.status', status, true); select 1 $$;
        create function scribble() returns void language sql as $$ insert into things values (99, 'scribbled') $$;
        create function wait_for_lock() returns int language sql as $$ select pg_advisory_xact_lock_shared(1); select 1 $$;
        create function slow(seconds float) returns int language sql stable as $$ select pg_sleep(seconds); select 1 $$;
        create function decorated() returns trigger language plpgsql as $$ begin
          perform set_config('response.headers', '[{"X-Made-By":"a trigger"}]', true); return new; end $$;
        create trigger decorated before insert on things for each row execute function decorated();`,
    },
  })
  assert.equal(status, 200, JSON.stringify(body))
})
after(() => platform?.stop())

const call = (method: string, path: string, options: CallOptions = {}): Promise<Reply> =>
  platform.call(method, `/v1/rest/${project.id}/${path}`, { apikey: project.anon_key, ...options })

test('row requests: a function can read method, path, headers and cookies of the request', async () => {
  const setting = async (name: string) =>
    (await call('POST', 'rpc/setting', { body: { name }, headers: { 'x-mine': 'ä', cookie: 'a=1; b=2=3' } }))
      .body
  assert.equal(await setting('request.method'), 'POST')
  assert.equal(await setting('request.path'), '/rpc/setting')
  assert.deepEqual(JSON.parse(await setting('request.cookies')), { a: '1', b: '2=3' })
  const headers = JSON.parse(await setting('request.headers'))
  assert.equal(headers['x-mine'], 'ä')
  assert.equal(headers.apikey, project.anon_key)
})

test('row requests: cookies of one request are not visible in the next', async () => {
  const cookies = (headers: Record<string, string>) =>
    call('GET', 'rpc/setting?name=request.cookies', { headers })
  for (let run = 0; run < 6; run++) {
    assert.equal((await cookies({ cookie: `run=${run}` })).body, `{"run":"${run}"}`)
    assert.ok([null, ''].includes((await cookies({})).body))
  }
})

test('row requests: functions and triggers can set headers and the status', async () => {
  const body = { headers: '[{"X-One":"1"},{"cache-control":"no-store"}]', status: '202' }
  const answered = await call('POST', 'rpc/answer', { body })
  assert.equal(answered.status, 202)
  assert.equal(answered.headers.get('x-one'), '1')
  assert.equal(answered.headers.get('cache-control'), 'no-store')
  const inserted = await call('POST', 'things', {
    body: { id: 1, name: 'one' },
    apikey: project.service_role_key,
  })
  assert.equal(inserted.status, 201)
  assert.equal(inserted.headers.get('x-made-by'), 'a trigger')
})

test('row requests: invalid or framing headers and invalid statuses of a function are rejected', async () => {
  for (const headers of [
    '{"a":"b"}',
    '[{"a":1}]',
    'x',
    '[{"a b":"c"}]',
    '[{"a":"b\\nc"}]',
    '[{"Content-Length":"1"}]',
    '[{"transfer-encoding":"chunked"}]',
  ]) {
    const { status, body } = await call('POST', 'rpc/answer', { body: { headers, status: '' } })
    assert.deepEqual([status, body.code], [500, 'PGRST111'], headers)
  }
  for (const status of ['ok', '99', '600', '1e3'])
    assert.equal(
      (await call('POST', 'rpc/answer', { body: { headers: '', status } })).body.code,
      'PGRST112',
      status,
    )
})

test('row requests: a function called by GET cannot write', async () => {
  const options = { apikey: project.service_role_key }
  const { status, body } = await call('GET', 'rpc/scribble', options)
  assert.deepEqual([status, body.code], [405, '25006'])
  assert.deepEqual((await call('GET', 'things?id=eq.99', options)).body, [])
  assert.equal((await call('POST', 'rpc/scribble', { ...options, body: {} })).status, 204)
  assert.equal((await call('GET', 'things?id=eq.99', options)).body.length, 1)
})

test('row requests: a body of more than 10 MB is 413', async () => {
  const body = `[{"id":5,"name":"${'x'.repeat(10 * 1024 * 1024)}"}]`
  const { status } = await call('POST', 'things', { body, apikey: project.service_role_key })
  assert.equal(status, 413)
})

test('row requests: the statement of a disconnected client is cancelled', async () => {
  const ref = await platform.refOf(project.id)
  const running = async () =>
    (
      await platform.asSuperuser('postgres', session =>
        session.rows(
          sql`select 1 from pg_stat_activity where datname = ${ref} and state = 'active' and query like '%"slow"%'`,
        ),
      )
    ).length
  const url = `${platform.url}/v1/rest/${project.id}/rpc/slow?seconds=600`
  const controller = new AbortController()
  const reply = fetch(url, {
    headers: { apikey: project.service_role_key },
    signal: controller.signal,
  }).catch(() => {})
  await eventually(running, 'the statement runs')
  controller.abort()
  await reply
  await eventually(async () => (await running()) === 0, 'the statement is cancelled')
})

test('row requests: requests are answered while slow functions run', async () => {
  await platform.asSuperuser(await platform.refOf(project.id), async session => {
    await session.rows(sql`select pg_advisory_lock(1)`)
    const slow = [1, 2, 3, 4].map(() =>
      call('POST', 'rpc/wait_for_lock', { apikey: project.service_role_key, body: {} }),
    )
    for (let run = 0; run < 40; run++) assert.equal((await call('GET', 'things?id=eq.1')).status, 200)
    await session.rows(sql`select pg_advisory_unlock(1)`)
    for (const { status } of await Promise.all(slow)) assert.equal(status, 200)
  })
})

test('row requests: exec_sql rejects COPY FROM STDIN', async () => {
  const { status, body } = await call('POST', 'rpc/exec_sql', {
    apikey: project.service_role_key,
    body: { sql: 'copy things from stdin' },
  })
  assert.deepEqual([status, body.code], [400, 'invalid_request'])
  assert.match(body.message, /COPY/)
})

test('row requests: a request is one database call, and requests of the same shape share one statement', async () => {
  const { databases } = platform.app
  const { asCaller } = databases
  const sent: Parameters<typeof asCaller>[2][] = []
  databases.asCaller = (...given) => {
    sent.push(given[2])
    return asCaller(...given)
  }
  const statementsOf = async (...requests: Parameters<typeof call>[]) => {
    sent.length = 0
    for (const request of requests) await call(...request)
    assert.equal(sent.length, requests.length)
    return new Set(sent).size
  }
  const service = { apikey: project.service_role_key }
  const one = { prefer: 'return=representation', accept: 'application/vnd.pgrst.object+json' }
  const patch = { ...service, body: { name: 'x' } }
  try {
    await call('GET', 'things?id=eq.1')
    assert.equal(
      await statementsOf(['GET', 'things?id=eq.1'], ['GET', 'things?id=eq.2'], ['GET', 'things?id=eq.3']),
      1,
    )
    assert.equal(await statementsOf(['GET', 'things?id=eq.1'], ['GET', 'things?id=gt.1']), 2)
    const few = { ...patch, headers: { prefer: 'handling=strict,max-affected=0' } }
    const single = { ...patch, headers: one }
    assert.equal(await statementsOf(['PATCH', 'things?id=eq.1', few], ['PATCH', 'things?id=eq.99', few]), 1)
    assert.equal(
      await statementsOf(['PATCH', 'things?id=gt.0', single], ['PATCH', 'things?id=gt.1', single]),
      1,
    )
  } finally {
    databases.asCaller = asCaller
  }
})
