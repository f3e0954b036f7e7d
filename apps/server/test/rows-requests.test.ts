// What passes between a request and SQL beyond rows: what functions may know, what they may set, and what a client
// that goes away leaves running.
import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import type { CreatedProject } from '@plinth/contract/projects.ts'
import { sql } from '#src/kernel/postgres/sql.ts'
import { type CallOptions, type Reply, startPlatform, type TestPlatform } from './harness.ts'
import { promptly } from './promptly.ts'

let platform: TestPlatform
let project: CreatedProject

before(async () => {
  platform = await startPlatform({
    settings: { PLATFORM_RATE_LIMIT_SERVICE_ROLE: '0', PLATFORM_RATE_LIMIT_ANON: '0' },
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

test('a function may know method, path, headers and cookies of the request', async () => {
  const setting = async (name: string) =>
    (await call('POST', 'rpc/setting', { body: { name }, headers: { 'x-mine': 'ä', cookie: 'a=1; b=2=3' } }))
      .body
  assert.equal(await setting('request.method'), 'POST')
  assert.equal(await setting('request.path'), `/v1/rest/${project.id}/rpc/setting`)
  assert.deepEqual(JSON.parse(await setting('request.cookies')), { a: '1', b: '2=3' })
  const headers = JSON.parse(await setting('request.headers'))
  assert.equal(headers['x-mine'], 'ä')
  assert.equal(headers.apikey, project.anon_key)
})

test('cookies of one request are not those of the next', async () => {
  const cookies = (headers: Record<string, string>) =>
    call('GET', 'rpc/setting?name=request.cookies', { headers })
  for (let run = 0; run < 6; run++) {
    assert.equal((await cookies({ cookie: `run=${run}` })).body, `{"run":"${run}"}`)
    assert.ok([null, ''].includes((await cookies({})).body))
  }
})

test('functions and triggers may set headers and the status', async () => {
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

test('what is no header, frames the answer, or is no status is refused and undone', async () => {
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

test('GET never writes, whatever the function does', async () => {
  const options = { apikey: project.service_role_key }
  const { status, body } = await call('GET', 'rpc/scribble', options)
  assert.deepEqual([status, body.code], [405, '25006'])
  assert.deepEqual((await call('GET', 'things?id=eq.99', options)).body, [])
  assert.equal((await call('POST', 'rpc/scribble', { ...options, body: {} })).status, 204)
  assert.equal((await call('GET', 'things?id=eq.99', options)).body.length, 1)
})

test('a body of more than 10 MB is refused before it is read', async () => {
  const body = `[{"id":5,"name":"${'x'.repeat(10 * 1024 * 1024)}"}]`
  const { status } = await call('POST', 'things', { body, apikey: project.service_role_key })
  assert.equal(status, 413)
})

test('a client that goes away ends what it had asked for', async () => {
  const ref = await platform.refOf(project.id)
  const running = async () =>
    (
      await platform.asSuperuser('postgres', session =>
        session.rows(
          sql`select 1 from pg_stat_activity where datname = ${ref} and state = 'active' and query like '%"slow"%'`,
        ),
      )
    ).length
  const url = `${platform.url}/v1/rest/${project.id}/rpc/slow?seconds=7`
  const controller = new AbortController()
  const asked = fetch(url, {
    headers: { apikey: project.service_role_key },
    signal: controller.signal,
  }).catch(() => {})
  for (const end = Date.now() + 20_000; (await running()) === 0; await sleep(10)) assert.ok(Date.now() < end)
  controller.abort()
  await asked
  for (const end = Date.now() + 6000; (await running()) > 0; await sleep(10))
    assert.ok(Date.now() < end, 'the statement goes on without anybody to answer')
})

test('callers of slow functions hold up nobody else', async () => {
  // Forty quick reads are done before the slow ones are.
  await promptly(2500, async () => {
    const begun = performance.now()
    const slow = [1, 2, 3, 4].map(() => call('POST', 'rpc/slow', { body: { seconds: 2.5 } }))
    for (let run = 0; run < 40; run++) assert.equal((await call('GET', 'things?id=eq.1')).status, 200)
    const ms = performance.now() - begun
    for (const { status } of await Promise.all(slow)) assert.equal(status, 200)
    return ms
  })
})

test('exec_sql refuses a COPY that nobody could feed, at once', async () => {
  const started = performance.now()
  const { status, body } = await call('POST', 'rpc/exec_sql', {
    apikey: project.service_role_key,
    body: { sql: 'copy things from stdin' },
  })
  assert.deepEqual([status, body.code], [400, 'invalid_request'])
  assert.match(body.message, /COPY/)
  assert.ok(performance.now() - started < 5000, 'long before any timeout')
})

test('a request is one round trip, and requests of one shape share one statement', async () => {
  const { databases } = platform.app
  const ask = databases.asCaller
  const asked: Parameters<typeof ask>[2][] = []
  databases.asCaller = (...given) => {
    asked.push(given[2])
    return ask(...given)
  }
  const statementsOf = async (...requests: Parameters<typeof call>[]) => {
    asked.length = 0
    for (const request of requests) await call(...request)
    assert.equal(asked.length, requests.length)
    return new Set(asked).size
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
    databases.asCaller = ask
  }
})
